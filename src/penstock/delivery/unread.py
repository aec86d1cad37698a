"""Records that no group reads: in the log of a topic, and nobody has a cursor there.

No error, since a reader may come later; but often a handler that was never registered, so a series says it.
"""

from penstock import metrics
from penstock.log.sql.database import Database, Transaction


def unread(tx: Transaction) -> dict[str, int]:
    """Return the topics that have records and no group, each with how many."""
    return {name: int(count) for name, count in tx.rows("delivery", "topics_unread")}


def measure(database: Database) -> None:
    """Set the series of records that no group reads; topics that have a reader now go to 0."""
    found = database.look(unread)
    known = {topic for (topic,) in metrics.UNREAD.values()}
    for topic in known | found.keys():
        metrics.UNREAD.set(found.get(topic, 0), topic=topic)
