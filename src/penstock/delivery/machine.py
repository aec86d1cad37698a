"""Delivery in one partition for one group: a state machine without I/O.

It is told which offsets the log holds and what became of those handed out; it says which may be handed out
next, in which order, and what must be written down. Invariants:

- of one lane at most one record is out at a time, and always the oldest that is not settled;
- every offset below the base is passed: done, dead, or an entry of a lane that waits;
- `settlement` holds all that changed since the last one, so writing it in one transaction is enough.

A lane that flows lives in memory only. One that failed, snoozed or became slow waits: its offsets are
entries, written down in the transaction that moves the cursor past them.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from penstock.delivery.verdict import Dead, Parked, Passed, Verdict

WINDOW = 10_000  # offsets between the base and what is fed
SLOW_WAITING = 100  # records waiting in a lane that flows, before it is spilled


class Delivery(NamedTuple):
    """One record to hand out: where it stands, its lane, and how often it has failed."""

    offset: int
    lane: str
    failures: int


@dataclass(slots=True)
class Lane:
    """The records of one key. `waiting` are offsets, oldest first; the one that is out is among them."""

    key: str
    waiting: deque[int] = field(default_factory=deque)
    out: bool = False
    stored: bool = False  # its offsets are entries, the cursor may pass them
    held: bool = False  # until a person decides
    failures: int = 0
    due_ms: int = 0
    reason: str = ""


class StoredLane(NamedTuple):
    """A waiting lane as its row holds it."""

    key: str
    held: bool
    failures: int
    due_ms: int
    reason: str


class DeadLetter(NamedTuple):
    """A record given up."""

    offset: int
    lane: str
    failures: int
    reason: str


@dataclass(slots=True)
class Settlement:
    """What to write: the cursor, and what changed among lanes, entries and dead letters."""

    base: int
    passed: bytes  # a bitmap of the offsets from the base on that are passed
    lanes: list[StoredLane]
    lanes_gone: list[str]
    entries: list[tuple[str, int]]
    entries_gone: list[int]
    dead: list[DeadLetter]


class Partition:
    """One partition as one owner works it. Not thread-safe: one loop owns it."""

    def __init__(
        self,
        base: int,
        passed: bytes = b"",
        lanes: Iterable[tuple[StoredLane, Iterable[int]]] = (),
    ) -> None:
        self.base = base
        self._passed = {base + n for n in _bits(passed)}
        self.position = max(self._passed, default=base - 1) + 1 if self._passed else base
        self._holes = [offset for offset in range(base, self.position) if offset not in self._passed]
        self._lanes: dict[str, Lane] = {}
        self._ready: deque[str] = deque()
        self._due: list[tuple[int, str]] = []
        self._out: dict[int, Lane] = {}
        self._changed_lanes: set[str] = set()
        self._entries: dict[int, str] = {}
        self._entries_gone: list[int] = []
        self._dead: list[DeadLetter] = []
        self._dirty = False
        self.entry_count = 0  # records that wait in stored lanes
        self.stored_count = 0  # stored lanes
        for stored, offsets in lanes:
            lane = Lane(stored.key, deque(sorted(offsets)), stored=True)
            lane.held, lane.failures, lane.due_ms, lane.reason = stored[1:]
            self._lanes[lane.key] = lane
            self.stored_count += 1
            self.entry_count += len(lane.waiting)
            self._schedule(lane)

    # -- what comes in

    def missing(self) -> list[int]:
        """Return offsets below the position that were not settled before a take-over: feed them first."""
        holes, self._holes = self._holes, []
        return holes

    def room(self) -> int:
        """Return how many more offsets may be fed."""
        return self.base + WINDOW - self.position

    def relieve(self) -> None:
        """Spill the lane that keeps the base from moving, so that the rest of the partition can go on."""
        for lane in self._lanes.values():
            if not lane.stored and lane.waiting[0] == self.base:
                self._spill(lane)
                return

    def feed(self, offset: int, lane: str, wanted: bool) -> None:
        """Take note of a record of the log, in the order of offsets."""
        self.position = max(self.position, offset + 1)
        if not wanted:
            self._pass(offset)
            return
        known = self._lanes.get(lane)
        if known is None:
            known = self._lanes[lane] = Lane(lane)
        known.waiting.append(offset)
        if known.stored:
            self._enter(known, offset)
            if not known.held and not known.out and len(known.waiting) == 1:
                self._schedule(known)
        elif not known.out and len(known.waiting) == 1:
            self._ready.append(lane)
        elif len(known.waiting) > SLOW_WAITING:
            self._spill(known)

    # -- what goes out

    def take(self, now_ms: int, limit: int) -> list[Delivery]:
        """Hand out up to so many records, one a lane, and mark them as out."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, key = heappop(self._due)
            lane = self._lanes.get(key)
            if lane is not None and lane.due_ms == due_ms and not lane.out and not lane.held:
                self._ready.append(key)
        taken: list[Delivery] = []
        while self._ready and len(taken) < limit:
            lane = self._lanes.get(self._ready.popleft())
            if lane is None or lane.out or lane.held or not lane.waiting:
                continue
            lane.out = True
            self._out[lane.waiting[0]] = lane
            taken.append(Delivery(lane.waiting[0], lane.key, lane.failures))
        return taken

    def next_due_ms(self) -> int | None:
        """Return when the next waiting lane is due, if one waits."""
        return self._due[0][0] if self._due else None

    def out(self) -> int:
        """Return how many records are handed out."""
        return len(self._out)

    def idle(self, now_ms: int) -> bool:
        """Return whether nothing is out and nothing may be handed out now."""
        return not self._out and not self._ready and not (self._due and self._due[0][0] <= now_ms)

    # -- what comes back

    def finish(self, offset: int, verdict: Verdict) -> None:
        """Take note of what became of a record that was handed out."""
        lane = self._out.pop(offset)
        lane.out = False
        match verdict:
            case Passed():
                self._leave(lane, offset)
            case Dead(failures, reason, hold):
                self._dead.append(DeadLetter(offset, lane.key, failures, reason))
                self._leave(lane, offset, hold=hold, reason=reason)
            case Parked(alone=True) if lane.key != alone_key(lane.key, offset):
                self._park_alone(lane, offset, verdict)
            case Parked(due_ms, failures, reason):
                lane.failures, lane.due_ms, lane.reason = failures, due_ms, reason
                self._store(lane)
                self._schedule(lane)

    def untake(self, offset: int) -> None:
        """Take back a record that was handed out and never started."""
        lane = self._out.pop(offset)
        lane.out = False
        self._ready.append(lane.key)

    # -- what is written

    def settlement(self) -> Settlement | None:
        """Return all that changed since the last one, or None; if writing it fails, load the partition anew."""
        if not self._dirty:
            return None
        lanes = [self._lanes[key] for key in self._changed_lanes if key in self._lanes]
        settled = Settlement(
            base=self.base,
            passed=_bitmap(self.base, self._passed),
            lanes=[
                StoredLane(lane.key, lane.held, lane.failures, lane.due_ms, lane.reason) for lane in lanes
            ],
            lanes_gone=[key for key in self._changed_lanes if key not in self._lanes],
            entries=[(lane, offset) for offset, lane in self._entries.items()],
            entries_gone=self._entries_gone,
            dead=self._dead,
        )
        self._changed_lanes, self._entries, self._entries_gone, self._dead = set(), {}, [], []
        self._dirty = False
        return settled

    # -- inside

    def _pass(self, offset: int) -> None:
        self._dirty = True
        if offset != self.base:
            self._passed.add(offset)
            return
        self.base += 1
        while self.base in self._passed:
            self._passed.remove(self.base)
            self.base += 1

    def _leave(self, lane: Lane, offset: int, *, hold: bool = False, reason: str = "") -> None:
        """Settle the head of a lane: what is behind it is next, or waits for a person."""
        assert lane.waiting[0] == offset, "only the head of a lane is ever out"
        lane.waiting.popleft()
        if lane.stored:
            self._forget_entry(offset)
        else:
            self._pass(offset)
        lane.failures, lane.due_ms = 0, 0
        if hold:
            lane.held, lane.reason = True, reason
            self._store(lane)
        elif lane.waiting:
            if lane.stored:
                self._changed_lanes.add(lane.key)
            self._ready.append(lane.key)
        else:
            self._remove(lane)
        self._dirty = True

    def _park_alone(self, lane: Lane, offset: int, verdict: Parked) -> None:
        """Give a failed record a lane of its own and let its lane go on."""
        lane.waiting.popleft()
        own = Lane(alone_key(lane.key, offset), deque([offset]))
        own.failures, own.due_ms, own.reason = verdict.failures, verdict.due_ms, verdict.reason
        if lane.stored:
            self._forget_entry(offset)
        self._lanes[own.key] = own
        self._store(own)
        self._schedule(own)
        lane.failures, lane.due_ms = 0, 0
        if lane.waiting:
            self._ready.append(lane.key)
        else:
            self._remove(lane)

    def _spill(self, lane: Lane) -> None:
        """Let the cursor pass a lane that is healthy but too slow for the window."""
        lane.reason = "slow"
        self._store(lane)

    def _store(self, lane: Lane) -> None:
        """Make a lane's offsets entries, so that the cursor may pass them."""
        if not lane.stored:
            lane.stored = True
            self.stored_count += 1
            for offset in lane.waiting:
                self._enter(lane, offset)
        self._changed_lanes.add(lane.key)
        self._dirty = True

    def _enter(self, lane: Lane, offset: int) -> None:
        self._entries[offset] = lane.key
        self.entry_count += 1
        if offset >= self.base and offset not in self._passed:
            self._pass(offset)
        self._changed_lanes.add(lane.key)
        self._dirty = True

    def _forget_entry(self, offset: int) -> None:
        self._dirty = True
        self.entry_count -= 1
        if self._entries.pop(offset, None) is None:
            self._entries_gone.append(offset)

    def _remove(self, lane: Lane) -> None:
        del self._lanes[lane.key]
        if lane.stored:
            self.stored_count -= 1
            self._changed_lanes.add(lane.key)

    def _schedule(self, lane: Lane) -> None:
        if not lane.held:
            heappush(self._due, (lane.due_ms, lane.key))


def alone_key(lane: str, offset: int) -> str:
    """Return the key of the lane that a record retried alone has to itself."""
    return lane if lane.endswith(f"#{offset}") else f"{lane}#{offset}"


def _bitmap(base: int, passed: set[int]) -> bytes:
    if not passed:
        return b""
    bits = bytearray((max(passed) - base) // 8 + 1)
    for offset in passed:
        bits[(offset - base) // 8] |= 1 << (offset - base) % 8
    return bytes(bits)


def _bits(bitmap: bytes) -> Iterable[int]:
    for place, byte in enumerate(bitmap):
        for bit in range(8):
            if byte >> bit & 1:
                yield place * 8 + bit
