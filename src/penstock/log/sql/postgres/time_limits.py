"""The settings by which PostgreSQL ends sessions and statements of others, and what to do about each."""

from collections.abc import Callable
from typing import Any

_RAISE = "raise it for this role"
_OUTSIDE = "do the waiting outside record.tx (transaction=False)"
# By the code of the error: what the server did, the setting that told it to, and the remedy.
_LIMITS = {
    "25P03": (
        "the server ended the session while the handler waited",
        "idle_in_transaction_session_timeout",
        f"{_RAISE}, or {_OUTSIDE}",
    ),
    "25P04": (
        "the server ended the session while the handler was at work",
        "transaction_timeout",
        f"{_RAISE}, or {_OUTSIDE}",
    ),
    "57014": (
        "the server cancelled a statement",
        "statement_timeout",
        f"{_RAISE}, or make the statement quicker",
    ),
}
_ADMINISTRATOR = (
    "an administrator, or a program that tidies up, ended the session (pg_terminate_backend); if it happens "
    "again, let it spare the role of this worker"
)
_CANCELLED = "somebody cancelled it (pg_cancel_backend), for no such limit is set"
_SETTINGS = [name for _, name, _ in _LIMITS.values()]
_READ = "SELECT name, setting::bigint FROM pg_settings WHERE name = ANY(%s) AND setting::bigint > 0"


def read_limits(conn: Any) -> dict[str, int]:
    """Return the limits that hold in a session, in milliseconds; without those that are off."""
    return dict(conn.execute(_READ, (_SETTINGS,)).fetchall())


def why_ended(error: Exception, limits: Callable[[], dict[str, int]]) -> str | None:
    """Return why the server ended a session or a statement; `limits` are asked when that is of use."""
    code = getattr(error, "sqlstate", None)
    if code == "57P01":
        return _ADMINISTRATOR
    if code not in _LIMITS:
        return None
    what, setting, remedy = _LIMITS[code]
    try:
        found = limits()
    except Exception:  # the server may be leaving: the setting has its name all the same
        return f"{what}: by {setting}; {remedy}"
    if setting not in found:
        return f"{what}: {_CANCELLED}" if code == "57014" else f"{what}: by {setting}; {remedy}"
    return f"{what}: {setting} is {found[setting] / 1000:g} s; {remedy}"
