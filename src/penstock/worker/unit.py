"""A unit of work: records handled in one transaction that also moves their cursors.

For handlers with `transaction=True`: what they write through `record.tx`, what they publish on it and their
progress commit together or not at all. The cursors are compared and moved by the last statements before the
commit, so no lock of ours is held while a handler runs, and a unit that was replaced meanwhile commits
nothing. While it is at work its partitions are its own: nobody else touches their machines.

Only what passes commits. When one record does not, all is rolled back and said which; it is tried again
alone, the others without it.
"""

import logging
from contextvars import copy_context
from dataclasses import dataclass
from threading import Lock
from typing import Any

from msgspec import structs

from penstock import points
from penstock.clock import Clock
from penstock.delivery.machine import Settlement
from penstock.delivery.store import GroupStore, Owned
from penstock.delivery.verdict import Verdict
from penstock.errors import HandlerTimeout, TransactionEnded
from penstock.log.sql.contract import TransactionState
from penstock.log.sql.database import Database, Transaction
from penstock.model.outcome import Done
from penstock.model.record import Record

from .attempt import PASSED, after_answer, after_error, last_try, needs_last_try
from .task import Task

log = logging.getLogger("penstock.handlers")

BEFORE_CURSOR = points.declare("unit.before_cursor", "Handlers have written; their cursors have not moved.")
BEFORE_COMMIT = points.declare("unit.before_commit", "Cursors have moved with what was written; no commit.")
AFTER_COMMIT = points.declare("unit.after_commit", "What handlers wrote and their cursors are committed.")

UNIT_RECORDS = 100  # in one transaction at most
UNIT_SECONDS = 0.05  # after so long it takes no further record: locks are held until it commits
_REPLAYS = 5  # of one record whose transaction failed because of others


@dataclass(slots=True)
class Part:
    """The records of one partition in a unit, oldest first."""

    number: int
    owned: Owned
    tasks: list[Task]


@dataclass(frozen=True, slots=True)
class Committed:
    """The first so many records are handled, and their cursors have moved."""

    count: int


