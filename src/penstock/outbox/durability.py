"""The durability check: warn if a commit of the caller's session may not survive a crash.

`publish` is as durable as the caller's own commit. A session may have given that up, often by a forgotten
option of a pool: `synchronous_commit=off` in PostgreSQL, `synchronous=OFF` in SQLite. Acknowledged events can
then be lost. The check is one short query, after the first event that a connection stages; a session that
changes the setting later is not checked again.
"""

import logging
from typing import Any
from weakref import ref

from penstock.settings import Settings, setting

from .adapters.driver import is_in_pipeline, session_of
from .contract import Step, Steps

logger = logging.getLogger("penstock.publishing")

_WEAK = {"off": "synchronous_commit=off", "0": "synchronous=OFF"}  # as PostgreSQL and SQLite answer
_MOST_KNOWN = 10_000


class PublishingSettings(Settings, room="publishing"):
    """Checks when events are published."""

    check_durability: bool = setting(
        True,
        "Warn, once for each connection, when its commits may be lost in a crash: synchronous_commit=off in "
        "PostgreSQL, synchronous=OFF in SQLite. Costs one short query on each new connection.",
    )


class DurabilityCheck:
    """Remembers the sessions that were checked. From any thread; a race costs one more query.

    A driver's connection is identified by a weak reference. Python's own SQLite connection supports none:
    there its count of changes, which only grows, distinguishes it from an earlier one at the same address.
    Other connections that support none are not checked.
    """

    def __init__(self) -> None:
        self._known: dict[int, ref[Any]] = {}
        self._changes: dict[int, int] = {}

    def is_due(self, driver_connection: Any) -> bool:
        """Return whether to check the session behind a connection; in a pipeline the query would wait."""
        known = self._known.get(id(driver_connection))
        if known is not None and known() is driver_connection:
            return False  # the common case
        session = session_of(driver_connection)
        key = id(session)
        changes = getattr(session, "total_changes", None)
        if changes is not None:
            before = self._changes.get(key, changes)
            self._changes[key] = changes
            return bool(before >= changes)
        known = self._known.get(key)
        if known is not None and known() is session:
            return False
        return hasattr(session, "__weakref__") and not is_in_pipeline(session)

    def judge(self, driver_connection: Any, answer: object) -> None:
        """Remember a session, and warn if its setting may lose commits."""
        session = session_of(driver_connection)
        key = id(session)
        if not hasattr(session, "total_changes"):
            self._known[key] = ref(session, lambda _: self._known.pop(key, None))
        elif len(self._changes) > _MOST_KNOWN:
            self._changes.clear()
        setting = _WEAK.get(str(answer))
        if setting is not None:
            logger.warning(
                "a publishing connection has %s: its commits, and the events in them, may be lost when the "
                "database server or its machine fails; leave that setting at its default, or turn this check "
                "off with publishing.check_durability",
                setting,
            )


def durability_steps() -> Steps[object]:
    """Query the durability setting of a session."""
    rows = yield Step("durability", [()], reads=True)
    return rows[0][0]
