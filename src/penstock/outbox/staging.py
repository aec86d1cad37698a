"""The core of publishing: the statements that stage events. No I/O; an adapter runs the steps.

One event costs one statement; one with a token costs one or two more. Rows for the future go to `scheduled`,
all others to `staged`, each in the caller's order.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock import points
from penstock.model.token import GivenToken

from .event import StagedEvent
from .steps import Step, Steps
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
