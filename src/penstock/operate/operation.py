"""What operations share: their first argument, the topics they may reveal, groups and topics by name."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.errors import UnknownGroup
from penstock.log.contract import Log
from penstock.log.store import Store, StoreLike, store_of

P = ParamSpec("P")
R = TypeVar("R")

_NAMES = ("outbox", "store", "database")  # of the keyword argument


def operation(function: Callable[Concatenate[Store, P], R]) -> Callable[Concatenate[StoreLike, P], R]:
    """Let a function on a store take anything that has one: as the first argument or by one of `_NAMES`."""

    @wraps(function)
    def with_store(*args: Any, **kwargs: Any) -> R:
        given = [*args[:1], *(kwargs.pop(name) for name in _NAMES if name in kwargs)]
        if len(given) != 1:
            raise TypeError(f"{function.__name__}() takes one outbox, store or database, and takes it first")
        return function(store_of(given[0]), *args[1:], **kwargs)

    return with_store


SeesTopic = Callable[[str], bool]  # whether the caller may see a topic, by its name


def every_topic(_: str) -> bool:
    """Allow every topic."""
    return True


def group_id(store: Store, name: str) -> int:
    """Return a group's id. Raises UnknownGroup."""

    def look(tx: Transaction) -> int:
        rows = tx.rows("delivery", "group_find", name=storable(name))
        if not rows:
            raise UnknownGroup(name)
        return int(rows[0][0])

    return store.database.look(look)


def ids(store: Store, group: str | None, topic: str | None) -> dict[str, int | None]:
    """Return the ids of a group and a topic; None for one that is not given.

    Raises UnknownGroup, UnknownTopic, InvalidTopic.
    """
    return {
        "group_id": None if group is None else group_id(store, group),
        "topic_id": None if topic is None else store.log.topic(topic).id,
    }


def with_topic_names(log: Log, rows: list[Row], *, id_at: int, name_at: int) -> list[Row]:
    """Return rows with their topic's name inserted, without those of deleted topics."""
    names = {each.id: each.name for each in log.topics()} if rows else {}
    return [(*row[:name_at], names[row[id_at]], *row[name_at:]) for row in rows if row[id_at] in names]


def storable(text: str) -> str:
    """Return a text that every database accepts; with characters that none can store it matches no row."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "surrogatepass").decode(errors="replace")
