"""The case of a record in a group: reads the rows that decide whether it is delivered.

A record is passed once the cursor is beyond it or its bit in the cursor's bitmap is set; it still waits if it
is an entry of a lane. A record that is neither passed nor an entry is still to be read from the log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.delivery.cursor_state import DoneSet, Trial, stored_trial
from penstock.delivery.lane import SHARED, WHOLE, LaneId, WaitState, columns_of, key_lane, stored_lane
from penstock.delivery.notes import Note
from penstock.log.contract import Topic
from penstock.log.entry import key_bytes
from penstock.membership.filters import Filter, wanted
from penstock.membership.serving import Domain

from .finder import Finder, Logged
from .group_rows import GroupRows, TopicPart
from .history import Act, History
from .members import Members, Served, Service


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group's row; `filters`: the current one first."""

    id: int
    name: str
    created_ms: int
    filters: list[Filter]
    paused_ms: int | None
    seen_ms: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """A group's cursor in a partition."""

    done: DoneSet
    owner: str | None
    trial: Trial

    @property
    def offset(self) -> int:
        """The first offset that it has not passed."""
        return self.done.base

    def is_passed(self, offset: int) -> bool:
        """Return whether delivery has passed an offset; otherwise it is still to be read from the log."""
        return offset in self.done


