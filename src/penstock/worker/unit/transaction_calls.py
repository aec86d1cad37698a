"""Calling handlers and fallbacks inside a transaction, and checking the transaction afterwards."""

import logging
from contextvars import copy_context
from typing import Any

from msgspec import structs

from penstock.database.contract import Dialect, TransactionState
from penstock.database.database import Transaction
from penstock.errors import HandlerTimeout, TransactionEnded
from penstock.model.record import Record

from ..log_fields import about_record
from ..task import HandlerTask
from .session_end import SessionLost, what_broke

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
    """Call the handler of a task with the transaction; return its answer, and its error if it failed.

    `again`: it was called before, and its effects elsewhere were not undone.
    """
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
        what = (
            "went on after a failed statement"
            if state is TransactionState.FAILED
            else "ended the transaction"
        )
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
