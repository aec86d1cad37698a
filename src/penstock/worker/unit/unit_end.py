"""The input of a unit of work, and its outcomes: values between its thread and the delivery loop."""

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

    `verdict`: on each of them; it tells whether a single record was completed only by its handler's fallback.
    """

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
