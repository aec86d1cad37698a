"""The end of a handler's session by the server: found, explained, told apart from an unavailable store."""

from collections.abc import Iterator
from typing import Any

from penstock.database.contract import Dialect
from penstock.errors import SessionEnded
from penstock.redaction import text

from ..task import HandlerTask

_LOST = "the connection of record.tx was lost while its handler was at work"


class SessionLost(Exception):
    """The connection of a handler was gone when its call ended, or when its work was to be committed.

    Nothing is committed. `cause`: the driver's error.
    """

    def __init__(self, task: HandlerTask, cause: Exception) -> None:
        self.task, self.cause = task, cause

    def explained(self, dialect: Dialect) -> SessionEnded:
        """Return it as the error of its handler; without the cause, whose meaning is in the reason."""
        return SessionEnded(
            self.task.handler.id, dialect.why_ended(self.cause) or f"{_LOST}: {text(self.cause)}"
        )


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
