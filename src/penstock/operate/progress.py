"""The progress of groups in the log: their cursors compared with its ends."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from penstock.database.contract import Row
from penstock.log.contract import Bounds, Log, Position, Topic


class GroupProgress(NamedTuple):
    """A group on a topic: its lag, and when the oldest unread record was published."""

    group_id: int
    topic: Topic
    partitions: int
    lag: int
    oldest_ms: int | None


def progress_of(log: Log, cursors: Iterable[Row]) -> Iterator[GroupProgress]:
    """Yield the progress of groups, given their cursors as rows of group, topic, partition and offset.

    The number of queries to the log does not depend on the number of groups and topics.
    """
    topics = {each.id: each for each in log.topics()}
    by_place = {
        place: [Position(row[2], row[3]) for row in rows]
        for place, rows in groupby(cursors, key=lambda row: (row[0], row[1]))
        if place[1] in topics
    }
    bounds = log.bounds_of([topics[id] for id in sorted({id for _, id in by_place})])
    unread = {(group, id): set(_unread(reached, bounds[id])) for (group, id), reached in by_place.items()}
    wanted: dict[Topic, set[Position]] = {}
    for (_, id), places in unread.items():
        wanted.setdefault(topics[id], set()).update(places)
    times = log.times_at(wanted)
    for (group, id), reached in by_place.items():
        lag = sum(max(0, _end(bounds[id], each.partition) - each.offset) for each in reached)
        oldest = min((times[id][each] for each in unread[group, id] if each in times[id]), default=None)
        yield GroupProgress(group, topics[id], len(reached), lag, oldest)


def _end(bounds: dict[int, Bounds], partition: int) -> int:
    return bounds[partition].end if partition in bounds else 0


def _unread(reached: list[Position], bounds: dict[int, Bounds]) -> Iterator[Position]:
    """Yield the position of the first unread record of each partition."""
    for partition, offset in reached:
        start, end = bounds.get(partition, Bounds(0, 0))
        if offset < end:
            yield Position(partition, max(offset, start))
