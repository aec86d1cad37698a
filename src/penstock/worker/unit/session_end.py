"""What the server did to a handler's session: found, explained, and told apart from a store that is away."""

from collections.abc import Iterator
from typing import Any

from penstock.errors import SessionEnded
from penstock.log.sql.contract import Dialect
from penstock.redaction import text

from ..task import HandlerTask

_LOST = "the connection of record.tx was lost while its handler was at work"


class SessionLost(Exception):
    """The connection of a handler was gone when its call had ended, or when its work was to be committed.

    Nothing is committed. `cause`: what the driver said.
    """

    def __init__(self, task: HandlerTask, cause: Exception) -> None:
        self.task, self.cause = task, cause

    def explained(self, dialect: Dialect) -> SessionEnded:
        """Return it as the error of its handler; without the cause, of which the reason is the meaning."""
        return SessionEnded(
            self.task.handler.id, dialect.why_ended(self.cause) or f"{_LOST}: {text(self.cause)}"
        )


def store_answers(dialect: Dialect, conn: Any) -> bool:
    """Return whether the store is there: then a lost session is its handler's matter, and an attempt."""
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
    """Return what to report when the connection of a handler is gone."""
    found = next((each for each in causes(error) if dialect.translate(each) is not None), error)
    return found if isinstance(found, Exception) else ConnectionError("the connection of record.tx is gone")


def causes(error: BaseException | None) -> Iterator[Exception]:
    """Yield an error and what it came from: a library such as an ORM wraps what the driver says."""
    for _ in range(10):
        if isinstance(error, Exception):
            yield error
        error = None if error is None else error.__cause__
