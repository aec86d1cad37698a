"""How far groups are in the log: their cursors held against its ends."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from penstock.log.contract import Bounds, Log, Position, Topic
from penstock.log.sql.contract import Row


class GroupProgress(NamedTuple):
    """A group on a topic: how many offsets it has before it, and when the oldest of these was published."""

    group_id: int
    topic: Topic
    partitions: int
    lag: int
    oldest_ms: int | None


class _Reached(NamedTuple):
    partition: int
    offset: int


def progress_of(log: Log, cursors: Iterable[Row]) -> Iterator[GroupProgress]:
    """Yield the progress of groups by their cursors: group, topic, partition and offset of each.

    The log is asked once for each topic, whatever the number of groups.
    """
    topics = {each.id: each for each in log.topics()}
    by_place = {
        place: [_Reached(row[2], row[3]) for row in rows]
        for place, rows in groupby(cursors, key=lambda row: (row[0], row[1]))
        if place[1] in topics
    }
    for topic in {id: topics[id] for _, id in by_place}.values():
        bounds = log.all_bounds(topic)
        on_topic = {group: reached for (group, id), reached in by_place.items() if id == topic.id}
        unread = {Position(*each) for reached in on_topic.values() for each in _unread(reached, bounds)}
        times = {
            (each.partition, each.offset): each.timestamp_ms for each in log.at(topic, unread, bare=True)
        }
        for group, reached in on_topic.items():
            lag = sum(max(0, _end(bounds, each.partition) - each.offset) for each in reached)
            oldest = min((times[each] for each in _unread(reached, bounds) if each in times), default=None)
            yield GroupProgress(group, topic, len(reached), lag, oldest)


def _end(bounds: dict[int, Bounds], partition: int) -> int:
    return bounds[partition].end if partition in bounds else 0


def _unread(reached: list[_Reached], bounds: dict[int, Bounds]) -> Iterator[tuple[int, int]]:
    """Yield the first record of each partition that is not passed yet."""
    for partition, offset in reached:
        start, end = bounds.get(partition, Bounds(0, 0))
        if offset < end:
            yield partition, max(offset, start)
