"""What delivery promises, said with lists; and a store for it, said with dicts.

`Reference` knows nothing of windows, bitmaps, entries or epochs: it is the list of all records and what
became of each. `Rows` is what a settling writes and a take-over reads; `Store` adds the cursor's owner,
epoch and version, and holds every write it accepts against the reference.
"""

from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.delivery.lane import LaneId, StoredLane, WaitState, alone_in
from penstock.delivery.machine import NewDeadLetter, Partition, Settlement
from penstock.delivery.verdict import OnExhausted, OnFailure

MAX_RETRIES = 2
ERROR_MS, RETRY_MS, SNOOZE_MS = 1000, 300, 500
RESULTS = ("ok", "error", "final", "retry", "snooze", "cancel")


class Breach(AssertionError):
    """A promise of the design was broken; the text begins with its number."""


def require(promise: str, holds: bool, said: str) -> None:
    """Raise a Breach unless a promise holds."""
    if not holds:
        raise Breach(f"{promise}: {said}")


@dataclass(slots=True)
class Row:
    """One offset of the log and what became of its record."""

    offset: int
    key: str
    wanted: bool = True  # by the group's filter
    there: bool = True  # False: the log no longer holds it
    on_failure: OnFailure = OnFailure.PARK
    on_exhausted: OnExhausted = OnExhausted.HOLD
    state: str = "open"  # then done or dead
    failures: int = 0
    due_ms: int = 0
    alone: bool = False


class Outcome(NamedTuple):
    """What an attempt made of a record."""

    offset: int
    state: str
    failures: int
    due_ms: int = 0
    alone: bool = False
    hold: bool = False


def judge(row: Row, result: str, now_ms: int) -> Outcome:
    """Return what becomes of a record whose handler came to this result."""
    alone = row.on_failure is OnFailure.ALONE
    failed = row.failures + 1
    if result == "ok":
        return Outcome(row.offset, "done", row.failures)
    if result == "cancel":
        return Outcome(row.offset, "dead", row.failures)
    if result == "snooze":
        return Outcome(row.offset, "open", row.failures, now_ms + SNOOZE_MS)
    if result == "retry" and failed <= MAX_RETRIES:
        return Outcome(row.offset, "open", failed, now_ms + RETRY_MS, alone)
    if result == "error" and failed <= MAX_RETRIES and row.on_failure is not OnFailure.DEAD:
        return Outcome(row.offset, "open", failed, now_ms + ERROR_MS, alone)
    hold = row.on_failure is OnFailure.PARK and row.on_exhausted is OnExhausted.HOLD
    return Outcome(row.offset, "dead", failed, hold=hold)


@dataclass
class Reference:
    """All records of a partition, in order, and the lanes that a dead one holds."""

    rows: list[Row] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "Reference":
        """Return one that goes its own way from here."""
        return Reference([copy(row) for row in self.rows], dict(self.held))

    def open(self) -> Iterator[Row]:
        """Yield the records that are not settled."""
        return (row for row in self.rows if row.wanted and row.state == "open")

    def heads(self) -> Iterator[Row]:
        """Yield the oldest open record of each lane that is not held, and each that is on its own."""
        seen = set(self.held)
        for row in self.open():
            if row.alone:
                yield row
            elif row.key not in seen:
                seen.add(row.key)
                yield row

    def apply(self, outcome: Outcome) -> None:
        """Note what became of a record: it must have been its turn."""
        row = self.rows[outcome.offset]
        require("P1", row.wanted and row.state == "open", f"offset {row.offset} is settled twice")
        require("P2", row in self.heads(), f"offset {row.offset} of {row.key} was not next")
        row.state, row.failures, row.due_ms = outcome.state, outcome.failures, outcome.due_ms
        if outcome.hold and not row.alone:
            self.held[row.key] = row.offset
        row.alone = row.alone or outcome.alone

    def requeue(self, offset: int) -> None:
        """Try a dead record again: at the head of the lane it holds, else on its own."""
        row = self.rows[offset]
        row.state, row.failures, row.due_ms = "open", 0, 0
        row.alone = row.alone or self.held.get(row.key) != offset
        self.free(offset)

    def free(self, offset: int) -> None:
        """Let the lane go on that a dead record holds, if it holds one."""
        key = self.rows[offset].key
        if self.held.get(key) == offset:
            del self.held[key]


