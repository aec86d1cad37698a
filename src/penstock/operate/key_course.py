"""The history of one key: its last records, and the state of each in every group.

Reads the end of the key's partitions on one snapshot, as far back as `why` does.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from penstock.clock import SYSTEM, Clock, from_ms
from penstock.database.database import Transaction
from penstock.delivery.lane import key_lane
from penstock.log.contract import OffsetRange, Topic
from penstock.log.entry import Entry, key_bytes, readable
from penstock.log.store import Store

from .operation import SeesTopic, every_topic, operation
from .why.finder import Finder
from .why.members import Members
from .why.record_case import CaseReader, Cursor, Lane, Letter

RECORDS = 50  # of the key, on each topic


class StepState(StrEnum):
    """The state of a record in a group."""

    DELIVERED = "delivered"  # the group has passed it
    WAITING = "waiting"  # it waits in a lane: for a retry, or behind one
    DEAD = "dead"  # the group gave it up
    AHEAD = "ahead"  # the group has not reached it yet


@dataclass(frozen=True, slots=True)
class KeyStep:
    """A record in one group. `at`: when it died, or when it is retried. `note`: the error text."""

    group: str
    state: StepState
    failures: int = 0
    at: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A record of the key in the log, and its state in each group."""

    topic: str
    partition: int
    offset: int
    id: str
    type: str
    published_at: datetime
    steps: tuple[KeyStep, ...]
    trace_id: str | None = None  # of the trace in which it was published


@dataclass(frozen=True, slots=True)
class KeyCourse:
    """The last records of a key, newest first. `walked`: how many records of each partition were searched."""

    key: str
    records: tuple[KeyRecord, ...]
    walked: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _GroupHere:
    """A group in a partition: its cursor, and the lanes and letters of the key there."""

    name: str
    cursor: Cursor
    lanes: list[Lane]
    letters: dict[int, Letter]


@operation
def key_course(
    store: Store,
    key: str,
    *,
    topic: str | None = None,
    limit: int = RECORDS,
    seen: SeesTopic = every_topic,
    clock: Clock = SYSTEM,
) -> KeyCourse:
    """Return the history of a key on a topic, or on all topics the caller may see. Raises UnknownTopic."""

    def look(tx: Transaction) -> KeyCourse:
        log = store.log_in(tx)
        asked = log.topics() if topic is None else [log.topic(topic)]
        topics = [each for each in asked if seen(each.name)]
        finder = Finder(tx, log, topics, topic)
        reader = CaseReader(tx, finder, Members(tx, clock))
        found: list[KeyRecord] = []
        is_cut = False
        for each in topics:
            is_cut = is_cut or finder.is_cut(each, key)
            for number in finder.partitions_of(each, key):
                start, end = finder.bounds(each, number)
                within = OffsetRange(number, max(start, end - finder.walk), end)
                last = log.find_key(each, within, key_bytes(key) or b"", limit=limit, last=True)
                groups = _groups(reader, each, number, key) if last else []
                found += [_record(each.name, entry, groups) for entry in last]
        found.sort(key=lambda each: (each.published_at, each.partition, each.offset), reverse=True)
        return KeyCourse(key, tuple(found[:limit]), finder.walk, is_cut or len(found) > limit)

    return store.database.look(look)


def _groups(reader: CaseReader, topic: Topic, number: int, key: str) -> list[_GroupHere]:
    own = key_lane(key)
    return [
        _GroupHere(
            group.name,
            cursor,
            reader.lanes(group, topic, number, own),
            {each.offset: each for each in reader.letters(group, topic, number, lane=own, key=key)},
        )
        for group, cursor in reader.groups(topic, number)
    ]


def _record(topic: str, entry: Entry, groups: list[_GroupHere]) -> KeyRecord:
    content = entry.id, entry.type or "", from_ms(entry.timestamp_ms)
    steps = tuple(_step(each, entry.offset) for each in groups)
    trace_id = readable(topic, entry)[0].trace_id
    return KeyRecord(topic, entry.partition, entry.offset, *content, steps, trace_id)


def _step(here: _GroupHere, offset: int) -> KeyStep:
    letter = here.letters.get(offset)
    if letter is not None:
        return KeyStep(here.name, StepState.DEAD, letter.failures, from_ms(letter.died_ms), letter.reason)
    if offset not in here.cursor.done:
        return KeyStep(here.name, StepState.AHEAD)
    for lane in here.lanes:
        if lane.alone not in (None, offset) or lane.head is None or lane.last is None:
            continue
        if lane.head <= offset <= lane.last:
            is_head = offset == lane.head
            until = from_ms(lane.due_ms) if is_head and not lane.held and lane.due_ms else None
            note = lane.reason if is_head else "behind an earlier record of its key"
            return KeyStep(here.name, StepState.WAITING, lane.failures if is_head else 0, until, note)
    return KeyStep(here.name, StepState.DELIVERED)