@dataclass(frozen=True, slots=True)
class Lane:
    """A waiting lane, with the first and last record in it, and their number."""

    id: LaneId
    state: WaitState
    failures: int
    due_ms: int
    reason: str
    head: int | None
    last: int | None = None
    records: int = 0

    @property
    def held(self) -> bool:
        """Whether it waits for a person."""
        return self.state is WaitState.HELD

    @property
    def late(self) -> bool:
        """Whether its records were passed over before the group had a handler for them."""
        return columns_of(self.id).late

    @property
    def alone(self) -> int | None:
        """The offset of the only record in it, if that is retried alone."""
        offset = columns_of(self.id).alone
        return None if offset == SHARED else offset

    @property
    def of(self) -> str:
        """What the lane is for, in words: a key or the whole partition."""
        return "partition" if columns_of(self.id).whole else "key"


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter."""

    offset: int
    id: str
    failures: int
    reason: str
    died_ms: int
    holding: bool
    lane: LaneId


@dataclass(frozen=True, slots=True)
class ByFallback:
    """A completion by fallback: the number of failures before it, and the last reason."""

    failures: int
    reason: str
    completed_ms: int


@dataclass(frozen=True, slots=True)
class FormerWork:
    """The work to be done first in the partition that held a key before its topic grew.

    `open`: the unpassed records before `end`, where the partition ended then. `lane`: the key's.
    """

    partition: int
    end: int
    open: int
    lane: Lane | None
    holder: Letter | None


@dataclass(frozen=True, slots=True)
class RecordCase:
    """Everything that decides on one record in one group.

    `lane`: the one it waits in, or, while the group has not read it yet, that of its key or of its whole partition.
    `letter`: its own dead letter; `holder`: one that holds that lane. `earlier`: an earlier record of its key that is
    not passed yet. `discard`: the act that discarded it. `doubts`: how else than by delivery the group may have passed
    it. `note`: set if it was passed over for lack of a handler for its type. `fallback`: set if its handler's fallback
    completed it. `former`: work that comes before it in another partition, since its topic has grown. `rival`: a member
    that does have a handler for it, and its filter.
    """

    group: StoredGroup
    cursor: Cursor
    record: Logged
    served: Served
    entry: bool
    lane: Lane | None
    letter: Letter | None
    holder: Letter | None
    earlier: int | None
    waiting_lanes: int
    waiting_entries: int
    discard: Act | None
    doubts: tuple[str, ...]
    note: Note | None = None
    fallback: ByFallback | None = None
    former: FormerWork | None = None
    rival: tuple[str, Filter] | None = None

    @property
    def passed(self) -> bool:
        """Whether the group has passed it and will not come back to it."""
        return not self.entry and self.cursor.is_passed(self.record.offset)


class CaseReader:
    """Reads on one snapshot, each kind of row for all groups of a partition at once."""

    def __init__(self, tx: Transaction, finder: Finder, members: Members) -> None:
        self._tx, self._finder, self._members, self._history = tx, finder, members, History(tx)
        self._rows = GroupRows(tx)
        self._groups: dict[tuple[TopicPart, int | None], list[tuple[StoredGroup, Cursor]]] = {}
        self._counts: dict[tuple[int, int, str], tuple[int, int]] = {}  # by topic, group and owner

    def groups(self, topic: Topic, number: int, group_id: int | None = None) -> list[tuple[StoredGroup, Cursor]]:
        """Return the groups that read a partition, with their cursors."""
        place = TopicPart(topic.id, number)
        every_group = self._groups.get((place, None))
        if group_id is not None and every_group is not None:
            return [each for each in every_group if each[0].id == group_id]
        if (place, group_id) not in self._groups:
            rows = self._tx.rows("operate", "groups_on_partition", group_id=group_id, **place._asdict())
            found = [(group_of(row[:6]), cursor_of(row[6:])) for row in rows]
            self._groups[place, group_id] = found
            self._rows.add(place, (group.id for group, _ in found))
        return self._groups[place, group_id]

    def look_ahead(self, records: Iterable[Logged]) -> None:
        """Declare the records whose case will be needed, so that their rows are read together."""
        for each in records:
            place = TopicPart(each.topic.id, each.partition)
            self._rows.expect(place, "offsets", [each.offset])
            self._rows.expect(place, "types", [each.type])

    def case(self, group: StoredGroup, cursor: Cursor, record: Logged) -> RecordCase:
        """Return the case of a record in a group."""
        entered = self._at("entry_lane", group, record)
        entry = stored_lane(*entered[0]) if entered else None
        lanes = {
            lane.id: lane
            for id in (own_lane(record), WHOLE)
            for lane in self.lanes(group, record.topic, record.partition, id)
        }
        own: LaneId = WHOLE if WHOLE in lanes else own_lane(record)
        lane = lanes.get(own) if entry is None else lanes.get(entry)
        letters = self.letters(group, record.topic, record.partition, lane=own, offset=record.offset)
        letter = next((each for each in letters if each.offset == record.offset), None)
        holder = next((each for each in letters if each.holding), None)
        served = self.served(group, record.topic, record.partition, cursor)
        passed = cursor.is_passed(record.offset)
        waits, ended = entry is None and not passed, entry is None and passed and letter is None
        lanes_count, entries_count = self._waiting(group, record, cursor, served) if waits else (0, 0)
        return RecordCase(
            group,
            cursor,
            record,
            served,
            entry is not None,
            lane,
            letter,
            holder,
            self._earlier(record, cursor) if waits else None,
            lanes_count,
            entries_count,
            self._history.discarded(group.name, record) if ended else None,
            tuple(self._doubts(group, record)) if ended else (),
            self._note(group, record) if ended else None,
            self._fallback(group, record) if ended else None,
            None if ended else self._former(group, record, own),
            self._rival(group, record),
        )

    def served(self, group: StoredGroup, topic: Topic, number: int, cursor: Cursor) -> Served:
        """Return the service of a partition."""
        domain = Domain(group.id, topic.id)
        return self._members.of_partition(domain, number, cursor.owner, group.filters, group.name)

    def lanes(self, group: StoredGroup, topic: Topic, number: int, own: LaneId) -> list[Lane]:
        """Return the lane of a key, and the lanes of its records that are retried alone."""
        place, of = TopicPart(topic.id, number), columns_of(own)
        params = {"lane": of.lane, "whole": of.whole}
        rows = self._rows.of("lanes_of_key", place, group.id, **params)
        found = self._rows.of("lane_extents", place, group.id, **params) if rows else []
        extents = {stored_lane(*row[:4]): row[4:] for row in found}
        lanes = []
        for *columns, state, failures, due_ms, reason in rows:
            id = stored_lane(*columns)
            extent = extents.get(id, (None, None, 0))
            lanes.append(Lane(id, WaitState(state), failures, due_ms, reason, *extent))
        return lanes

    def letters(
        self,
        group: StoredGroup,
        topic: Topic,
        number: int,
        *,
        lane: LaneId,
        offset: int | None = None,
        key: str | None = None,
    ) -> list[Letter]:
        """Return the dead letters that have an offset, hold a lane, or are of a key, by their offsets."""
        data, of = key_bytes(key), columns_of(lane)
        place, held = TopicPart(topic.id, number), {"lane": of.lane, "whole": of.whole, "late": of.late}
        rows = list(self._rows.of("dead_of_lane", place, group.id, key=data, **held))
        if offset is not None:
            found = self._rows.at("dead_at", place, group.id, "offsets", offset)
            rows = [each for each in rows if each[0] != offset] + [(offset, *row) for row in found]
        letters = [
            Letter(at, id, failures, reason, died_ms, bool(holding), stored_lane(*columns))
            for at, id, failures, reason, died_ms, holding, *columns in rows
        ]
        return sorted(letters, key=lambda each: each.offset)

    def _at(self, name: str, group: StoredGroup, record: Logged) -> list[Row]:
        place = TopicPart(record.topic.id, record.partition)
        return self._rows.at(name, place, group.id, "offsets", record.offset)

    def _doubts(self, group: StoredGroup, record: Logged) -> Iterator[str]:
        if wanted(group.filters, record.topic.name, record.type) is None:
            yield "none of its handlers wanted it"
        if record.timestamp_ms < group.created_ms:
            yield "the group, which was created later, began at the end of the log"
        yield from self._history.doubts(group.name, record)

    def _note(self, group: StoredGroup, record: Logged) -> Note | None:
        place = TopicPart(record.topic.id, record.partition)
        rows = self._rows.at("notes_of_type", place, group.id, "types", record.type)
        return next((note for row in rows if (note := Note(*row)).has(record.offset)), None)

    def _fallback(self, group: StoredGroup, record: Logged) -> ByFallback | None:
        rows = self._at("fallback_find", group, record)
        return ByFallback(*rows[0]) if rows else None

    def _former(self, group: StoredGroup, record: Logged, own: LaneId) -> FormerWork | None:
        """Return the work before a record in the oldest partition that still has records of its key."""
        found, topic = None, record.topic
        for number, end in self._finder.former_places(topic, record.partition):
            kept = self._finder.bounds(topic, number).start
            for _, cursor in self.groups(topic, number, group.id):
                lanes = [each for id in {own: 0, WHOLE: 0} for each in self.lanes(group, topic, number, id)]
                lane = next((each for each in lanes if each.id in (own, WHOLE)), None)
                count = cursor.done.open_below(end) if kept < end else 0
                if count or lane is not None:
                    letters = self.letters(group, topic, number, lane=own if lane is None else lane.id)
                    holder = next((each for each in letters if each.holding), None)
                    found = FormerWork(number, end, count, lane, holder)
        return found

    def _rival(self, group: StoredGroup, record: Logged) -> tuple[str, Filter] | None:
        if wanted(group.filters[:1], record.topic.name, record.type) is not False:
            return None
        others = self._members.wanting(group.id, record.topic.name, record.type)
        return (others[0].name, self._members.filter(others[0].id, group.id)) if others else None

    def _earlier(self, record: Logged, cursor: Cursor) -> int | None:
        if record.key is None or cursor.offset >= record.offset:
            return None
        start = max(cursor.offset, record.offset - self._finder.walk)
        same = self._finder.before(record, start)
        return next((each.offset for each in same if each.offset not in cursor.done), None)

    def _waiting(self, group: StoredGroup, record: Logged, cursor: Cursor, served: Served) -> tuple[int, int]:
        """Return how many lanes and records wait in the partitions of the same owner."""
        if served.service is not Service.OWNED or cursor.owner is None:
            return 0, 0
        topic, place = record.topic, TopicPart(record.topic.id, record.partition)
        if (topic.id, group.id, cursor.owner) not in self._counts:
            waiting, offsets = {(group.id, cursor.owner)}, self._rows.expected(place, "offsets")
            for other, at in self._groups.get((place, None), ()):
                if at.owner is not None and not all(int(each) in at.done for each in offsets):
                    waiting.add((other.id, at.owner))
            self._counts |= {(topic.id, *each): (0, 0) for each in waiting}
            self._counts |= waiting_counts(self._tx, topic, waiting)
        return self._counts[topic.id, group.id, cursor.owner]


def waiting_counts(
    tx: Transaction, topic: Topic, owned: Iterable[tuple[int, str]]
) -> dict[tuple[int, int, str], tuple[int, int]]:
    """Return how many lanes and records wait in all partitions of an owner, by topic, group and owner."""
    pairs = set(owned)
    if not pairs:
        return {}
    groups, owners = (sorted(set(each)) for each in zip(*pairs, strict=True))
    rows = tx.rows("operate", "waiting_counts", groups=groups, topic_id=topic.id, owners=owners)
    return {(topic.id, group_id, owner): (int(lanes), int(entries)) for group_id, owner, lanes, entries in rows}


def own_lane(record: Logged) -> str:
    """Return the lane of a record: that of its key, or of its id when it has none."""
    return key_lane(record.id if record.key is None else record.key)


def group_of(row: Row) -> StoredGroup:
    """Return a group from its row."""
    id, name, created_ms, filters, paused_ms, seen_ms = row
    return StoredGroup(id, name, created_ms, msgspec.json.decode(filters, type=list[Filter]), paused_ms, seen_ms)


def cursor_of(row: Row) -> Cursor:
    """Return a cursor from its row."""
    offset, passed, owner, _, trial = row
    return Cursor(DoneSet.stored(offset, passed), owner, stored_trial(trial))
