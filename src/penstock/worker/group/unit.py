"""A unit of work: records handled in one transaction that also moves their cursors.

For handlers with `transaction=True`: their writes through `record.tx`, the events they publish on it and their progress
commit together or not at all. The cursors are compared and moved last, so no lock of ours is held while a handler runs,
and a unit that was replaced meanwhile commits nothing.

Only passed records commit. When one record does not pass, everything is rolled back and that record reported; it is
retried alone, the others without it.
"""

import logging
from collections.abc import Callable
from typing import Any

from penstock import points
from penstock.clock import Clock
from penstock.database.contract import TransactionState
from penstock.database.database import Database, Transaction
from penstock.delivery.machine import Settlement
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Passed, Verdict
from penstock.errors import HandlerTimeout, TransactionEnded
from penstock.model.outcome import Done
from penstock.redaction import words

from ..calling.verdicts import PASSED, after_answer, after_error, last_try, needs_last_try
from ..handler import HandlerTask, about_record
from .unit_outcome import (
    Broken,
    Claim,
    Committed,
    CursorLost,
    CursorMove,
    FallbackInTransaction,
    Part,
    SessionLost,
    Undone,
    UnitOutcome,
    call_handler,
    causes,
    error_after,
    explained,
    is_fit_to_commit,
    store_answers,
    what_broke,
    with_tx,
)

logger = logging.getLogger("penstock.handlers")

BEFORE_CURSOR = points.declare("unit.before_cursor", "Handlers have written; their cursors have not moved.")
BEFORE_COMMIT = points.declare("unit.before_commit", "Cursors have moved with what was written; no commit.")
AFTER_COMMIT = points.declare("unit.after_commit", "What handlers wrote and their cursors are committed.")

UNIT_RECORDS = 100  # in one transaction at most
UNIT_SECONDS = 0.05  # after this time it takes no further record: locks are held until it commits
_REPLAYS = 5  # of one record whose transaction failed because of other transactions


class _NotPassed(Exception):
    def __init__(self, task: HandlerTask, error: BaseException | None, answer: Any) -> None:
        super().__init__()  # without arguments, which hold payloads and would be its text
        self.task, self.error, self.answer = task, error, answer


class _Abandoned(Exception):
    pass


class _TooLate(Exception):
    pass


