"""A unit of work: records handled in one transaction that also moves their cursors.

For handlers with `transaction=True`: what they write through `record.tx`, what they publish on it and their
progress commit together or not at all. The cursors are compared and moved by the last statements before the
commit, so no lock of ours is held while a handler runs, and a unit that was replaced meanwhile commits
nothing. While it is at work its partitions are its own: nobody else touches their machines.

Only what passes commits. When one record does not, all is rolled back and said which; it is tried again
alone, the others without it.
"""

import logging
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import replace
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

from .calling.attempt import (
    COMPLETED_BY_FALLBACK,
    PASSED,
    after_answer,
    after_error,
    last_try,
    needs_last_try,
)
from .task import Task
from .unit_end import Broken, Committed, Outcome, Part, Undone

log = logging.getLogger("penstock.handlers")

BEFORE_CURSOR = points.declare("unit.before_cursor", "Handlers have written; their cursors have not moved.")
BEFORE_COMMIT = points.declare("unit.before_commit", "Cursors have moved with what was written; no commit.")
AFTER_COMMIT = points.declare("unit.after_commit", "What handlers wrote and their cursors are committed.")

UNIT_RECORDS = 100  # in one transaction at most
UNIT_SECONDS = 0.05  # after so long it takes no further record: locks are held until it commits
_REPLAYS = 5  # of one record whose transaction failed because of others


class _NotPassed(Exception):
    def __init__(self, task: Task, error: BaseException | None, answer: Any) -> None:
        self.task, self.error, self.answer = task, error, answer


class _Abandoned(Exception):
    pass


class _Lost(Exception):
    pass


