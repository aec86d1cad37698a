"""Records that no group reads: they are in the log of a topic, and no group has a cursor there.

This is not an error, since a reader may come later; but often a handler was never registered, so a metric
counts them.
"""

from penstock import metrics
from penstock.log.store import Store


def unread(store: Store) -> dict[str, int]:
    """Return the topics that have records and no group, each with the number of records."""
    read = {row[0] for row in store.database.look(lambda tx: tx.rows("delivery", "topics_read"))}
    topics = [each for each in store.log.topics() if each.id not in read]
    bounds = store.log.bounds_of(topics)
    counts = {each.name: sum(end - start for start, end in bounds[each.id].values()) for each in topics}
    return {name: count for name, count in counts.items() if count}


def measure(store: Store) -> None:
    """Set the series of records that no group reads; topics that have a reader now go to 0."""
    found = unread(store)
    known = {topic for name, topic in metrics.UNREAD.values() if name == store.name}
    for topic in known | found.keys():
        metrics.UNREAD.set(found.get(topic, 0), store=store.name, topic=topic)
