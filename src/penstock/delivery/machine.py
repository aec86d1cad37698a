"""Delivery in one partition for one group: a state machine without I/O.

Its inputs are the offsets that the log holds and the verdicts on the records handed out; its outputs are the
records to hand out next, in their order, and the settlements to write. Invariants:

- the records that are out of one lane are a run of its oldest ones, to be worked one after the other; when
  one of them does not pass, those behind it are taken back;
- every offset below the base is passed: done, dead, or an entry of a lane that waits;
- `settlement` holds everything that changed since the last one, so writing it in one transaction is enough;
- a lane is in one place: out, ready, waiting until it is due, held, behind a skip, beside the other lane of
  its key that is out, or (one record that a person has put last) behind the lane of its key;
- a record that no handler wants is skipped; later records of its lane stay behind it until that is confirmed:
  another version of the program may turn out to have a handler for it;
- a barred lane waits: its key moved here when the topic grew, and its records elsewhere come first;
- a late record was passed long ago: it goes to a late lane of its key, once it is written there. Of the
  two lanes of a key one is out at a time, and they take turns;
- where the partition is one lane, every record fed goes there. Nothing is fed while it waits, nor while lanes
  of keys from before do; so it is never spilled.

A lane that flows exists in memory only. A lane that failed, snoozed or became slow waits: its offsets are
entries, written in the transaction that moves the cursor past them.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from .cursor_state import GoingOut, LateMove, PassedOver, PassedRecord, PassedType
from .lane import (
    WHOLE,
    LaneId,
    LaneQueue,
    SideLane,
    StoredLane,
    WaitState,
    alone_in,
    is_alone,
    lane_queue,
    late_lane,
    live_lane,
    shared_lane,
)
from .verdict import Dead, Parked, Passed, Verdict

WINDOW = 10_000  # offsets between the base and the position
SLOW_WAITING = 100  # records waiting in a lane that flows, before it is spilled
LANE_AHEAD = 100  # records of a stored lane that go out beyond the last settled one

# Flags are the digits of a binary number, so that C code finds the base and makes the bitmap.
_OPEN, _PASSED = ord("0"), ord("1")
_PASSED_VERDICT = Passed()


class Delivery(NamedTuple):
    """A record to hand out: offset, lane, failures; `again`: it was handed out before, whatever the outcome."""

    offset: int
    lane: LaneId
    failures: int
    again: bool = False


class NewDeadLetter(NamedTuple):
    """A record given up. `holding`: its lane waits until a person decides."""

    offset: int
    lane: LaneId
    holding: bool
    failures: int
    reason: str


class CompletedByFallback(NamedTuple):
    """A record that only its handler's fallback completed: after how many failures, and the last reason."""

    offset: int
    failures: int
    reason: str


