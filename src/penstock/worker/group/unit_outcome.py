"""The values that a unit of work and the delivery loop exchange, its settlement, and the calls in its transaction.

A session that the server has ended is found, explained, and told apart from an unavailable store.
"""

import logging
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from threading import Lock
from typing import Any

from msgspec import structs

from penstock.database.contract import Dialect, TransactionState
from penstock.database.database import Transaction
from penstock.delivery.machine import Settlement
from penstock.delivery.store import GroupStore, Owned
from penstock.delivery.verdict import Passed, Verdict
from penstock.errors import HandlerTimeout, SessionEnded, TransactionEnded
from penstock.model.record import Record
from penstock.redaction import text

from ..calling.verdicts import PASSED
from ..handler import HandlerTask, about_record
from .partition_work import as_much_again

logger = logging.getLogger("penstock.handlers")

_LOST = "the connection of record.tx was lost while its handler was at work"


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
    """Nothing is committed: `task` did not pass; with a verdict if it was alone. `called`: how many were called."""

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


class SessionLost(Exception):
    """The connection of a handler was gone after its call or at the commit: nothing is committed."""

    def __init__(self, task: HandlerTask, cause: Exception) -> None:
        super().__init__()  # without arguments, which hold payloads and would be its text
        self.task, self.cause = task, cause

    def explained(self, dialect: Dialect) -> SessionEnded:
        """Return it as the error of its handler; without the cause, whose meaning is in the reason."""
        return SessionEnded(self.task.handler.id, dialect.why_ended(self.cause) or f"{_LOST}: {text(self.cause)}")


def store_answers(dialect: Dialect, conn: Any) -> bool:
    """Return whether the store is available: then a lost session is the handler's failure, and an attempt."""
    try:
        return dialect.still_answers(conn)
    except Exception:
        return False


def explained(dialect: Dialect, task: HandlerTask, error: BaseException) -> BaseException:
    """Return a handler's error, or one that names the setting by which the server ended its statement."""
    if isinstance(error, SessionEnded):
        return error
    whys = (dialect.why_ended(each) for each in causes(error))
    why = next((each for each in whys if each is not None), None)
    if why is None:
        return error
    ended = SessionEnded(task.handler.id, why)
    ended.__cause__ = error
    return ended


def what_broke(dialect: Dialect, error: BaseException | None) -> Exception:
    """Return the error to report when the connection of a handler is gone."""
    found = next((each for each in causes(error) if dialect.translate(each) is not None), error)
    return found if isinstance(found, Exception) else ConnectionError("the connection of record.tx is gone")


def causes(error: BaseException | None) -> Iterator[Exception]:
    """Yield an error and its causes: a library such as an ORM wraps the driver's error."""
    for _ in range(10):
        if isinstance(error, Exception):
            yield error
        error = None if error is None else error.__cause__


class FallbackInTransaction:
    """Calls a fallback in this thread, and keeps the error it failed with."""

    def __init__(self, caught: type[BaseException]) -> None:
        self._caught = caught
        self.error: BaseException | None = None

    def answer(self, function: Any, *args: Any, limit: HandlerTimeout | None = None) -> Any:
        """Call a function and return its answer; `limit` is not enforced here: another thread watches."""
        try:
            return function(*args)
        except self._caught as raised:
            self.error = raised
            if isinstance(raised, Exception):
                raise
            raise RuntimeError(f"it raised {raised!r}") from raised


def call_handler(
    tx: Transaction, task: HandlerTask, caught: type[BaseException], *, again: bool = False
) -> tuple[Any, BaseException | None]:
    """Call a handler with the transaction; return its answer, or its error. `again`: it was called before."""
    record = with_tx(task.record, tx)
    if again:
        record = structs.replace(record, redelivered=True)
    try:
        return copy_context().run(task.handler.binding.call, record), None
    except caught as raised:
        return None, raised


def error_after(
    tx: Transaction, dialect: Dialect, task: HandlerTask, error: BaseException | None
) -> BaseException | None:
    """Return a handler's error, or an error for the state of its transaction. Raises SessionLost."""
    state = tx.state()
    if state is TransactionState.LOST:
        raise SessionLost(task, what_broke(dialect, error))
    if state is TransactionState.ENDED:
        return TransactionEnded(f"handler {task.handler.id} ended the transaction")
    if state is TransactionState.FAILED and error is None:
        return TransactionEnded(f"handler {task.handler.id} went on after a failed statement")
    return error


def is_fit_to_commit(tx: Transaction, task: HandlerTask) -> bool:
    """Return whether a fallback that passed has left the transaction fit to commit."""
    state = tx.state()
    if state is not TransactionState.OPEN:
        what = "went on after a failed statement" if state is TransactionState.FAILED else "ended the transaction"
        logger.error(
            "the fallback of handler %s %s; its record is now a dead letter",
            task.handler.id,
            what,
            extra=about_record(task.handler, task.record),
        )
    return state is TransactionState.OPEN


def with_tx(record: Record, tx: Transaction) -> Record:
    """Return a record as handlers receive it: with the transaction's connection."""
    return structs.replace(record, _tx=tx.conn)