@dataclass(frozen=True, slots=True)
class Undone:
    """Nothing is committed. `task` did not pass; its verdict is there when it was tried alone.

    `called`: the handlers of so many had been called, so what they did elsewhere may be done again.
    """

    task: Task
    verdict: Verdict | None
    called: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The database failed: nothing is committed, or (in doubt) perhaps all. Lost: others own a partition."""

    error: Exception | None
    in_doubt: bool


Outcome = Committed | Undone | Broken


class _NotPassed(Exception):
    def __init__(self, task: Task, error: BaseException | None, answer: Any) -> None:
        self.task, self.error, self.answer = task, error, answer


class _Abandoned(Exception):
    pass


class _Lost(Exception):
    pass


class Unit:
    """Works in one thread; `claim` may be asked from another that gives it up."""

    def __init__(self, database: Database, store: GroupStore, parts: list[Part], clock: Clock) -> None:
        self._database, self._store, self._clock = database, store, clock
        self.parts = parts
        self.tasks = [task for part in parts for task in part.tasks]
        self.outcome: Outcome | None = None
        self.current: tuple[Task, float] | None = None  # what is handled now, and since when
        self.seconds: list[float] = []  # how long each call took
        self._conn: Any = None
        self._claimed, self._lock = False, Lock()
        self._begun, self._moved = 0, False
        self._settled: dict[int, tuple[Owned, Settlement]] = {}
        self._skips: set[int] = set()

    def claim(self) -> bool:
        """Decide, once, who ends this unit: itself, by committing, or whoever has waited long enough."""
        with self._lock:
            claimed, self._claimed = self._claimed, True
            return not claimed

    def work(self, caught: type[BaseException] = Exception) -> bool:
        """Handle the records and commit; return False when somebody else has ended it meanwhile.

        `caught`: what counts as a handler's failure; the rest passes through, and all is rolled back.
        """
        for replay in range(_REPLAYS + 1):
            try:
                outcome = self._work(caught, again=replay < _REPLAYS)
            except _Abandoned:
                task = self.tasks[max(0, self._begun - 1)]
                log.warning("handler %s ended after it was given up; its work is undone", task.handler.id)
                return False
            if outcome is not None:
                self.outcome = outcome
                break
        return True

    def time_out(self, task: Task, limit: float) -> None:
        """End a unit whose handler takes too long: its connection is taken away, nothing is committed."""
        try:
            self._database.dialect.sever(self._conn)
        except Exception as exc:
            log.warning("the transaction of handler %s could not be ended: %s", task.handler.id, exc)
        error = HandlerTimeout(task.handler.id, limit)
        self.outcome = self._undone(task, error, None)

    @property
    def called(self) -> int:
        """Of how many records the handlers have been called."""
        return self._begun

    def verdicts(self) -> list[tuple[Task, Verdict]]:
        """Return what became of the records whose fate is decided."""
        match self.outcome:
            case Committed(done):
                return [(task, PASSED) for task in self.tasks[:done]]
            case Undone(task, verdict, _) if verdict is not None:
                return [(task, verdict)]
        return []

    # -- inside

    def _work(self, caught: type[BaseException], *, again: bool) -> Outcome | None:
        """Return what became of it; None: a single record that should be tried again at once."""
        self._begun, mine = 0, False
        try:
            with self._database.transaction(bounded=False, guarded=True) as tx:
                self._conn = tx.conn
                count = self._handle(tx, caught)
                mine = self.claim()
                if not mine:
                    raise _Abandoned
                self._settle(tx, count)
        except _Abandoned:
            raise
        except _Lost:
            return Broken(None, in_doubt=True)
        except _NotPassed as exc:
            if not mine and self._is_conflict(exc.error) and again and not self._claimed:
                return None
            if not mine and not self.claim():
                raise _Abandoned from None
            return self._undone(exc.task, exc.error, exc.answer)
        except Exception as exc:
            if not mine and not self.claim():
                raise _Abandoned from None
            return Broken(self._database.dialect.translate(exc) or exc, in_doubt=self._moved)
        return self._committed(count)

    def _is_conflict(self, error: BaseException | None) -> bool:
        """Return whether a single record failed only because of other transactions."""
        return (
            len(self.tasks) == 1
            and isinstance(error, Exception)
            and self._database.dialect.is_conflict(error)
        )

    def _handle(self, tx: Transaction, caught: type[BaseException]) -> int:
        """Call the handlers, as long as there is time; return of how many."""
        began = now = self._clock.monotonic()
        self.seconds = []
        for task in self.tasks:
            if self._begun and now - began >= UNIT_SECONDS:
                break
            self._begun += 1
            self.current = (task, now)
            answer: Any = None
            error: BaseException | None = None
            try:
                answer = copy_context().run(task.handler.binding.call, _with(task.record, tx.conn))
            except caught as raised:
                error = raised
            then, now = now, self._clock.monotonic()
            self.seconds.append(now - then)
            state = tx.state()
            if state is TransactionState.LOST:
                raise _as_error(error)
            if state is TransactionState.ENDED:
                error = TransactionEnded(f"handler {task.handler.id} ended the transaction")
            elif state is TransactionState.FAILED and error is None:
                error = TransactionEnded(f"handler {task.handler.id} went on after a failed statement")
            if error is not None or not (answer is None or answer is Done or isinstance(answer, Done)):
                raise _NotPassed(task, error, answer)
        self.current = None
        return self._begun

    def _settle(self, tx: Transaction, count: int) -> None:
        """Move the cursors in the transaction of the handlers; from here on the machines have moved, too."""
        points.reach(BEFORE_CURSOR)
        if not tx.seal():
            ended = TransactionEnded("a handler ended the transaction and began another")
            raise _NotPassed(self.tasks[0], ended, None)
        self._moved = True
        settled: dict[int, tuple[Owned, Settlement]] = {}
        left = count
        for part in self.parts:
            machine, done = part.owned.machine, part.tasks[:left]
            for task in reversed(part.tasks[len(done) :]):
                machine.untake(task.place.offset)
            for task in done:
                machine.finish(task.place.offset, PASSED)
            left -= len(done)
            settlement = machine.settlement() if done else None
            if settlement is not None:
                settled[part.number] = (part.owned, settlement)
        lost, self._skips = self._store.settle_in(tx, settled)
        if lost:
            raise _Lost
        self._settled = settled
        points.reach(BEFORE_COMMIT)

    def _committed(self, count: int) -> Committed:
        points.reach(AFTER_COMMIT)
        for number, (owned, _) in self._settled.items():
            owned.version += 1
            owned.machine.confirm(skips=number in self._skips)
        return Committed(count)

    def _undone(self, task: Task, error: BaseException | None, answer: Any) -> Outcome:
        """Say what did not pass; the verdict on a record that was alone, after its fallback's last try."""
        if len(self.tasks) > 1:
            return Undone(task, None, self._begun)
        handler, failures, clock = task.handler, task.failures, self._clock
        if error is not None:
            verdict = after_error(handler, task.record, error, failures=failures, clock=clock)
        else:
            verdict = after_answer(handler, task.record, answer, failures=failures, clock=clock)
        if needs_last_try(handler, verdict, failures) and not isinstance(error, HandlerTimeout):
            return self._last_try(task, verdict)
        return Undone(task, verdict, 1)

    def _last_try(self, task: Task, verdict: Verdict) -> Outcome:
        """Call the fallback in a transaction of its own, which passes the record if it passes."""
        try:
            with self._database.transaction(bounded=False, guarded=True) as tx:
                given = last_try(_Here(), task.handler, _with(task.record, tx.conn), verdict)
                if given is verdict:
                    raise _NotPassed(task, None, None)
                self._settle(tx, 1)
        except _NotPassed:
            return Undone(task, verdict, 1)
        except _Lost:
            return Broken(None, in_doubt=True)
        except Exception as exc:
            return Broken(self._database.dialect.translate(exc) or exc, in_doubt=self._moved)
        return self._committed(1)


class _Here:
    """Calls a fallback in this thread."""

    def answer(self, function: Any, *args: Any, limit: HandlerTimeout | None = None) -> Any:
        return function(*args)


def _with(record: Record, conn: Any) -> Record:
    return structs.replace(record, _tx=conn)


def _as_error(error: BaseException | None) -> Exception:
    """Return what to report when a handler's connection was lost."""
    return error if isinstance(error, Exception) else ConnectionError("the connection of record.tx is gone")