class Unit:
    """Works in one thread; `claim` may be asked from another that gives it up."""

    def __init__(
        self,
        database: Database,
        store: GroupStore,
        parts: list[Part],
        clock: Clock,
        *,
        verdict: Verdict | None = None,
    ) -> None:
        """`verdict`: of a single record that is to be given up, if its fallback does not pass it."""
        self._database, self._store, self._clock, self._verdict = database, store, clock, verdict
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

    def claim(self, seen: tuple[Task, float] | None = None) -> bool:
        """Decide, once, who ends this unit: itself, by committing, or whoever has waited long enough.

        `seen`: only if this is still what is handled. A handler and its fallback are decided on apart.
        """
        with self._lock:
            if self._claimed or (seen is not None and seen is not self.current):
                return False
            self._claimed = True
            return True

    def work(self, caught: type[BaseException] = Exception) -> bool:
        """Handle the records and commit; return False when somebody else has ended it meanwhile.

        `caught`: what counts as a handler's failure; the rest passes through, and all is rolled back.
        """
        outcome, replays = None, _REPLAYS
        while outcome is None:
            try:
                if self._verdict is None:
                    outcome = self._work(caught, again=replays > 0)
                else:
                    outcome = self._last_try(self._verdict, caught, again=replays > 0)
            except _Abandoned:
                task = self.tasks[max(0, self._begun - 1)]
                log.warning("handler %s ended after it was given up; its work is undone", task.handler.id)
                return False
            replays -= 1
        self.outcome = outcome
        return True

    def time_out(self, task: Task, limit: float) -> "Unit | None":
        """End a unit whose handler takes too long: its connection is taken away, nothing is committed.

        Return the unit that goes on in its place, if the fallback is still to be asked.
        """
        try:
            self._database.dialect.sever(self._conn)
        except Exception as exc:
            log.warning("the transaction of handler %s could not be ended: %s", task.handler.id, exc)
        self.seconds = [limit]
        error, verdict = HandlerTimeout(task.handler.id, limit), self._verdict
        whose = "handler" if verdict is None else "the fallback of handler"
        log.error("%s %s did not end within %g s; its transaction is undone", whose, task.handler.id, limit)
        if verdict is None and len(self.tasks) == 1:
            verdict = self._verdict_on(task, error, None)
            if needs_last_try(task.handler, verdict, task.failures):
                following = Unit(self._database, self._store, self.parts, self._clock, verdict=verdict)
                following.seconds = self.seconds
                return following
        self.outcome = Undone(task, verdict, self._begun)
        return None

    @property
    def called(self) -> int:
        """Of how many records the handlers have been called."""
        return self._begun

    @property
    def settled(self) -> dict[int, Settlement]:
        """What was written of each partition, once it is committed."""
        return {number: settlement for number, (_, settlement) in self._settled.items()}

    def verdicts(self) -> list[tuple[Task, Verdict]]:
        """Return what became of the records whose fate is decided."""
        match self.outcome:
            case Committed(done, by_fallback):
                verdict = COMPLETED_BY_FALLBACK if by_fallback else PASSED
                return [(task, verdict) for task in self.tasks[:done]]
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
        is_conflict = self._database.dialect.is_conflict
        return len(self.tasks) == 1 and any(is_conflict(each) for each in _causes(error))

    def _lost(self, error: BaseException | None) -> Exception:
        """Return what to report when the connection of a handler is gone."""
        translate = self._database.dialect.translate
        found = next((each for each in _causes(error) if translate(each) is not None), error)
        return (
            found if isinstance(found, Exception) else ConnectionError("the connection of record.tx is gone")
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
                raise self._lost(error)
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

    def _undone(self, task: Task, error: BaseException | None, answer: Any) -> Outcome | None:
        """Say what did not pass, and the verdict on one that was alone; None: its fallback is to be asked."""
        if len(self.tasks) > 1:
            return Undone(task, None, self._begun)
        verdict = self._verdict_on(task, error, answer)
        if not needs_last_try(task.handler, verdict, task.failures):
            return Undone(task, verdict, 1)
        self._verdict = verdict
        self._reopen()
        return None

    def _reopen(self) -> None:
        """Go on after all: from here on somebody else may end it again, when that takes too long."""
        with self._lock:
            self.current, self._claimed = None, False

    def _verdict_on(self, task: Task, error: BaseException | None, answer: Any) -> Verdict:
        handler, record, failures = task.handler, task.record, task.failures
        if error is not None:
            return after_error(handler, record, error, failures=failures, clock=self._clock)
        return after_answer(handler, record, answer, failures=failures, clock=self._clock)

    def _last_try(self, verdict: Verdict, caught: type[BaseException], *, again: bool) -> Outcome | None:
        """Call the fallback in a transaction of its own, which passes the record if it passes.

        None: it failed only because of other transactions, and should be tried again at once.
        """
        (task,), here, mine = self.tasks, _Here(caught), False
        self._begun = 1
        try:
            with self._database.transaction(bounded=False, guarded=True) as tx:
                self._conn = tx.conn
                self.current = (task, self._clock.monotonic())
                given = last_try(here, task.handler, _with(task.record, tx.conn), verdict)
                mine = self.claim()
                if not mine:
                    raise _Abandoned
                if tx.state() is TransactionState.LOST:  # not the fallback's fault: it is asked again
                    raise self._lost(here.error)
                if given is verdict or not _still_open(tx, task):
                    raise _NotPassed(task, None, None)
                self._settle(tx, 1)
        except _Abandoned:
            raise
        except _NotPassed:
            if not again or not self._is_conflict(here.error):
                return Undone(task, verdict, 1)
            self._reopen()
            return None
        except _Lost:
            return Broken(None, in_doubt=True)
        except Exception as exc:
            if not mine and not self.claim():
                raise _Abandoned from None
            return Broken(self._database.dialect.translate(exc) or exc, in_doubt=self._moved)
        return replace(self._committed(1), by_fallback=True)


class _Here:
    """Calls a fallback in this thread; what is caught there is its failure."""

    def __init__(self, caught: type[BaseException]) -> None:
        self._caught = caught
        self.error: BaseException | None = None

    def answer(self, function: Any, *args: Any, limit: HandlerTimeout | None = None) -> Any:
        try:
            return function(*args)
        except self._caught as raised:
            self.error = raised
            if isinstance(raised, Exception):
                raise
            raise RuntimeError(f"it raised {raised!r}") from raised


def _still_open(tx: Transaction, task: Task) -> bool:
    """Return whether a fallback that passed has left the transaction fit to commit."""
    state = tx.state()
    if state is not TransactionState.OPEN:
        what = (
            "went on after a failed statement"
            if state is TransactionState.FAILED
            else "ended the transaction"
        )
        log.error("the fallback of handler %s %s; its record is now a dead letter", task.handler.id, what)
    return state is TransactionState.OPEN


def _with(record: Record, conn: Any) -> Record:
    return structs.replace(record, _tx=conn)


def _causes(error: BaseException | None) -> Iterator[Exception]:
    """Yield an error and what it came from: a library such as an ORM wraps what the driver says."""
    for _ in range(10):
        if isinstance(error, Exception):
            yield error
        error = None if error is None else error.__cause__