@dataclass
class Rows:
    """What a store keeps for one cursor."""

    base: int = 0
    passed: bytes = b""
    lanes: dict[LaneId, StoredLane] = field(default_factory=dict)
    entries: dict[int, LaneId] = field(default_factory=dict)
    dead: dict[int, NewDeadLetter] = field(default_factory=dict)

    def apply(self, settled: Settlement) -> None:
        """Write a settlement."""
        for key in settled.lanes_gone:
            self.lanes.pop(key, None)
        for offset in settled.entries_gone:
            self.entries.pop(offset, None)
        self.lanes.update((lane.key, lane) for lane in settled.lanes)
        self.entries.update((offset, key) for key, offset in settled.entries)
        for letter in settled.dead:
            self.dead.pop(letter.offset, None)  # the latest death stands last
            self.dead[letter.offset] = letter
        self.base, self.passed = settled.base, settled.passed

    def load(self, kind: type[Partition] = Partition) -> Partition:
        """Return the partition as a new owner finds it."""
        return kind(self.base, self.passed, [(lane, self._offsets(lane.key)) for lane in self.lanes.values()])

    def has_passed(self, offset: int) -> bool:
        """Return whether the cursor has left an offset behind."""
        place = offset - self.base
        return place < 0 or (place < len(self.passed) * 8 and bool(self.passed[place // 8] >> place % 8 & 1))

    def requeue(self, offset: int) -> None:
        """Do what a person's requeue does."""
        letter = self.dead[offset]
        key = letter.lane if self._holds(letter) else alone_in(letter.lane, offset)
        del self.dead[offset]
        self.lanes[key] = StoredLane(key, WaitState.REQUEUED, 0, 0, "requeued")
        self.entries[offset] = key

    def discard(self, offset: int) -> None:
        """Do what a person's discard does."""
        letter = self.dead[offset]
        if self._holds(letter):
            self.lanes[letter.lane] = self.lanes[letter.lane]._replace(state=WaitState.SLOW)
            if not self._offsets(letter.lane):
                del self.lanes[letter.lane]
        del self.dead[offset]

    def _holds(self, letter: NewDeadLetter) -> bool:
        """Return whether this is the letter that holds its lane: the last of it to die."""
        lane = self.lanes.get(letter.lane)
        of_lane = [each for each in self.dead.values() if each.lane == letter.lane]
        return lane is not None and lane.held and of_lane[-1] is letter

    def _offsets(self, key: LaneId) -> list[int]:
        return [offset for offset, lane in self.entries.items() if lane == key]


@dataclass
class Pending:
    """A settling on its way to the store."""

    worker: str
    epoch: int
    version: int
    settled: Settlement
    outcomes: list[Outcome]


class Store:
    """One cursor, its rows, and all that was ever settled."""

    def __init__(self) -> None:
        self.rows, self.truth = Rows(), Reference()
        self.owner: str | None = None
        self.epoch = self.version = 0
        self.owners: dict[int, str] = {}  # by epoch
        self.settled: Counter[int] = Counter()
        self.wanted: Counter[int] = Counter()  # settled outcomes that each offset is to have in the end

    def append(self, row: Row) -> None:
        """Add a record to the log."""
        self.truth.rows.append(row)
        self.wanted[row.offset] += row.wanted

    def take(self, worker: str) -> None:
        """Make a worker the owner, whoever it was before."""
        self.owner, self.epoch = worker, self.epoch + 1
        self.owners[self.epoch] = worker

    def release(self) -> None:
        """Leave the cursor without an owner."""
        self.owner, self.epoch = None, self.epoch + 1

    def settle(self, pending: Pending) -> bool:
        """Write if the owner, the epoch and the version are those expected; return whether they were."""
        if not self.accepts(pending):
            return False
        said = f"{pending.worker} settled in epoch {pending.epoch}, {self.owner} owns epoch {self.epoch}"
        owned = (self.owner, self.epoch) == (pending.worker, pending.epoch)
        require("P5", owned and self.owners[self.epoch] == pending.worker, said)
        for outcome in pending.outcomes:
            self.truth.apply(outcome)
            self.settled[outcome.offset] += outcome.state != "open"
        self.version += 1
        self.rows.apply(pending.settled)
        self.check()
        return True

    def accepts(self, pending: Pending) -> bool:
        """Return whether the compare-and-set succeeds."""
        return self.place() == (pending.worker, pending.epoch, pending.version)

    def place(self) -> tuple[str | None, int, int]:
        """Return what a settling is compared with."""
        return self.owner, self.epoch, self.version

    def requeue(self, offset: int) -> None:
        """Try a dead letter again."""
        self.rows.requeue(offset)
        self.truth.requeue(offset)
        self.wanted[offset] += 1
        self.interfere()

    def discard(self, offset: int) -> None:
        """Forget a dead letter."""
        self.rows.discard(offset)
        self.truth.free(offset)
        self.interfere()

    def interfere(self) -> None:
        """Raise the epoch, as a person's write or a failover does: the owner is refused and loads anew.

        Raising the version would not do: it could meet that of an owner whose last commit was lost.
        """
        self.epoch += 1
        if self.owner is not None:
            self.owners[self.epoch] = self.owner
        self.check()

    def check(self) -> None:
        """Hold the rows against the truth."""
        rows, truth = self.rows, self.truth
        for row in truth.rows:
            self._check_place(row, rows.has_passed(row.offset), row.offset in rows.entries)
        waiting = {rows.entries[head.offset]: head for head in truth.heads() if head.offset in rows.entries}
        for key, lane in rows.lanes.items():
            head = waiting.get(key)
            expected = (key in truth.held, head.failures if head else 0, head.due_ms if head else 0)
            require("rows", (lane.held, *lane[2:4]) == expected, f"{lane} should be {expected}")
            in_use = lane.held or key in rows.entries.values()
            require("P8", in_use, f"the row of lane {key} is left behind")
        require("rows", set(rows.entries.values()) <= set(rows.lanes), "an entry has no lane")
        require("rows", set(truth.held) <= set(rows.lanes), "a held lane has no row")

    def _check_place(self, row: Row, passed: bool, entry: bool) -> None:
        settled = not row.wanted or row.state != "open"
        require("P1", settled or entry or not passed, f"offset {row.offset} is passed, not settled: lost")
        require("P6", not (settled and entry), f"offset {row.offset} is settled and still an entry")
        require("P6", passed or not entry, f"offset {row.offset} is an entry and not passed: twice")
        if row.wanted:
            require("P6", passed or not settled, f"offset {row.offset} is settled and not passed: again")
            require("rows", entry or not row.due_ms or settled, f"offset {row.offset} waits without an entry")
            in_lane = alone_in(row.key, row.offset) if row.alone else row.key
            require("rows", self.rows.entries.get(row.offset, in_lane) == in_lane, "an entry is in another lane")
