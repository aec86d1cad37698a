"""The suspects that run in this process, over all its groups (docs/decisions/0022-blame.md)."""

from typing import NamedTuple

from penstock.clock import Clock

from .partition_work import PartitionWork

LEAST_AT_ONCE = 16  # suspects of partitions that go by few
ALONE_SECONDS = 10.0  # how long the rest of the process waits for a record that is tried alone
QUIET_SECONDS = 10.0  # how long such a record waits for calls that already run
_SLOW_SECONDS = 1.0  # a suspect that takes longer makes room for another


class Suspect(NamedTuple):
    """A record that may have killed its process, and since when it runs or waits to run."""

    work: PartitionWork
    offset: int
    since: float

    def is_at(self, work: PartitionWork, offset: int) -> bool:
        """Return whether it is the record at that place."""
        return self.work is work and self.offset == offset


class Trials:
    """Decides how many suspects may begin, and whether one of them has the process to itself.

    A suspect that must run alone asks for a turn. From then on the delivery loop begins nothing else and
    takes back tasks that have not begun; once nothing else runs, or the wait exceeds its limit, the suspect
    gets its turn. A process that also does other work, and a drain, try no record: their end says nothing
    about a record. One thread, the delivery loop's.
    """

    def __init__(self, clock: Clock, *, threads: int = 1, dedicated: bool = False) -> None:
        self._clock, self.dedicated = clock, dedicated
        self._at_once = max(LEAST_AT_ONCE, 2 * threads)
        self._out: list[Suspect] = []
        self._asked: Suspect | None = None
        self._alone: Suspect | None = None
        self._granted = self._quiet = False
        self.needs_settling = False  # the outcome of a suspect must be written at once

    # -- for the deliveries of groups

    def room(self) -> int:
        """Return how many suspects may begin now; 0 as long as only a few could."""
        now = self._clock.monotonic()
        self._out = [each for each in self._out if not each.work.lost]
        room = self._at_once - sum(now - each.since < _SLOW_SECONDS for each in self._out)
        return room if room >= self._at_once // 2 else 0

    def ask(self, work: PartitionWork, offset: int) -> None:
        """Let a suspect wait for its turn alone, unless another one does."""
        if not self.is_asked:
            self._asked = Suspect(work, offset, self._clock.monotonic())

    def turn(self) -> Suspect | None:
        """Return the suspect that has its turn, if one has: nothing else may begin."""
        return self._asked if self._granted else None

    def begin(self, work: PartitionWork, offset: int) -> bool:
        """Record that a suspect begins; return whether it has the process to itself."""
        suspect = Suspect(work, offset, self._clock.monotonic())
        self._out.append(suspect)
        if self._quiet and self._asked is not None and self._asked.is_at(work, offset):
            self._alone = suspect
        return self._alone is suspect

    def end(self, work: PartitionWork, offset: int) -> None:
        """Record that a suspect no longer runs."""
        self._out = [each for each in self._out if not each.is_at(work, offset)]
        if self._alone is not None and self._alone.is_at(work, offset):
            self.needs_settling = True

    # -- for the delivery loop

    @property
    def is_busy(self) -> bool:
        """Whether a suspect runs, or one waits to run."""
        return bool(self._out) or self.needs_settling or self.is_asked or self.alone is not None

    @property
    def is_asked(self) -> bool:
        """Whether a suspect waits for its turn alone."""
        if self._asked is not None and (self._asked.work.lost or self._asked.work.leaving):
            self.withdraw()
        return self._asked is not None

    @property
    def alone(self) -> Suspect | None:
        """The suspect that has the process to itself, until its end is written down."""
        if self._alone is not None and self._alone.work.lost:
            self.open()
        return self._alone

    @property
    def since(self) -> float | None:
        """Since when nothing else begins, because a suspect runs alone or is about to. From any thread."""
        suspect = self._alone or self._asked
        return None if suspect is None else suspect.since

    @property
    def is_overdue(self) -> bool:
        """Whether a suspect has had the process to itself for long enough."""
        alone = self.alone
        return alone is not None and self._clock.monotonic() - alone.since >= ALONE_SECONDS

    def grant(self, *, quiet: bool) -> bool:
        """Record whether the process is quiet; return whether the waiting suspect has its turn now."""
        waits = self._asked
        self._quiet = quiet
        self._granted = waits is not None and (
            quiet or self._clock.monotonic() - waits.since >= QUIET_SECONDS
        )
        return self._granted

    def withdraw(self) -> None:
        """End a turn: it was used, or is no longer needed."""
        self._asked, self._granted, self._quiet = None, False, False

    def settled(self) -> None:
        """Record that all is written; let others begin again, if the suspect that ran alone has ended."""
        self.needs_settling = False
        if self._alone not in self._out:
            self._alone = None

    def open(self) -> None:
        """Let others begin again, beside the suspect that ran alone."""
        self._alone = None