class Unit:
    """Records that are handled and commit together, in one thread; another may give it up: the claim decides."""

    def __init__(
        self, database: Database, store: GroupStore, parts: list[Part], clock: Clock, *, verdict: Verdict | None = None
    ) -> None:
        """`verdict`: on a single record that will be given up if its fallback does not pass it."""
        self._database, self._store, self._clock, self._verdict = database, store, clock, verdict
        self.parts = parts
        self.tasks = [task for part in parts for task in part.tasks]
        self.outcome: UnitOutcome | None = None
        self.claim = Claim()
        self.seconds: list[float] = []  # how long each call took
        self.may_start: Callable[[], bool] = lambda: True  # called before each call: the lease may be over
        self._move = CursorMove(store, parts)
        self._conn: Any = None
        self._begun = 0
        self._is_again = False  # its one record was called before, and the transaction had a conflict

    def work(self, caught: type[BaseException] = Exception) -> bool:
        """Handle the records and commit; return False if another thread ended it. Others than `caught` pass through."""
        outcome, replays = None, _REPLAYS
        while outcome is None:
            try:
                if self._verdict is None:
                    outcome = self._work(caught, again=replays > 0)
                else:
                    outcome = self._last_try(self._verdict, caught, again=replays > 0)
            except _Abandoned:
                task = self.tasks[max(0, self._begun - 1)]
                undone = "handler %s ended after it was given up; its work is undone"
                logger.warning(undone, task.handler.id, extra=about_record(task.handler, task.record))
                return False
            replays -= 1
        self.outcome = outcome
        return True

    def time_out(self, task: HandlerTask, limit: float) -> "Unit | None":
        """Sever the connection of a unit that takes too long; return the one that calls the fallback, if any."""
        try:
            self._database.dialect.sever(self._conn)
        except Exception as exc:
            fields = about_record(task.handler, task.record, error=words(exc))
            logger.warning(
                "the transaction of handler %s could not be ended: %s", task.handler.id, words(exc), extra=fields
            )
        self.seconds = [limit]
        error, verdict = HandlerTimeout(task.handler.id, limit), self._verdict
        whose = "handler" if verdict is None else "the fallback of handler"
        fields = about_record(task.handler, task.record, error=str(error))
        undone = "%s %s did not end within %g s; its transaction is undone"
        logger.error(undone, whose, task.handler.id, limit, extra=fields)
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
        """The number of records whose handlers have been called."""
        return self._begun

    @property
    def settled(self) -> dict[int, Settlement]:
        """The settlement of each partition, once it is committed."""
        return self._move.settled

    def verdicts(self) -> list[tuple[HandlerTask, Verdict]]:
        """Return the verdicts on the records that are decided."""
        match self.outcome:
            case Committed(done, verdict):
                return [(task, verdict) for task in self.tasks[:done]]
            case Undone(task, verdict, _) if verdict is not None:
                return [(task, verdict)]
        return []

    def _work(self, caught: type[BaseException], *, again: bool) -> UnitOutcome | None:
        """Return the outcome; None: a single record that should be retried at once."""
        self._begun, mine, dialect = 0, False, self._database.dialect
        try:
            with self._database.transaction(bounded=False, guarded=True) as tx:
                self._conn = tx.conn
                count = self._handle(tx, caught)
                mine = self.claim.take()
                if not mine:
                    raise _Abandoned
                self._settle(tx, count)
        except _Abandoned:
            raise
        except CursorLost:
            return Broken(None, in_doubt=True)
        except _TooLate:
            if not self.claim.take():
                raise _Abandoned from None
            return Broken(None, in_doubt=False)
        except _NotPassed as exc:
            if self._is_conflict(exc.error) and again and (mine or not self.claim.is_taken):
                if mine:
                    self.claim.reopen()
                self._is_again = True
                return None
            if not mine and not self.claim.take():
                raise _Abandoned from None
            return self._undone(exc.task, exc.error, exc.answer)
        except SessionLost as lost:
            if not mine and not self.claim.take():
                raise _Abandoned from None
            if not store_answers(dialect, self._conn):
                return self._broken(lost.cause)
            return self._undone(lost.task, lost.explained(dialect), None)
        except Exception as exc:
            if not mine and not self.claim.take():
                raise _Abandoned from None
            return self._broken(exc)
        points.reach(AFTER_COMMIT)
        self._move.confirm()
        return Committed(count)

    def _broken(self, error: Exception) -> Broken:
        return Broken(self._database.dialect.translate(error) or error, in_doubt=self._move.has_begun)

    def _is_conflict(self, error: BaseException | None) -> bool:
        """Return whether a single record failed only because of other transactions."""
        is_conflict = self._database.dialect.is_conflict
        return len(self.tasks) == 1 and any(is_conflict(each) for each in causes(error))

    def _handle(self, tx: Transaction, caught: type[BaseException]) -> int:
        """Call the handlers, while there is time; return the number of records."""
        began = now = self._clock.monotonic()
        self.seconds = []
        for task in self.tasks:
            if self._begun and now - began >= UNIT_SECONDS:
                break
            if not self.may_start():
                if self._begun:
                    break
                raise _TooLate
            self._begun += 1
            self.claim.current = (task, now)
            answer, error = call_handler(tx, task, caught, again=self._is_again)
            then, now = now, self._clock.monotonic()
            self.seconds.append(now - then)
            error = error_after(tx, self._database.dialect, task, error)
            if error is not None or not (answer is None or answer is Done or isinstance(answer, Done)):
                raise _NotPassed(task, error, answer)
        self.claim.current = None
        return self._begun

    def _settle(self, tx: Transaction, count: int, verdict: Verdict = PASSED) -> None:
        """Move the cursors in the handlers' transaction, if it still is the one they were given."""
        points.reach(BEFORE_CURSOR)
        try:
            is_sealed = tx.seal()
        except Exception as exc:
            state = tx.state()
            if state is TransactionState.LOST:  # during the last handler, or just after
                raise SessionLost(self.tasks[self._begun - 1], exc) from exc
            if state is TransactionState.FAILED:  # a handler's write breaks a deferred constraint
                raise _NotPassed(self.tasks[0], exc, None) from exc
            raise
        if not is_sealed:
            ended = TransactionEnded("a handler ended the transaction and began another")
            raise _NotPassed(self.tasks[0], ended, None)
        self._move.write(tx, count, verdict)
        points.reach(BEFORE_COMMIT)

    def _undone(self, task: HandlerTask, error: BaseException | None, answer: Any) -> UnitOutcome | None:
        """Return the failed record, with its verdict if it was alone; None: call its fallback."""
        if len(self.tasks) > 1:
            return Undone(task, None, self._begun)
        verdict = self._verdict_on(task, error, answer)
        if not needs_last_try(task.handler, verdict, task.failures):
            return Undone(task, verdict, 1)
        self._verdict = verdict
        self.claim.reopen()
        return None

    def _verdict_on(self, task: HandlerTask, error: BaseException | None, answer: Any) -> Verdict:
        handler, record, failures = task.handler, task.record, task.failures
        if error is not None:
            error = explained(self._database.dialect, task, error)
            return after_error(handler, record, error, failures=failures, clock=self._clock)
        return after_answer(handler, record, answer, failures=failures, clock=self._clock)

    def _last_try(self, verdict: Verdict, caught: type[BaseException], *, again: bool) -> UnitOutcome | None:
        """Call the fallback in a transaction of its own; None: it should be retried at once."""
        (task,), calls, mine = self.tasks, FallbackInTransaction(caught), False
        self._begun = 1
        try:
            with self._database.transaction(bounded=False, guarded=True) as tx:
                self._conn = tx.conn
                self.claim.current = (task, self._clock.monotonic())
                given = last_try(calls, task.handler, with_tx(task.record, tx), verdict)
                mine = self.claim.take()
                if not mine:
                    raise _Abandoned
                if tx.state() is TransactionState.LOST:
                    raise SessionLost(task, what_broke(self._database.dialect, calls.error))
                if given is verdict or not is_fit_to_commit(tx, task):
                    raise _NotPassed(task, None, None)
                self._settle(tx, 1, given)
        except _Abandoned:
            raise
        except _NotPassed as exc:
            if not again or not (self._is_conflict(calls.error) or self._is_conflict(exc.error)):
                return Undone(task, verdict, 1)
            self.claim.reopen()
            return None
        except CursorLost:
            return Broken(None, in_doubt=True)
        except SessionLost as lost:
            if not store_answers(self._database.dialect, self._conn):
                return self._broken(lost.cause)
            said = str(lost.explained(self._database.dialect))
            fields = about_record(task.handler, task.record, error=said)
            logger.error("the fallback of handler %s failed: %s", task.handler.id, said, extra=fields)
            if not again:
                return Undone(task, verdict, 1)
            self.claim.reopen()
            return None
        except Exception as exc:
            if not mine and not self.claim.take():
                raise _Abandoned from None
            return self._broken(exc)
        points.reach(AFTER_COMMIT)
        self._move.confirm()
        assert isinstance(given, Passed)
        return Committed(1, given)
