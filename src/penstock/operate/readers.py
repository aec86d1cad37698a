"""Readers of the log that are not groups, such as pipelines into a lake: a name and offsets, but no members.

Retention keeps the records from their offsets on (`Log.hold`). Listings show them beside groups, with the
kind `pipeline`. A hold never expires: delete an unneeded reader by hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.clock import from_ms
from penstock.log.contract import Log, Position, Topic

from .groups_shown import Group, GroupTopic, oldest_of
from .progress import GroupProgress, progress_of
from .topics_seen import SeesTopic, every_topic

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
        sums = sum(each.lag for each in on), oldest_of(on), 0, 0, 0, 0
        shown[reader.name] = Group(reader.name, tuple(each.topic for each in on), *sums, None, 0, KIND), on
    return shown
