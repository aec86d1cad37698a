"""What a unit of work takes, and how it ends: values between its thread and the delivery loop."""

from dataclasses import dataclass

from penstock.delivery.store import Owned
from penstock.delivery.verdict import Passed, Verdict

from ..task import HandlerTask


@dataclass(slots=True)
class Part:
    """The records of one partition in a unit, oldest first."""

    number: int
    owned: Owned
    tasks: list[HandlerTask]


@dataclass(frozen=True, slots=True)
class Committed:
    """The first `count` records are handled, and their cursors have moved.

    `verdict`: on each of them; it says if there was one, and only its handler's fallback completed it.
    """

    count: int
    verdict: Passed = Passed()


@dataclass(frozen=True, slots=True)
class Undone:
    """Nothing is committed. `task` did not pass; its verdict is there when it was tried alone.

    `called`: for how many records handlers were called; what those did elsewhere may be done again.
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
