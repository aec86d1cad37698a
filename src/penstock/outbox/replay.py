"""Replay: retry a caller's transaction after a conflict, but never while its commit is in doubt.

A transaction is replayed only when it certainly left nothing behind. When the connection is lost during COMMIT, a
replay could do everything twice: the caller gets `CommitOutcomeUnknown` and looks up its tokens.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.backoff import CHANCE
from penstock.database.database import Database
from penstock.errors import CommitOutcomeUnknown, InvalidInput, shown
from penstock.model.token import GivenToken
from penstock.redaction import text, words

logger = logging.getLogger("penstock.transactions")
T = TypeVar("T")
TokensUsed = dict[int, list[GivenToken]]  # by the identity of a connection
Begin = Callable[[], AbstractAsyncContextManager[Any]]
Test = Callable[[Exception], bool]

REPLAYS = 10
_FIRST_SECONDS, _LONGEST_SECONDS = 0.05, 2.0


@dataclass(slots=True)
class _Try:
    seconds: float | None  # None: this is the last run
    tokens: list[GivenToken] = field(default_factory=list)
    finished: bool = False  # only the commit remained

    def judge(self, error: Exception, is_conflict: Test, is_lost: Test) -> float:
        """Return the pause before the next run. Raises CommitOutcomeUnknown, or the error itself."""
        if self.finished and is_lost(error):
            raise CommitOutcomeUnknown(text(error).strip() or type(error).__name__, self.tokens) from error
        if self.seconds is None or not is_conflict(error):
            raise error
        logger.debug("retrying the transaction after a conflict: %s", words(error))
        return self.seconds


def run_in_tx(database: Database, work: Callable[[Any], T], *, used: TokensUsed, rest: Callable[[float], object]) -> T:
    """Run `work(conn)`, again after a conflict; return its result. Raises CommitOutcomeUnknown, or its error."""
    dialect = database.dialect
    for this in _tries():
        try:
            with database.transaction(bounded=False) as tx:
                used[id(tx.conn)] = this.tokens
                try:
                    result = work(tx.conn)
                finally:
                    del used[id(tx.conn)]
                this.finished = True
            return result
        except Exception as exc:
            seconds = this.judge(exc, dialect.is_conflict, dialect.is_away)
        rest(seconds)
    raise AssertionError("unreachable")


async def arun_in_tx(
    begin: Begin,
    work: Callable[[Any], Awaitable[T]],
    is_conflict: Test,
    is_lost: Test,
    *,
    used: TokensUsed,
    rest: Callable[[float], Awaitable[object]],
) -> T:
    """Run `await work(conn)` in the transaction of the block that `begin` returns; else as `run_in_tx`."""
    for this in _tries():
        try:
            async with _block(begin) as conn:
                used[id(conn)] = this.tokens
                try:
                    result = await work(conn)
                finally:
                    del used[id(conn)]
                this.finished = True
            if not this.finished:
                raise InvalidInput(f"the block of {shown(begin)} has swallowed the exception of its work")
            return result
        except Exception as exc:
            seconds = this.judge(exc, is_conflict, is_lost)
        await rest(seconds)
    raise AssertionError("unreachable")


def _block(begin: Begin) -> AbstractAsyncContextManager[Any]:
    block = begin() if callable(begin) else begin
    if callable(begin) and hasattr(block, "__aenter__"):
        return block
    raise InvalidInput(
        f"{shown(begin)} must be a function that returns an async context manager which begins a transaction "
        "and commits it at its end, for example engine.begin of SQLAlchemy"
    )


def _tries() -> Iterator[_Try]:
    """Yield the runs, each with the pause after it, which doubles and has up to half as much jitter."""
    for replay in range(REPLAYS):
        pause = min(_FIRST_SECONDS * 2**replay, _LONGEST_SECONDS)
        yield _Try(pause + CHANCE.uniform(0, pause / 2))
    yield _Try(None)
