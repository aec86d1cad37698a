"""The core of publishing: the steps that stage, cancel and reschedule events. No I/O; an adapter runs them.

One event costs one statement; one with a token costs one or two more. Rows for the future go to `scheduled`,
all others to `staged`, each in the caller's order.

The move skips a scheduled row that a caller has locked, and a caller waits for a move that has locked the
row. The second to arrive finds nothing, so the answer "in time" is always correct and neither can block the
other forever.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock import points
from penstock.errors import InvalidSelection
from penstock.model.limits import LimitsSettings, check_key, check_moment, check_owner, check_topic
from penstock.model.partition import key_hash
from penstock.model.token import GivenToken

from .contract import Step, Steps
from .event import StagedEvent, check_id
from .tokens import take_steps

BEFORE_STAGE = points.declare("outbox.before_stage", "Events are checked, nothing is written yet.")
AFTER_STAGE = points.declare("outbox.after_stage", "Events are written in the caller's open transaction.")

_made = tuple.__new__  # makes a named tuple without a call in Python: this runs for every event
_COLUMNS_STAGED, _COLUMNS_SCHEDULED = 10, 11


class Staged(NamedTuple):
    """The ids of all events in the given order, the events written now, and all tokens."""

    ids: list[str]
    events: Sequence[StagedEvent]
    tokens: Sequence[GivenToken] = ()


def plain_step(events: Sequence[StagedEvent]) -> Step | None:
    """Return the one step of the most common publish, a single unscheduled event without a token."""
    event = events[0]
    if len(events) > 1 or event.token is not None or event.due_ms is not None:
        return None
    return _made(Step, ("stage", (event[:_COLUMNS_STAGED],), False, False))


def stage_steps(events: Sequence[StagedEvent], window_ms: int) -> Steps[Staged]:
    """Stage events."""
    points.reach(BEFORE_STAGE)
    staged, ids = events, [event.id for event in events]
    tokens = [event.token.given for event in events if event.token is not None]
    if tokens:
        resolved = yield from take_steps(events, window_ms)
        ids = [event.id if event.token is None else resolved[event.token.hash] for event in events]
        staged = [event for event, id in zip(events, ids, strict=True) if event.id == id]
    now = [event[:_COLUMNS_STAGED] for event in staged if event.due_ms is None]
    if now:
        yield Step("stage", now)
    if len(now) < len(staged):
        yield Step("schedule", [event[:_COLUMNS_SCHEDULED] for event in staged if event.due_ms is not None])
    points.reach(AFTER_STAGE)
    return Staged(ids, staged, tokens)


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
