"""Calling handlers and fallbacks inside a transaction; a session that the server has ended is found and explained."""

import logging
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

from msgspec import structs

from penstock.database.contract import Dialect, TransactionState
from penstock.database.database import Transaction
from penstock.errors import HandlerTimeout, SessionEnded, TransactionEnded
from penstock.model.record import Record
from penstock.redaction import text

from ..handler import HandlerTask, about_record

_LOST = "the connection of record.tx was lost while its handler was at work"


class SessionLost(Exception):
    """The connection of a handler was gone after its call or at the commit: nothing is committed."""

    def __init__(self, task: HandlerTask, cause: Exception) -> None:
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


logger = logging.getLogger("penstock.handlers")


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
        unfit = "the fallback of handler %s %s; its record is now a dead letter"
        logger.error(unfit, task.handler.id, what, extra=about_record(task.handler, task.record))
    return state is TransactionState.OPEN


def with_tx(record: Record, tx: Transaction) -> Record:
    """Return a record as handlers receive it: with the transaction's connection."""
    return structs.replace(record, _tx=tx.conn)
