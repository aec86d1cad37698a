"""Groups and topics by name, for the operations on them."""

from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.errors import UnknownGroup
from penstock.log.contract import Log
from penstock.log.store import Store


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
    return (
        text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        .encode("utf-8", "surrogatepass")
        .decode(errors="replace")
    )