@dataclass(slots=True)
class Settlement:
    """The changes to write. Deletions are written first: an entry may have moved to another lane."""

    base: int
    passed: bytes  # a bitmap of the offsets from the base on that are passed
    unskipped: tuple[int, bytes] | None  # base and passed without the skipped records, if there are any
    lanes: list[StoredLane]
    lanes_gone: list[LaneId]
    entries: list[tuple[LaneId, int]]
    entries_gone: list[int]
    dead: list[NewDeadLetter]
    passed_over: list[PassedType] = field(default_factory=list)  # valid only with the skipped records,
    passed_singles: list[PassedRecord] = field(default_factory=list)  # and so are these
    late_moves: list[LateMove] = field(default_factory=list)
    passed_entries: list[PassedRecord] = field(default_factory=list)
    fallbacks: list[CompletedByFallback] = field(default_factory=list)
    going_out: GoingOut = field(default_factory=GoingOut)  # nothing more goes out before it is written down

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the cursor is written."""
        waiting = self.lanes or self.lanes_gone or self.entries or self.entries_gone
        noted = self.passed_over or self.passed_singles or self.late_moves or self.passed_entries
        return self.unskipped is None and not (waiting or noted or self.dead or self.fallbacks)

    @property
    def reach(self) -> int:
        """The offset after the last one that is passed."""
        return self.base + int.from_bytes(self.passed, "little").bit_length()


class Partition:
    """One partition, as used by one owner. Not thread-safe: one loop owns it."""

    def __init__(self, base: int, passed: bytes = b"", lanes: Iterable[tuple[StoredLane, Iterable[int]]] = ()) -> None:
        # The log, as far as it is fed.
        self._base = base
        self._passed = _flags(passed)  # one for each offset from the base to the position
        self._holes = {base + n for n, flag in enumerate(self._passed) if flag == _OPEN}
        self._out: dict[int, LaneQueue] = {}
        # Lanes, and where those are that do not go out now.
        self._lanes: dict[LaneId, LaneQueue] = {}
        self._ready: deque[LaneQueue] = deque()
        self._due: list[tuple[int, int, LaneId]] = []  # a heap: when a lane is due, its head, the lane
        self._behind: list[LaneQueue] = []  # their head comes after a skipped record of theirs
        self._left: list[LaneQueue] = []  # stored lanes that records have left since the last settlement
        self._ahead: list[LaneQueue] = []  # stored lanes that go on once the records that left are settled
        self._last: dict[LaneId, list[tuple[int, LaneQueue]]] = {}  # by key: the lanes waiting for an offset
        self._barred: frozenset[LaneId] = frozenset()  # lanes that must wait: see `bar`
        self._moved: dict[LaneId, LaneQueue] = {}  # the barred lanes that do wait
        self._partners: dict[LaneId, LaneId] = {}  # of keys with a late lane: each lane, and the other one
        self._beside: dict[LaneId, LaneQueue] = {}  # by the lane that is out: its partner, which goes next
        self._is_one_lane = False
        self._former: set[LaneId] = set()  # lanes of keys that come before the one lane
        # Skipped records: no handler wants them, and that is not confirmed yet.
        self._skipped: list[tuple[int, LaneId]] = []
        self._floor = base  # the base before the first of them
        self._skips: dict[LaneId, int] = {}  # their lanes, each with the first
        self._skips_written = 0  # how many of them are in the last settlement
        self._refused = False  # another version has handlers for some of them
        # Records that were passed over before, and are delivered late.
        self.passed_over = PassedOver(self.position)
        self._late: list[tuple[int, SideLane]] = []  # not written yet
        self._late_moves: dict[tuple[str, int], LateMove] = {}  # by the note they belong to
        self._late_written = 0  # how many of the late records are in the last settlement
        # The changes for the next settlement.
        self._dirty = False
        self._changed_lanes: set[LaneId] = set()
        self._entries: dict[int, LaneId] = {}
        self._entries_gone: list[int] = []
        self._dead: list[NewDeadLetter] = []
        self._fallbacks: list[CompletedByFallback] = []
        self._passed_entries: list[PassedRecord] = []
        # Figures for the owner's bounds.
        self.entry_count = 0  # records that wait in stored lanes
        self.late_count = 0  # late records among these, and among those to be written, that just flow
        self.stored_count = 0  # stored lanes
        for stored, offsets in lanes:
            self._load(lane_queue(stored, offsets))
        for lane in [each for each in self._lanes.values() if each.state is WaitState.LAST]:
            self._put_last(lane)

    def work_as_one_lane(self) -> None:
        """Treat all records of the partition as one lane, whatever their keys; before any is fed."""
        self._is_one_lane = True
        self._former = {lane for lane in self._lanes if isinstance(lane, str)}

    # -- input

    @property
    def base(self) -> int:
        """The oldest offset that is not passed."""
        count = self._passed.find(_OPEN)
        if count < 0:
            count = len(self._passed)
        if count:
            del self._passed[:count]
            self._base += count
        return self._base

    @property
    def position(self) -> int:
        """The offset after the last one fed."""
        return self._base + len(self._passed)

    def missing(self) -> list[int]:
        """Return the open offsets below the position at a take-over: to be fed first, or omitted."""
        return sorted(self._holes)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing may be fed: the partition waits as one lane, or must wait for lanes of keys."""
        whole = self._lanes.get(WHOLE)
        return bool(self._former) or (whole is not None and whole.stored)

    def room(self) -> int:
        """Return how many more offsets may be fed."""
        return 0 if self.is_stopped else max(0, self.base + WINDOW - self.position)

    def relieve(self) -> None:
        """Spill the lane that keeps the base from moving, so that the rest of the partition can go on."""
        if self._is_one_lane or self.is_stopped:
            return
        base = self.base
        for lane in self._lanes.values():
            if not lane.stored and lane.waiting[0] == base:
                self._spill(lane)
                return

    def feed(
        self, offset: int, lane: LaneId, wanted: bool, unhandled_type: str | None = None, again: bool = False
    ) -> bool:
        """Feed a record of the log, in the order of offsets; return whether it may go out soon.

        One fed before changes nothing. Offsets jumped over are passed: the log does not hold them. `unhandled_type`:
        its type, if no handler is for that; `again`: such a record may have been handed out before.
        """
        if not self._place(offset):
            return False
        if self._is_one_lane:
            lane = WHOLE
        if not wanted:
            if not self._skipped:
                self._floor = self.base
            self._skipped.append((offset, lane))
            self._skips.setdefault(lane, offset)
            self._pass(offset)
            if unhandled_type is not None:
                self.passed_over.add(unhandled_type, offset, again=again)
            return False
        known = self._lanes.get(lane)
        if known is None:
            known = self._lanes[lane] = LaneQueue(lane, [offset])
            if self._is_barred(lane):
                self._put_behind(known)
                return False
            self._ready.append(known)
            return True
        known.waiting.append(offset)
        if known.stored:
            self._enter(known, offset)
        elif len(known.waiting) > SLOW_WAITING and not self._is_one_lane:
            self._spill(known)
        return not known.stored

    def omit(self, offset: int) -> None:
        """Feed an offset with nothing to deliver: the log no longer holds it, or it was erased."""
        if self._place(offset):
            self._pass(offset)

    def jump(self, offset: int) -> bool:
        """Go on at an offset, because the log holds nothing before it; not while an offset below is open."""
        if self.base < self.position or offset <= self._base:
            return False
        self._base, self._dirty = offset, True
        return True

    def deliver_late(self, records: Iterable[tuple[int, str]], moves: Iterable[LateMove]) -> None:
        """Deliver passed-over records late, by offset, and move notes; they go out once the next owner could know."""
        late = [(offset, late_lane(WHOLE if self._is_one_lane else lane)) for offset, lane in records]
        self._late += late
        self._late_moves.update((each[:2], each) for each in moves)
        self.late_count += len(late)
        self._dirty = True

    def learn(
        self, lanes: Iterable[tuple[StoredLane, Iterable[int]]], unwritten: Settlement
    ) -> dict[LaneId, set[int]] | None:
        """Learn a person's decisions on dead letters from the lanes' rows; return the records put back, by lane.

        None if the rows are not what decisions leave behind. `unwritten`: the next settlement, amended here.
        """
        rows = {stored.key: (stored, list(offsets)) for stored, offsets in lanes}
        dying = {each.lane for each in [*unwritten.dead, *self._dead] if each.holding}
        back: dict[LaneId, set[int]] = {}
        for lane in [each for each in self._lanes.values() if each.held and each.key not in dying]:
            back[lane.key] = self._decide(lane, rows.get(lane.key), unwritten)
        gone = {*unwritten.lanes_gone, *(key for key in self._changed_lanes if key not in self._lanes)}
        for key in rows.keys() - self._lanes.keys() - gone:
            stored, offsets = rows[key]
            if shared_lane(key) == key:
                return None
            lane = lane_queue(stored, offsets)
            self._load(lane)
            if lane.state is WaitState.LAST:
                self._put_last(lane)
            back[key] = set(offsets)
        return back

    def _decide(self, lane: LaneQueue, row: tuple[StoredLane, list[int]] | None, unwritten: Settlement) -> set[int]:
        """Bring a held lane up to its row, with the records fed since; return the records put back."""
        stored, offsets = row or (None, [])
        back = set(offsets).difference(lane.waiting)
        if back:
            lane.waiting = deque(sorted([*back, *lane.waiting]))
            self.entry_count += len(back)
        if stored is not None and stored.held:
            return back
        if not lane.waiting:
            self._go_on(lane)
            return back
        self._change_state(lane, WaitState.SLOW if stored is None else stored.state)
        lane.failures, lane.due_ms, lane.reason = 0, 0, lane.state.text
        if stored is None:  # its row vanished with the letter that held it; records since have no entry yet
            unwritten.lanes.append(StoredLane(lane.key, lane.state, 0, 0, lane.reason))
        self._schedule(lane)
        return back

    def bar(self, lanes: frozenset[LaneId]) -> None:
        """Let these lanes wait, and no others, from now on: their keys are not done elsewhere yet."""
        self._barred = lanes
        for lane in [each for key, each in self._moved.items() if not self._is_barred(key)]:
            del self._moved[lane.key]
            lane.state, lane.reason, lane.resting = WaitState.SLOW, WaitState.SLOW.text, False
            self._changed_lanes.add(lane.key)
            self._dirty = True
            self._ready.append(lane)

    def _is_barred(self, lane: LaneId) -> bool:
        return lane in self._barred or (lane == WHOLE and bool(self._barred))

    @property
    def has_moved(self) -> bool:
        """Whether a lane waits because it is barred."""
        return bool(self._moved)

    # -- output

    def take(self, now_ms: int, limit: int, run: int = 1) -> list[Delivery]:
        """Hand out up to `limit` records, of each lane a run of up to `run`, to be worked in that order."""
        ready, due, out, skips, partners = self._ready, self._due, self._out, self._skips, self._partners
        while due and due[0][0] <= now_ms:
            lane = self._lanes[heappop(due)[2]]
            lane.resting = False
            ready.append(lane)
        taken: list[Delivery] = []
        while ready and len(taken) < limit:
            lane = ready.popleft()
            offset = lane.waiting[0]
            if skips and skips.get(lane.key, offset) < offset:
                self._behind.append(lane)
                continue
            if lane.left >= LANE_AHEAD:
                self._ahead.append(lane)
                continue
            if partners and self._goes_beside(lane):
                continue
            out[offset] = lane
            lane.out = 1
            taken.append(Delivery(offset, lane.key, lane.failures, lane.stored and lane.state is not WaitState.SLOW))
            most = min(run, len(lane.waiting), limit - len(taken) + 1, LANE_AHEAD - lane.left)
            if most > 1:
                self._take_run(lane, most, taken)
        return taken

    def _goes_beside(self, lane: LaneQueue) -> bool:
        partner = self._partners.get(lane.key)
        other = None if partner is None else self._lanes.get(partner)
        if other is None or not other.out:
            return False
        self._beside[other.key] = lane
        return True

    def _take_run(self, lane: LaneQueue, most: int, taken: list[Delivery]) -> None:
        last = self._skips.get(lane.key, lane.waiting[-1])
        for offset in islice(lane.waiting, 1, most):
            if offset > last:
                return
            self._out[offset] = lane
            lane.out += 1
            taken.append(Delivery(offset, lane.key, 0))

    def next_due_ms(self) -> int | None:
        """Return when the next waiting lane is due, if one waits."""
        return self._due[0][0] if self._due else None

    def perhaps_out(self) -> set[int]:
        """Return what former owners may have handed out of waiting lanes: the oldest of each, all of a late one."""
        out = set[int]()
        for lane in self._lanes.values():
            if lane.state is not WaitState.MOVED:  # no owner has handed out records of a moved lane
                # Twice the limit: a settlement may have been in progress.
                out.update(lane.waiting if lane.late else islice(lane.waiting, 2 * LANE_AHEAD))
        return out

    def waiting_below(self, offset: int) -> set[int]:
        """Return the offsets below one that wait in stored lanes: the cursor may pass them."""
        stored = [lane for lane in self._lanes.values() if lane.stored]
        return {each for lane in stored for each in lane.waiting if each < offset}

    def waits_for(self, offset: int) -> bool:
        """Return whether a record is still to be settled: it is not passed, or waits in a lane."""
        above = offset - self._base
        if above >= 0 and (above >= len(self._passed) or self._passed[above] == _OPEN):
            return True
        return any(offset in lane.waiting for lane in self._lanes.values() if lane.stored)

    def resting(self) -> set[int]:
        """Return the offsets of lanes that wait until their head is due, or for a person."""
        return {offset for lane in self._lanes.values() if lane.resting for offset in lane.waiting}

    def stored(self, lane: LaneId) -> Iterable[int]:
        """Return the offsets that wait in a lane, if the lane is stored."""
        known = self._lanes.get(lane)
        return known.waiting if known is not None and known.stored else ()

    def out(self) -> int:
        """Return how many records are out."""
        return len(self._out)

    def out_offsets(self) -> set[int]:
        """Return the records that are out."""
        return set(self._out)

    @property
    def has_skipped(self) -> bool:
        """Whether skipped records are not confirmed yet."""
        return bool(self._skipped)

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to hand out, wait for or write until something is fed."""
        return not (
            self._lanes or self._dirty or self._out or self._holes or self._skipped or self._behind or self._late
        )

    def idle(self, now_ms: int) -> bool:
        """Return whether nothing is out and nothing may be handed out now."""
        return not self._out and not self._ready and not (self._due and self._due[0][0] <= now_ms)

    # -- results

    def finish(self, offset: int, verdict: Verdict) -> None:
        """Record the verdict on a record that was handed out; for a run, in its order."""
        lane = self._out.pop(offset)
        lane.out -= 1
        match verdict:
            case Passed():
                if verdict.by_fallback:
                    self._fallbacks.append(CompletedByFallback(offset, verdict.failures, verdict.reason))
                self._leave(lane)
                self._go_on(lane)
            case Dead(failures, reason, hold):
                holding = hold and not is_alone(lane.key, offset)
                self._dead.append(NewDeadLetter(offset, lane.key, holding, failures, reason))
                self._leave(lane)
                if holding:
                    self._hold(lane, reason)
                else:
                    self._go_on(lane)
            case Parked(alone=True) if not is_alone(lane.key, offset):
                self._leave(lane)
                self._park(LaneQueue(alone_in(lane.key, offset), [offset], late=lane.late), verdict)
                self._go_on(lane)
            case Parked():
                self._park(lane, verdict)
        if self._beside and not lane.out and lane.key in self._beside:
            self._ready.appendleft(self._beside.pop(lane.key))

    def finish_passed(self, offset: int) -> None:
        """Record that a record has simply passed; a fast path of `finish` for the most common case."""
        lane = self._out[offset]
        if lane.stored or self._last or self._beside:
            self.finish(offset, _PASSED_VERDICT)
            return
        del self._out[offset]
        waiting = lane.waiting
        assert waiting[0] == offset, "a run is finished in its order"
        del waiting[0]
        lane.out -= 1
        self._dirty = True
        if offset >= self._base:
            self._passed[offset - self._base] = _PASSED
        if not waiting:
            del self._lanes[lane.key]
        elif not lane.out:
            self._ready.append(lane)

    def pass_over(self, offset: int, type: str, *, again: bool) -> None:
        """Pass and note a record of a stored lane whose handler is gone; `again`: it may have received it before."""
        self._passed_entries.append(PassedRecord(type, offset, again))
        self.finish(offset, Passed())

    def untake(self, offset: int) -> None:
        """Take back a record that was handed out and never started, with all behind it in its run."""
        lane = self._out.pop(offset)
        lane.out -= 1
        if not lane.out and not lane.resting:
            self._ready.appendleft(lane)
        if self._beside and not lane.out and lane.key in self._beside:
            self._ready.append(self._beside.pop(lane.key))

    # -- settlements

    def touch(self) -> None:
        """Make the next settlement even if nothing changes."""
        self._dirty = True

    def flush_passed_over(self) -> None:
        """Include all counts of passed-over records in the next settlement."""
        if self.passed_over.flush_counts():
            self._dirty = True

    def settlement(self, more: int = 0) -> Settlement | None:
        """Return what changed, or None; if writing it fails, load again. `more` records may go out before the next."""
        if not self._dirty:
            return None
        lanes, gone = [], []
        for key in self._changed_lanes:
            lane = self._lanes.get(key)
            if lane is not None and lane.stored:
                lanes.append(StoredLane(key, lane.state, lane.failures, lane.due_ms, lane.reason))
            else:
                gone.append(key)
        self._late_written = len(self._late)
        for name in dict.fromkeys(name for _, name in self._late):
            if name not in self._lanes:
                lanes.append(StoredLane(name, WaitState.SLOW, 0, 0, WaitState.SLOW.text))
        unskipped, self._skips_written = None, len(self._skipped)
        if self._skipped:
            flags = self._without_skips()
            count = flags.index(_OPEN)
            unskipped = self._floor + count, _bitmap(flags[count:])
        settled = Settlement(
            base=self.base,
            passed=_bitmap(self._passed),
            unskipped=unskipped,
            lanes=lanes,
            lanes_gone=gone,
            entries=[(lane, offset) for offset, lane in [*self._entries.items(), *self._late]],
            entries_gone=self._entries_gone,
            dead=self._dead,
            passed_over=self.passed_over.take(),
            passed_singles=self.passed_over.take_singles(),
            late_moves=list(self._late_moves.values()),
            passed_entries=self._passed_entries,
            fallbacks=self._fallbacks,
        )
        settled.going_out = self.going_out(more)
        self._changed_lanes, self._entries, self._entries_gone, self._dead = set(), {}, [], []
        self._late_moves, self._passed_entries, self._fallbacks = {}, [], []
        self._dirty = False
        for lane in self._left:
            lane.left = 0
        self._ready.extend(self._ahead)
        self._left, self._ahead = [], []
        return settled

    def going_out(self, more: int = 0) -> GoingOut:
        """Return the records that are out, or ended since the last settlement, or are the next `more`."""
        flowing = [lane for lane in self._lanes.values() if not lane.stored] if self._lanes else []
        last, kept = self._base + self._passed.rfind(_PASSED), set(self._holes)
        last = max([last, *self._out])
        if flowing:
            ready = {lane.key: lane for lane in self._ready}
            ready.update((lane.key, lane) for lane in flowing)  # first those that are ready
            for lane in ready.values():
                if not lane.stored:
                    for offset in islice(lane.waiting, lane.out, None):
                        if more:
                            more, last = more - 1, max(last, offset)
                        else:
                            kept.add(offset)
        to = self.position + more if more else max(self._base, last + 1)
        return GoingOut(to, frozenset(each for each in kept if each < to))

    def confirm(self, *, skips: bool) -> None:
        """Record a written settlement; without its skips, another version wants them: give the partition up."""
        self._admit_late()
        if self._skipped and not skips:
            self._base, self._passed = self._floor, self._without_skips()
            self._skipped, self._refused = [], True
        if self._refused:
            return  # records behind a skip stay there, whatever else is written: they are for the next owner
        del self._skipped[: self._skips_written]
        self._skips = {lane: offset for offset, lane in reversed(self._skipped)}
        self._ready.extend(self._behind)
        self._behind = []
        self._floor = min([self.base, *(offset for offset, _ in self._skipped)])

    def _place(self, offset: int) -> bool:
        new = offset - self._base - len(self._passed)
        if new < 0:
            if offset not in self._holes:
                return False
            self._holes.remove(offset)
            return True
        assert not self._holes, "what is missing is fed first"
        if new and self.base < self.position:
            self._passed += b"1" * new
        elif new:
            self._base = offset
        self._passed.append(_OPEN)
        return True

    def _without_skips(self) -> bytearray:
        """Return a flag for each offset from the floor on, open where the record was skipped."""
        flags = bytearray(b"1" * (self.base - self._floor)) + self._passed
        for offset, _ in self._skipped:
            flags[offset - self._floor] = _OPEN
        return flags

    def _load(self, lane: LaneQueue) -> None:
        if not lane.waiting and not lane.held:
            self._changed_lanes.add(lane.key)  # a person freed it and nothing waits: its row may go
            return
        self._lanes[lane.key] = lane
        self.stored_count += 1
        self.entry_count += len(lane.waiting)
        if lane.late:
            self._pair(lane)
            if lane.state is WaitState.SLOW:
                self.late_count += len(lane.waiting)
        if lane.state is WaitState.MOVED:
            lane.resting = True
            self._moved[lane.key] = lane
        elif lane.state not in (WaitState.HELD, WaitState.LAST):
            self._schedule(lane)

    def _admit_late(self) -> None:
        for offset, name in self._late[: self._late_written]:
            self.entry_count += 1
            lane = self._lanes.get(name)
            if lane is None:
                lane = LaneQueue(name, deque(), stored=True, reason=WaitState.SLOW.text, late=True)
                self._lanes[name] = lane
                self._pair(lane)
                self.stored_count += 1
                self._ready.append(lane)
            lane.waiting.append(offset)
            if lane.state is not WaitState.SLOW:
                self.late_count -= 1
        del self._late[: self._late_written]
        self._late_written = 0

    def _pair(self, lane: LaneQueue) -> None:
        """Make a late lane and the lane of its key take turns; a record in its own lane waits for neither."""
        live = live_lane(lane.key)
        if live is not None:
            self._partners[live], self._partners[lane.key] = lane.key, live

    def _put_last(self, lane: LaneQueue) -> None:
        """Let a record in a lane of its own wait until the records of its key that wait now are done."""
        key = shared_lane(lane.key)
        before = self._lanes.get(key)
        if before is None or not before.waiting:
            self._schedule(lane)
        else:
            lane.resting = True
            self._last.setdefault(key, []).append((before.waiting[-1], lane))

    def _put_behind(self, lane: LaneQueue) -> None:
        lane.state, lane.reason, lane.resting = WaitState.MOVED, WaitState.MOVED.text, True
        self._moved[lane.key] = lane
        self._store(lane)

    def _follow(self, lane: LaneQueue) -> None:
        still = []
        for offset, last in self._last.pop(lane.key):
            if lane.waiting and lane.waiting[0] <= offset:
                still.append((offset, last))
            else:
                last.resting = False
                self._ready.append(last)
        if still:
            self._last[lane.key] = still

    def _pass(self, offset: int) -> None:
        self._dirty = True
        if offset >= self._base:
            self._passed[offset - self._base] = _PASSED

    def _leave(self, lane: LaneQueue) -> None:
        offset = lane.waiting[0]
        del lane.waiting[0]
        assert offset not in self._out, "a run is finished in its order"
        if not lane.stored:
            self._pass(offset)
            return
        self._dirty = True
        self.entry_count -= 1
        if lane.late and lane.state is WaitState.SLOW:
            self.late_count -= 1
        if not lane.left:
            self._left.append(lane)
        lane.left += 1
        if self._entries.pop(offset, None) is None:
            self._entries_gone.append(offset)

    def _go_on(self, lane: LaneQueue) -> None:
        """Make the record behind a settled head the next; forget a lane without records."""
        if lane.key in self._last:
            self._follow(lane)
        if not lane.waiting:
            del self._lanes[lane.key]
            if lane.stored:
                self.stored_count -= 1
                self._changed_lanes.add(lane.key)
                self._former.discard(lane.key)
                if lane.late and lane.key in self._partners:
                    del self._partners[self._partners.pop(lane.key)]
            return
        if lane.stored and lane.state is not WaitState.SLOW:
            self._change_state(lane, WaitState.SLOW)
            lane.failures, lane.due_ms, lane.reason = 0, 0, WaitState.SLOW.text
            self._changed_lanes.add(lane.key)
        if not lane.out:
            self._ready.append(lane)

    def _hold(self, lane: LaneQueue, reason: str) -> None:
        self._change_state(lane, WaitState.HELD)
        lane.failures, lane.due_ms, lane.reason = 0, 0, reason
        lane.resting = True
        if lane.key in self._last:
            self._follow(lane)
        self._store(lane)

    def _park(self, lane: LaneQueue, verdict: Parked) -> None:
        self._change_state(lane, WaitState.SNOOZED if verdict.snoozed else WaitState.RETRYING)
        lane.failures, lane.due_ms, lane.reason = verdict.failures, verdict.due_ms, verdict.reason
        self._store(lane)
        self._schedule(lane)

    def _schedule(self, lane: LaneQueue) -> None:
        lane.resting = True
        heappush(self._due, (lane.due_ms, lane.waiting[0], lane.key))

    def _spill(self, lane: LaneQueue) -> None:
        lane.state, lane.reason = WaitState.SLOW, WaitState.SLOW.text
        self._store(lane)

    def _store(self, lane: LaneQueue) -> None:
        """Store a lane, its offsets as entries, so that the cursor may pass them."""
        self._lanes[lane.key] = lane
        self._changed_lanes.add(lane.key)
        self._dirty = True
        if not lane.stored:
            lane.stored, lane.waiting = True, deque(lane.waiting)
            self.stored_count += 1
            for offset in lane.waiting:
                self._enter(lane, offset)

    def _enter(self, lane: LaneQueue, offset: int) -> None:
        self._entries[offset] = lane.key
        self.entry_count += 1
        if lane.late and lane.state is WaitState.SLOW:
            self.late_count += 1
        self._pass(offset)

    def _change_state(self, lane: LaneQueue, state: WaitState) -> None:
        """Change why a lane waits; records that wait for a retry or a person do not count as late."""
        if lane.late and lane.stored:
            was, flows = lane.state is WaitState.SLOW, state is WaitState.SLOW
            self.late_count += (flows - was) * len(lane.waiting)
        lane.state = state


def _bitmap(flags: bytearray) -> bytes:
    """Return one bit for each flag, the first in the lowest place, without the open ones at the end."""
    end = flags.rfind(_PASSED) + 1
    return int(flags[:end][::-1] or b"0", 2).to_bytes((end + 7) // 8, "little")


def _flags(bitmap: bytes) -> bytearray:
    bits = int.from_bytes(bitmap, "little")
    return bytearray(f"{bits:b}"[::-1], "ascii") if bits else bytearray()
