"""What an error on the caller's own connection means, whichever driver it has and whatever stands on top.

PostgreSQL's drivers carry the server's code; what has none did not come from the server.
"""

from penstock.log.sql.contract import Dialect

# Serialization failure, deadlock, a lock not obtained in time: the transaction left nothing behind.
_CONFLICTS = {"40001", "40P01", "55P03"}
# The server is going, has crashed, or has ended the session; class 08: the connection itself.
_AWAY = {"57P01", "57P02", "57P03", "25P03"}
_CONNECTION = "08"


def is_conflict(error: Exception, dialect: Dialect) -> bool:
    """Return whether a transaction failed only because of others, so that it may be run again."""
    beneath = _beneath(error)
    return _code(beneath) in _CONFLICTS or dialect.is_conflict(beneath)


def is_lost(error: Exception, dialect: Dialect) -> bool:
    """Return whether an error leaves open what the server has done: no answer came, or not in time."""
    beneath = _beneath(error)
    code = _code(beneath)
    if code is not None:
        return code in _AWAY or code.startswith(_CONNECTION)
    driver = type(beneath).__module__.partition(".")[0]
    named = driver == "asyncpg" and type(beneath).__name__ == "InterfaceError"
    return named or isinstance(beneath, OSError | EOFError) or dialect.is_away(beneath)


def _beneath(error: Exception) -> Exception:
    """Return the driver's error beneath SQLAlchemy's, and beneath that of its adapters of async drivers."""
    while type(error).__module__.partition(".")[0] == "sqlalchemy":
        under = getattr(error, "orig", None) or error.__cause__
        if not isinstance(under, Exception):
            break
        error = under
    return error


def _code(error: Exception) -> str | None:
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None
