"""A unit of work and the delivery loop, between them: its parts, its outcomes, who ends it, its settlement."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from penstock.database.database import Transaction
from penstock.delivery.machine import Settlement
from penstock.delivery.store import GroupStore, Owned
from penstock.delivery.verdict import Passed, Verdict

from ..calling.verdicts import PASSED
from ..handler import HandlerTask
from .partition_work import as_much_again


@dataclass(slots=True)
class Part:
    """The records of one partition in a unit, oldest first."""

    number: int
    owned: Owned
    tasks: list[HandlerTask]


@dataclass(frozen=True, slots=True)
class Committed:
    """The first `count` records are handled, with this verdict on each, and their cursors have moved."""

    count: int
    verdict: Passed = Passed()


@dataclass(frozen=True, slots=True)
class Undone:
    """Nothing is committed. `task` did not pass; its verdict is present if it was tried alone.

    `called`: for how many records handlers were called; their effects elsewhere may be repeated.
    """

    task: HandlerTask
    verdict: Verdict | None
    called: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The database failed: nothing is committed, or (in doubt) perhaps all. Lost: others own a partition."""

    error: Exception | None
    in_doubt: bool


UnitOutcome = Committed | Undone | Broken


class Claim:
    """Decides, once, who ends a unit: the unit itself, by committing, or a thread that waited long enough.

    `current` is the task that the unit handles now, and since when: the claim of a thread that gives up waiting is for
    that very call. From any thread.
    """

    def __init__(self) -> None:
        self.current: tuple[HandlerTask, float] | None = None
        self._is_taken, self._lock = False, Lock()

    @property
    def is_taken(self) -> bool:
        """Whether a claim was granted."""
        return self._is_taken

    def take(self, seen: tuple[HandlerTask, float] | None = None) -> bool:
        """Claim the unit; return whether that is granted. `seen`: only if this is still the current call."""
        with self._lock:
            if self._is_taken or (seen is not None and seen is not self.current):
                return False
            self._is_taken = True
            return True

    def reopen(self) -> None:
        """Go on after all: from here on another thread may claim it again, when it takes too long."""
        with self._lock:
            self.current, self._is_taken = None, False


class CursorLost(Exception):
    """Another owner has a partition of the unit: nothing of the unit may be committed."""


class CursorMove:
    """The settlement of a unit's partitions: written last in the transaction, confirmed after the commit.

    `has_begun`: from then on the machines have moved, so without a commit the partitions must be taken again.
    """

    def __init__(self, store: GroupStore, parts: Sequence[Part]) -> None:
        self._store, self._parts = store, parts
        self._written: dict[int, tuple[Owned, Settlement]] = {}
        self._skips: set[int] = set()
        self.has_begun = False

    @property
    def settled(self) -> dict[int, Settlement]:
        """The settlement of each partition, once it is committed."""
        return {number: settlement for number, (_, settlement) in self._written.items()}

    def write(self, tx: Transaction, count: int, verdict: Verdict = PASSED) -> None:
        """Pass the first `count` records, with this verdict, and move their cursors. Raises CursorLost."""
        self.has_begun = True
        written: dict[int, tuple[Owned, Settlement]] = {}
        left = count
        for part in self._parts:
            machine, done = part.owned.machine, part.tasks[:left]
            for task in reversed(part.tasks[len(done) :]):
                machine.untake(task.place.offset)
            for task in done:
                machine.finish(task.place.offset, verdict)
            left -= len(done)
            settlement = machine.settlement(as_much_again(len(done))) if done else None
            if settlement is not None:
                part.owned.plan(settlement)
                written[part.number] = (part.owned, settlement)
        lost, self._skips = self._store.settle_in(tx, written)
        if lost:
            raise CursorLost
        self._written = written

    def confirm(self) -> None:
        """Record that the transaction has committed."""
        for number, (owned, settlement) in self._written.items():
            owned.settled(settlement, skips=number in self._skips)
