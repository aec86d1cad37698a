"""The progress of groups and other readers: their cursors compared with the ends of the log.

A reader such as a pipeline into a lake has a name and offsets, but no members. Retention keeps the records
from its offsets on (`Log.hold`). Listings show it beside groups, with the kind `pipeline`. A hold never
expires: delete an unneeded reader by hand.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final, Literal, NamedTuple

from penstock.clock import from_ms
from penstock.database.contract import Row
from penstock.log.contract import Bounds, Log, Position, Topic

from .catch_up import PassedOverType
from .operation import SeesTopic, every_topic


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """A group on one topic.

    `lag`: offsets it has not passed. `oldest_unread_at`: when the oldest of these was published. `waiting`:
    lanes that wait for a retry or their turn; `held`: lanes that wait for a person.
    """

    topic: str
    partitions: int
    lag: int
    oldest_unread_at: datetime | None
    waiting: int
    held: int
    dead: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group with the sums over its topics. `members`: how many serve it now.

    `kind`: `handler`; `client` for a group that only stores its offsets, and retention does not wait for it;
    `pipeline` for a reader that is not a group, such as a lake, and retention waits for it.
    """

    name: str
    topics: tuple[str, ...]
    lag: int
    oldest_unread_at: datetime | None
    waiting: int
    held: int
    dead: int
    members: int = 0
    paused_at: datetime | None = None
    filter_version: int = 0
    kind: Literal["handler", "client", "pipeline"] = "handler"


@dataclass(frozen=True, slots=True)
class GroupShown:
    """A group with its topics one by one, the filter of its handlers, and the members that serve it.

    `passed_over`: the types that it has, or once had, no handler for. `stopping_ids`: the members that finish
    their calls and take no new records. `created_at` is None for a pipeline.
    """

    group: Group
    created_at: datetime | None
    filter: tuple[str, ...]
    member_ids: tuple[str, ...]
    on_topics: tuple[GroupTopic, ...]
    passed_over: tuple[PassedOverType, ...] = ()
    stopping_ids: tuple[str, ...] = ()


def group_on(topics: list[GroupTopic], name: str, kind: Literal["handler", "client", "pipeline"]) -> Group:
    """Return a group with the sums over its topics."""
    oldest = min((each.oldest_unread_at for each in topics if each.oldest_unread_at is not None), default=None)
    return Group(
        name=name,
        topics=tuple(each.topic for each in topics),
        lag=sum(each.lag for each in topics),
        oldest_unread_at=oldest,
        waiting=sum(each.waiting for each in topics),
        held=sum(each.held for each in topics),
        dead=sum(each.dead for each in topics),
        kind=kind,
    )


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
    unread = {(group, id): _unread(reached, bounds[id]) for (group, id), reached in by_place.items()}
    wanted: dict[Topic, set[Position]] = {}
    for (_, id), places in unread.items():
        wanted.setdefault(topics[id], set()).update(places)
    times = log.times_at(wanted)
    for (group, id), reached in by_place.items():
        lag = sum(max(0, bounds[id][number].end - offset) for number, offset in reached if number in bounds[id])
        oldest = min((times[id][each] for each in unread[group, id] if each in times[id]), default=None)
        yield GroupProgress(group, topics[id], len(reached), lag, oldest)


def _unread(reached: list[Position], bounds: dict[int, Bounds]) -> set[Position]:
    """Return the position of the first unread record of each partition."""
    known = [(at, bounds[at.partition]) for at in reached if at.partition in bounds]
    return {Position(at.partition, max(at.offset, kept.start)) for at, kept in known if at.offset < kept.end}


KIND: Final = "pipeline"


@dataclass(frozen=True, slots=True)
class LogReader:
    """A reader, and its offsets in each topic that it reads."""

    name: str
    places: dict[Topic, dict[int, int]]

    def has_read(self, topic: Topic, position: Position) -> bool | None:
        """Return whether it has passed a record; None if it does not read that partition."""
        offset = self.places.get(topic, {}).get(position.partition)
        return None if offset is None else position.offset < offset


def readers(log: Log) -> list[LogReader]:
    """Return the readers of a log, by name."""
    found: dict[str, dict[Topic, dict[int, int]]] = {}
    topics = log.topics()
    held = log.holds_of(topics)
    for topic in topics:
        for name, offsets in held.get(topic.id, {}).items():
            found.setdefault(name, {})[topic] = offsets
    return [LogReader(name, places) for name, places in sorted(found.items())]


def reader_named(log: Log, name: str) -> LogReader | None:
    """Return a reader by name."""
    return next((each for each in readers(log) if each.name == name), None)


def progress_on(log: Log, found: list[LogReader]) -> Iterator[GroupProgress]:
    """Yield the progress of readers in their topics; `group_id` is the reader's index in the list."""
    rows = [
        (number, topic.id, partition, offset)
        for number, each in enumerate(found)
        for topic, offsets in each.places.items()
        for partition, offset in sorted(offsets.items())
    ]
    return progress_of(log, rows)


def as_groups(
    log: Log, found: list[LogReader], seen: SeesTopic = every_topic
) -> dict[str, tuple[Group, list[GroupTopic]]]:
    """Return readers in the form of groups, by name, on the topics that the caller may see."""
    topics: dict[int, list[GroupTopic]] = {}
    for each in progress_on(log, found):
        oldest = None if each.oldest_ms is None else from_ms(each.oldest_ms)
        one = GroupTopic(each.topic.name, each.partitions, each.lag, oldest, 0, 0, 0)
        if seen(one.topic):
            topics.setdefault(each.group_id, []).append(one)
    shown = {}
    for number, reader in enumerate(found):
        on = sorted(topics.get(number, []), key=lambda each: each.topic)
        shown[reader.name] = group_on(on, reader.name, KIND), on
    return shown
