"""Notes: the records a group has passed over because it had no handler for the type, and their late delivery.

A note is a range of offsets of one partition, and a type: the records of that type in it were passed over. It
is created with the cursor that passes the first of them. While the group has no handler for the type it is
open, and extends with the cursor. The first owner with such a handler closes it when it takes the partition.

| a note is | `until_offset`        | `wanted_ms` | its meaning                                          |
|-----------|-----------------------|-------------|------------------------------------------------------|
| open      | `OPEN`                | any         | the group has no handler for the type                |
| undecided | after its one record  | `UNDECIDED` | likewise                                             |
| kept      | where the group stood | none        | a person may ask for it (`groups catch-up`)          |
| coming    | where the group stood | a moment    | its records from that moment on are delivered late   |

An open note begins at or above the group's position when its owner took the partition: below it, records were handed
out. Single records may be passed over there, each with a note of its own: a record that former owners had left out (a
hole of the cursor) is undecided; a record that waited in a lane when its handler went is coming as soon as there is a
handler again. A record above that a lost owner may have handed out has a note of its own, too, which is undecided.

Invariant: a record is in at most one note, and no record that is settled, or waits in a lane, is in one. A
record that may have been handed out is in a note that says so (`again`), and comes marked. A note that is
coming loses a record in the transaction that makes it an entry of a lane.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.log.contract import LAST_OFFSET, Log, OffsetRange, Topic

from .cursor_state import PassedRecord
from .machine import Partition, Settlement

OPEN = LAST_OFFSET
UNDECIDED = LAST_OFFSET  # the first owner with a handler sets the moment from which on it comes
_COLUMNS = "partition type until place reach records holes wanted_ms again"


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Which of its passed-over records a member delivers late: their types, and their greatest age."""

    wants: Callable[[str], bool]
    within_ms: int = 0  # 0: nothing, unless a person asks for it


@dataclass(slots=True)
class LateRange:
    """A note that is coming: its records from `first` on, except in `holes`; `again`: perhaps handed out before."""

    type: str
    until: int
    first: int
    holes: frozenset[int]
    again: bool = False

    def has(self, type: str, offset: int) -> bool:
        """Return whether a record is one of them."""
        return type == self.type and self.first <= offset < self.until and offset not in self.holes


class Note(NamedTuple):
    """One row. `reach`: the offset after the last counted one; `holes` as JSON; `again`: 1 if perhaps handed out."""

    partition: int
    type: str
    until: int
    first: int
    reach: int
    records: int
    holes: str
    wanted_ms: int | None
    again: int

    @property
    def place(self) -> tuple[int, str, int]:
        """Its key within the group and topic."""
        return self.partition, self.type, self.until

    @property
    def open_offsets(self) -> list[int]:
        """The offsets in it that were not passed over."""
        return msgspec.json.decode(self.holes, type=list[int]) if self.holes else []

    @property
    def is_coming(self) -> bool:
        """Whether it is being delivered late."""
        return self.until != OPEN and self.wanted_ms not in (None, UNDECIDED)

    def has(self, offset: int) -> bool:
        """Return whether a record of its type, in its partition, was passed over."""
        return self.first <= offset < self.until and offset not in self.open_offsets

    def with_single(self, single: "Note") -> "Note":
        """Return it with one of its holes filled by a record."""
        holes = _stored_holes([each for each in self.open_offsets if each != single.first])
        again = max(self.again, single.again)
        return self._replace(holes=holes, records=self.records + 1, again=again)

    def part(self, first: int, until: int, wanted_ms: int | None) -> "Note":
        """Return a part of it, with its share of the count."""
        share = (until - first) / max(1, self.until - self.first)
        return self._replace(
            first=first,
            until=until,
            reach=max(first, min(self.reach, until)),
            records=round(self.records * share),
            wanted_ms=wanted_ms,
        )


