"""Calling handlers and fallbacks inside a transaction, and finding out what they did to it."""

import logging
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

from msgspec import structs

from penstock.errors import HandlerTimeout, TransactionEnded
from penstock.log.sql.contract import Dialect, TransactionState
from penstock.log.sql.database import Transaction
from penstock.model.record import Record

from ..task import HandlerTask

logger = logging.getLogger("penstock.handlers")


class SessionLost(Exception):
    """The connection of a handler was gone when its call had ended, or when its work was to be committed."""

    def __init__(self, task: HandlerTask, cause: Exception) -> None:
        self.task, self.cause = task, cause


class FallbackInTransaction:
    """Calls a fallback in this thread, and keeps the error that it failed with."""

    def __init__(self, caught: type[BaseException]) -> None:
        self._caught = caught
        self.error: BaseException | None = None

    def answer(self, function: Any, *args: Any, limit: HandlerTimeout | None = None) -> Any:
        """Call a function and return its answer; `limit` is not kept here: another thread watches."""
        try:
            return function(*args)
        except self._caught as raised:
            self.error = raised
            if isinstance(raised, Exception):
                raise
            raise RuntimeError(f"it raised {raised!r}") from raised


def call_handler(
    tx: Transaction, task: HandlerTask, caught: type[BaseException]
) -> tuple[Any, BaseException | None]:
    """Call the handler of a task with the transaction; return its answer, and its error if it failed."""
    try:
        return copy_context().run(task.handler.binding.call, with_tx(task.record, tx)), None
    except caught as raised:
        return None, raised


def error_after(
    tx: Transaction, dialect: Dialect, task: HandlerTask, error: BaseException | None
) -> BaseException | None:
    """Return a handler's error, or what it did to the transaction. Raises SessionLost."""
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
        what = (
            "went on after a failed statement"
            if state is TransactionState.FAILED
            else "ended the transaction"
        )
        logger.error("the fallback of handler %s %s; its record is now a dead letter", task.handler.id, what)
    return state is TransactionState.OPEN


def with_tx(record: Record, tx: Transaction) -> Record:
    """Return a record as it is given to handlers: with the transaction's connection."""
    return structs.replace(record, _tx=tx.conn)


def what_broke(dialect: Dialect, error: BaseException | None) -> Exception:
    """Return what to report when the connection of a handler is gone."""
    found = next((each for each in causes(error) if dialect.translate(each) is not None), error)
    return found if isinstance(found, Exception) else ConnectionError("the connection of record.tx is gone")


def causes(error: BaseException | None) -> Iterator[Exception]:
    """Yield an error and what it came from: a library such as an ORM wraps what the driver says."""
    for _ in range(10):
        if isinstance(error, Exception):
            yield error
        error = None if error is None else error.__cause__
