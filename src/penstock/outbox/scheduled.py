"""Scheduled events: cancelling and rescheduling them while they wait in `scheduled`.

The move skips a row that a caller has locked, and a caller waits for a move that has locked the row. The
second to arrive finds nothing, so the answer "in time" is always correct and neither can block the other
forever.
"""

from typing import Any

from penstock.errors import InvalidSelection
from penstock.model.limits import LimitsSettings, check_key, check_moment, check_owner, check_topic
from penstock.model.partition import key_hash

from .event import check_id
from .steps import Step, Steps


def cancel_steps(
    id: str | None, topic: str, *, key: str | None, owner: str | None, limits: LimitsSettings
) -> Steps[int]:
    """Cancel scheduled events by id, key or owner; return how many were in time.

    Raises InvalidSelection, or a subclass of InvalidInput for an invalid id, key, owner or topic.
    """
    statement, which = _selected("cancel", id, key, owner, topic, limits)
    cancelled: int = yield Step(statement, [which], counts=True)
    return cancelled


def reschedule_steps(
    id: str | None,
    at: object,
    topic: str,
    now_ms: int,
    *,
    key: str | None = None,
    owner: str | None = None,
    limits: LimitsSettings,
) -> Steps[int]:
    """Reschedule events by id, key or owner; return how many were in time, or by id whether it was.

    A time that is now or past means now: the next pass sequences them. Raises as `cancel_steps` does.
    """
    statement, which = _selected("reschedule", id, key, owner, topic, limits)
    due_ms = max(check_moment("at", at, now_ms), now_ms)
    changed: int = yield Step(statement, [(due_ms, *which)], counts=True)
    return changed if id is None else changed == 1


def _selected(
    act: str, id: str | None, key: str | None, owner: str | None, topic: str, limits: LimitsSettings
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement for the selection, and its values."""
    given = [name for name, value in (("id", id), ("key", key), ("owner", owner)) if value is not None]
    if len(given) != 1:
        how = "none was given" if not given else f"{' and '.join(given)} were given"
        raise InvalidSelection(f"{act} takes exactly one of id, key=... and owner=...; {how}")
    check_topic(topic)
    if id is not None:
        return act, (check_id(id), topic)
    if key is not None:
        check_key(key)
        return f"{act}_key", (key_hash(key), key.encode(), topic)
    return f"{act}_owner", (check_owner(owner, limits), topic)
