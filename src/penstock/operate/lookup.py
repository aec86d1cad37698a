"""Groups and topics by name, for the operations on them."""

from penstock.errors import UnknownGroup
from penstock.log.sql.database import Database, Transaction
from penstock.log.sql.log import SqlLog


def group_id(database: Database, name: str) -> int:
    """Return a group's id. Raises UnknownGroup."""

    def look(tx: Transaction) -> int:
        rows = tx.rows("delivery", "group_find", name=storable(name))
        if not rows:
            raise UnknownGroup(name)
        return int(rows[0][0])

    return database.look(look)


def ids(database: Database, group: str | None, topic: str | None) -> dict[str, int | None]:
    """Return the ids of a group and a topic, None for one that is not named.

    Raises UnknownGroup, UnknownTopic, InvalidTopic.
    """
    return {
        "group_id": None if group is None else group_id(database, group),
        "topic_id": None if topic is None else SqlLog(database).topic(topic).id,
    }


def storable(text: str) -> str:
    """Return a text as every database takes it; what no row can hold becomes a text that none has."""
    return (
        text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        .encode("utf-8", "surrogatepass")
        .decode(errors="replace")
    )