class Notes:
    """The notes of one group on one topic, as an owner reads and writes them."""

    def __init__(self, group_id: int, topic: Topic, catch_up: CatchUp | None) -> None:
        self._ids = {"group_id": group_id, "topic_id": topic.id}
        self._topic, self._catch_up = topic, catch_up
        self.types: frozenset[str] = frozenset()  # noted in some partition, at the last look

    def partitions(self, tx: Transaction) -> set[int]:
        """Return the partitions with records that are, or may be, to be delivered late."""
        return {
            each.partition
            for each in self._wanted(tx, range(self._topic.partitions))
            if each.until == OPEN or each.wanted_ms is not None
        }

    def take(
        self, tx: Transaction, log: Log, machines: Mapping[int, Partition], now_ms: int
    ) -> dict[int, list[LateRange]]:
        """Close the open notes that are wanted by now; return the coming ones, as far as the log has them."""
        notes = self._wanted(tx, machines)
        for machine in machines.values():
            machine.passed_over.known = self.types
        if not notes:
            return {}
        closed = [self._closed(each, machines[each.partition], now_ms) for each in notes]
        begins = self._begins(log, closed)
        parts = [part for each, begin in zip(closed, begins, strict=True) for part in _split(each, begin)]
        starts = {partition: bounds.start for partition, bounds in log.all_bounds(self._topic).items()}
        kept = [each for each in parts if each.until > starts.get(each.partition, each.until)]
        self._change(tx, set(notes), set(kept))
        coming: dict[int, list[LateRange]] = {}
        for each in kept:
            if each.wanted_ms is not None:
                first = max(each.first, starts.get(each.partition, 0))
                holes = frozenset(each.open_offsets)
                late = LateRange(each.type, each.until, first, holes, again=bool(each.again))
                coming.setdefault(each.partition, []).append(late)
        return coming

    def settle(self, tx: Transaction, settled: Mapping[int, Settlement], skips: Collection[int]) -> None:
        """Write the passed-over records that count, and how far notes were delivered."""
        passed, singles, moves = [], list[Note](), []
        for number, one in settled.items():
            if number in skips:
                passed += [(number, each.type, OPEN, each.first, each.end, each.records) for each in one.passed_over]
                singles += [_single(number, each, UNDECIDED) for each in one.passed_singles]
            singles += [_single(number, each, 0) for each in one.passed_entries]
            moves += [(number, *each) for each in one.late_moves]
        if passed:
            table = Rows.of("partition type until place reach records", passed)
            tx.change("delivery", "notes_count", notes=table, **self._ids)
        if singles:
            self._put_singles(tx, singles)
        if moves:
            table = Rows.of("partition type until place", moves)
            tx.change("delivery", "notes_move", notes=table, **self._ids)
            used = [(partition, type, until) for partition, type, until, first in moves if first >= until]
            self._drop(tx, used)

    def _wanted(self, tx: Transaction, partitions: Iterable[int]) -> list[Note]:
        self.types = frozenset(row[0] for row in tx.rows("delivery", "notes_types", **self._ids))
        if self._catch_up is None:
            return []
        return self._load(tx, {type for type in self.types if self._catch_up.wants(type)}, partitions)

    def _load(self, tx: Transaction, types: Collection[str], partitions: Iterable[int]) -> list[Note]:
        if not types:
            return []
        params = {"types": sorted(types), "partitions": sorted(partitions), **self._ids}
        return [Note(*row) for row in tx.rows("delivery", "notes_load", **params)]

    def _put_singles(self, tx: Transaction, singles: list[Note]) -> None:
        """Write notes of one record each, unless an open note covers it; one that ends with it takes it in."""
        known = self._load(tx, {each.type for each in singles}, {each.partition for each in singles})
        by_place = {each.place: each for each in known}
        opened = {each.place[:2]: each.first for each in known if each.until == OPEN}
        new = set[Note]()
        for each in singles:
            same = by_place.get(each.place)
            if same is not None:
                new.add(same.with_single(each))
            elif opened.get(each.place[:2], OPEN) > each.first:
                new.add(each)
        self._change(tx, {each for each in known if each.place in {one.place for one in new}}, new)

    def _closed(self, note: Note, machine: Partition, now_ms: int) -> Note:
        if note.until != OPEN and note.wanted_ms != UNDECIDED:
            return note
        assert self._catch_up is not None
        within_ms, wanted_ms = self._catch_up.within_ms, note.wanted_ms
        if wanted_ms in (None, UNDECIDED):
            wanted_ms = max(0, now_ms - within_ms) if within_ms else None
        if note.until != OPEN:
            return note._replace(wanted_ms=wanted_ms)
        holes = [offset for offset in machine.missing() if offset >= note.first]
        return note._replace(until=machine.position, holes=_stored_holes(holes), wanted_ms=wanted_ms)

    def _begins(self, log: Log, notes: list[Note]) -> list[int]:
        """Return where the wanted part of each note begins: at its end, if nothing is wanted."""
        spans: dict[int, dict[int, OffsetRange]] = {}  # by moment, and by partition
        for each in notes:
            if each.wanted_ms:
                known = spans.setdefault(each.wanted_ms, {})
                _, low, high = known.get(each.partition, (0, each.first, each.until))
                span = OffsetRange(each.partition, min(low, each.first), max(high, each.until))
                known[each.partition] = span
        found = {ms: log.offsets_at(self._topic, ms, list(each.values())) for ms, each in spans.items()}
        begins = []
        for each in notes:
            begin = each.until if each.wanted_ms is None else each.first
            if each.wanted_ms:
                begin = found[each.wanted_ms].get(each.partition, each.until)
            begins.append(max(each.first, min(begin, each.until)))
        return begins

    def _change(self, tx: Transaction, before: set[Note], after: set[Note]) -> None:
        self._drop(tx, [each.place for each in before - after])
        if after - before:
            tx.change("delivery", "notes_put", notes=Rows.of(_COLUMNS, after - before), **self._ids)

    def _drop(self, tx: Transaction, places: Collection[tuple[int, str, int]]) -> None:
        if places:
            tx.change("delivery", "notes_drop", notes=Rows.of("partition type until", places), **self._ids)


def want_late(
    tx: Transaction, group_id: int, topic_id: int, notes: Iterable[Note], since_ms: int, living: list[str]
) -> None:
    """Have the records of some notes delivered late; owners take the partitions anew, since they read notes then."""
    chosen, ids = list(notes), {"group_id": group_id, "topic_id": topic_id}
    partitions = sorted({each.partition for each in chosen})
    tx.rows("delivery", "cursors_hold", partitions=partitions, **ids)
    types = sorted({each.type for each in chosen})
    tx.change("delivery", "notes_want", partitions=partitions, types=types, wanted_ms=since_ms, **ids)
    tx.change("delivery", "cursors_seize", partitions=partitions, living=living, **ids)


def _single(partition: int, passed: PassedRecord, wanted_ms: int) -> Note:
    type, offset, again = passed
    return Note(partition, type, offset + 1, offset, offset + 1, 1, "", wanted_ms, int(again))


def _stored_holes(offsets: list[int]) -> str:
    return msgspec.json.encode(offsets).decode() if offsets else ""


def _split(note: Note, begin: int) -> list[Note]:
    parts = []
    if begin > note.first:
        parts.append(note.part(note.first, begin, None))
    if begin < note.until:
        parts.append(note.part(begin, note.until, 0))
    return parts
