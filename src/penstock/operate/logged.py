"""Records of the log by the progress of the groups: pending or done."""

from collections.abc import Iterator

from penstock.log.contract import Bounds, Topic
from penstock.log.entry import Entry
from penstock.log.store import Store

from .walk import walk


def logged(
    store: Store, pending: bool, topic_id: int | None, after: tuple[int, int, int]
) -> Iterator[tuple[int, int, int, str, Entry]]:
    """Yield records by topic, partition and offset, after a place of that form, each with its topic's name.

    Pending records: those that a group has not passed yet. Done records: every group has passed them, and in
    none they are waiting or dead. In a topic that no group reads, all are pending.
    """
    for topic in sorted(store.log.topics(), key=lambda each: each.id):
        if topic_id in (None, topic.id) and topic.id >= after[0]:
            for each in _in_topic(store, topic, pending, after):
                yield topic.id, each.partition, each.offset, topic.name, each


def _in_topic(store: Store, topic: Topic, pending: bool, after: tuple[int, int, int]) -> Iterator[Entry]:
    rows = store.database.look(lambda tx: tx.rows("operate", "cursors_lowest", topic_id=topic.id))
    lowest: dict[int, int] = dict(rows)
    for number, bounds in sorted(store.log.all_bounds(topic).items()):
        if (topic.id, number) < after[:2]:
            continue
        passed = max(bounds.start, lowest.get(number, bounds.start))
        span = Bounds(passed, bounds.end) if pending else Bounds(bounds.start, min(passed, bounds.end))
        low = max(span.start, after[2] + 1) if (topic.id, number) == after[:2] else span.start
        for entries in walk(store.log, topic, number, Bounds(low, span.end)):
            yield from entries if pending else _finished(store, topic, number, entries)


def _finished(store: Store, topic: Topic, number: int, entries: list[Entry]) -> Iterator[Entry]:
    """Yield the records that are neither waiting nor dead in any group."""
    if entries:
        span = {"low": entries[0].offset, "high": entries[-1].offset + 1}
        params = {"topic_id": topic.id, "partition": number, **span}
        rows = store.database.look(lambda tx: tx.rows("operate", "unfinished", **params))
        unfinished = {offset for (offset,) in rows}
        yield from (each for each in entries if each.offset not in unfinished)
