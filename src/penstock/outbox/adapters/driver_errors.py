"""The meaning of an error on the caller's own connection, for all drivers and libraries on top of them.

PostgreSQL's drivers carry the server's code; an error without one did not come from the server.
"""

from penstock.database.contract import Dialect

# Serialization failure, deadlock, lock time-out: the transaction left nothing behind.
_CONFLICTS = {"40001", "40P01", "55P03"}
# The server is shutting down, has crashed, or has ended the session; class 08: the connection failed.
_AWAY = {"57P01", "57P02", "57P03", "25P03"}
_CONNECTION = "08"


def is_conflict(error: Exception, dialect: Dialect) -> bool:
    """Return whether a transaction failed only because of others, so that it may be retried."""
    beneath = _beneath(error)
    return _code(beneath) in _CONFLICTS or dialect.is_conflict(beneath)


def is_lost(error: Exception, dialect: Dialect) -> bool:
    """Return whether an error leaves the outcome on the server in doubt: no answer, or not in time."""
    beneath = _beneath(error)
    code = _code(beneath)
    if code is not None:
        return code in _AWAY or code.startswith(_CONNECTION)
    driver = type(beneath).__module__.partition(".")[0]
    named = driver == "asyncpg" and type(beneath).__name__ == "InterfaceError"
    return named or isinstance(beneath, OSError | EOFError) or dialect.is_away(beneath)


def _beneath(error: Exception) -> Exception:
    """Return the driver's error beneath those of SQLAlchemy and its adapters of async drivers."""
    while type(error).__module__.partition(".")[0] == "sqlalchemy":
        under = getattr(error, "orig", None) or error.__cause__
        if not isinstance(under, Exception):
            break
        error = under
    return error


def _code(error: Exception) -> str | None:
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None
