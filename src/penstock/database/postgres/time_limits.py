"""The settings by which PostgreSQL ends sessions and statements, and the remedy for each."""

from collections.abc import Callable
from typing import Any

_RAISE = "raise it for this role"
_OUTSIDE = "do the waiting outside record.tx (transaction=False)"
# By error code: the server's action, the setting that caused it, and the remedy.
_LIMITS = {
    "25P03": (
        "the server ended the session while the handler waited",
        "idle_in_transaction_session_timeout",
        f"{_RAISE}, or {_OUTSIDE}",
    ),
    "25P04": (
        "the server ended the session while the handler was running",
        "transaction_timeout",
        f"{_RAISE}, or {_OUTSIDE}",
    ),
    "57014": ("the server cancelled a statement", "statement_timeout", f"{_RAISE}, or make the statement quicker"),
}
_ADMINISTRATOR = (
    "an administrator or a cleanup job ended the session (pg_terminate_backend); if it happens again, "
    "exempt the role of this worker"
)
_CANCELLED = "it was cancelled (pg_cancel_backend): no such limit is set"
_SETTINGS = [name for _, name, _ in _LIMITS.values()]
_READ = "SELECT name, setting::bigint FROM pg_settings WHERE name = ANY(%s) AND setting::bigint > 0"


def read_limits(conn: Any) -> dict[str, int]:
    """Return the limits of a session, in milliseconds; without those that are off."""
    return dict(conn.execute(_READ, (_SETTINGS,)).fetchall())


def why_ended(error: Exception, limits: Callable[[], dict[str, int]]) -> str | None:
    """Return why the server ended a session or a statement; `limits` is called only if needed."""
    code = getattr(error, "sqlstate", None)
    if code == "57P01":
        return _ADMINISTRATOR
    if code not in _LIMITS:
        return None
    what, setting, remedy = _LIMITS[code]
    try:
        found = limits()
    except Exception:  # the server may be shutting down: name the setting without its value
        return f"{what}: by {setting}; {remedy}"
    if setting not in found:
        return f"{what}: {_CANCELLED}" if code == "57014" else f"{what}: by {setting}; {remedy}"
    return f"{what}: {setting} is {found[setting] / 1000:g} s; {remedy}"
