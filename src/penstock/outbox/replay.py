"""Running a caller's transaction again when others made it fail, and never when its end is unknown.

Replayed is only what surely left nothing behind: a serialization failure, a deadlock, a lock or the
writer's place not had in time. When the connection is lost while COMMIT runs, the transaction may stand or
not, and running it again could do everything twice: then the caller gets `CommitOutcomeUnknown` and looks
up the truth by its tokens.
"""

import logging
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from penstock.errors import CommitOutcomeUnknown
from penstock.log.sql.database import Database
from penstock.model.token import GivenToken

log = logging.getLogger("penstock.transactions")
T = TypeVar("T")
TokensUsed = dict[int, list[GivenToken]]  # by the identity of a connection

REPLAYS = 10
_FIRST_SECONDS, _LONGEST_SECONDS = 0.05, 2.0


def run_in_tx(
    database: Database,
    work: Callable[[Any], T],
    *,
    used: TokensUsed,
    rest: Callable[[float], object],
) -> T:
    """Run `work(conn)` in a transaction, again after a conflict; return what it returns.

    `used` is told which connection it has, and gathers the tokens; `rest` waits. Raises
    CommitOutcomeUnknown, what `work` raises, or the conflict when it was met once too often.
    """
    for seconds in (*_pauses(), None):
        tokens, finished = list[GivenToken](), False
        try:
            with database.transaction(bounded=False) as tx:
                used[id(tx.conn)] = tokens
                try:
                    result = work(tx.conn)
                finally:
                    del used[id(tx.conn)]
                finished = True
            return result
        except Exception as exc:
            if finished and database.dialect.is_away(exc):
                raise CommitOutcomeUnknown(str(exc).strip(), tokens) from exc
            if seconds is None or not database.dialect.is_conflict(exc):
                raise
            log.debug("transaction runs again after a conflict: %s", exc)
        rest(seconds)
    raise AssertionError("unreachable")


def _pauses() -> Iterator[float]:
    """Yield how long to wait before each replay: doubling, and up to half as much again."""
    for replay in range(REPLAYS):
        pause = min(_FIRST_SECONDS * 2**replay, _LONGEST_SECONDS)
        yield pause + random.uniform(0, pause / 2)
