"""The common part of operations: their first argument, topics they may reveal, names to ids, and listings in pages."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.errors import InvalidPage, UnknownGroup
from penstock.log.contract import Log, Topic
from penstock.log.store import Store, StoreLike, store_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

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


def hidden_topics(log: Log, seen: SeesTopic) -> list[Topic]:
    """Return the topics that the caller may not see."""
    return [] if seen is every_topic else [each for each in log.topics() if not seen(each.name)]


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


# -- pages

PAGE_ROWS = 16  # of a page, by default
LONGEST = 1000
LAST = (1 << 63) - 1  # the largest integer of a column


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a listing. `after`: where the next page begins; None after the last page."""

    items: list[T]
    after: str | None


def check_limit(limit: int) -> int:
    """Return the limit if it is valid. Raises InvalidPage."""
    if not 1 <= limit <= LONGEST:
        raise InvalidPage("the limit", limit, f"1 to {LONGEST}")
    return limit


def seen_by_name(
    read: Callable[[str], Sequence[Row]], after: str, limit: int, seen: Callable[[Row], bool]
) -> list[Row]:
    """Return the rows of a page, and one more if there is one, without those that the caller may not see.

    `read` returns up to `limit` + 1 rows after a name, which they begin with.
    """
    found: list[Row] = []
    while len(found) <= limit:
        rows = read(after)
        found += filter(seen, rows)
        if len(rows) <= limit:
            break
        after = rows[-1][0]
    return found[: limit + 1]


def page(rows: Sequence[Row], limit: int, place: int, item: Callable[[Row], T]) -> Page[T]:
    """Return a page of rows, which begin with their place; a row beyond `limit` tells that there are more."""
    after = page_mark(rows[limit - 1][:place]) if len(rows) > limit else None
    return Page([item(row) for row in rows[:limit]], after)


def page_mark(place: Any) -> str:
    """Return the `after` of a page that ends at a place."""
    return urlsafe_b64encode(msgspec.msgpack.encode(place)).decode().rstrip("=")


def place_marked(after: str, kind: Any) -> Any:
    """Return the place, of a type, that a page's `after` names. Raises InvalidPage."""
    try:
        padded = after.encode("ascii") + b"=" * (-len(after) % 4)
        return msgspec.msgpack.decode(urlsafe_b64decode(padded), type=kind)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise wrong_mark(after) from None


def place_after(after: str | None, limit: int, *first: Any, least: int = 0) -> Row:
    """Return the place that a page's `after` names, or the first, which has its types; checks the limit as well.

    Raises InvalidPage.
    """
    check_limit(limit)
    if after is None:
        return first
    place: Row = place_marked(after, tuple[tuple(map(type, first))])  # type: ignore[misc]
    if any(isinstance(each, int) and not least <= each <= LAST for each in place):
        raise wrong_mark(after)
    return place


def places_after(after: str | None, limit: int, first: dict[str, Any], *, least: int = 0) -> dict[str, Any]:
    """Return the same by the names of parameters. Raises InvalidPage."""
    return dict(zip(first, place_after(after, limit, *first.values(), least=least), strict=True))


def wrong_mark(after: str) -> InvalidPage:
    """Return the error for an `after` that no page of the listing has."""
    return InvalidPage("the place to go on from", after, "the `after` of a page of the same listing")
