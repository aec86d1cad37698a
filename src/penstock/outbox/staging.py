"""The core of publishing: which statements stage or cancel events. No I/O; an adapter runs the steps.

One event costs one statement. Rows for the future go to `scheduled`, all others to `staged`, each in the
caller's order.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from penstock import points
from penstock.model.limits import check_topic

from .event import StagedEvent, check_id

BEFORE_STAGE = points.declare("outbox.before_stage", "Events are checked, nothing is written yet.")
AFTER_STAGE = points.declare("outbox.after_stage", "Events are written in the caller's open transaction.")

T = TypeVar("T")


class Step(NamedTuple):
    """One thing to run on the caller's connection: the statement's name and the rows of values it takes."""

    statement: str
    rows: Sequence[tuple[Any, ...]]
    counts: bool = False  # how many rows it changed is wanted, so its end must be waited for


Steps = Generator[Step, int, T]


def stage_steps(events: Sequence[StagedEvent]) -> Steps[list[str]]:
    """Stage events; return their ids in the given order."""
    points.reach(BEFORE_STAGE)
    now = [event[:-1] for event in events if event.due_ms is None]
    if now:
        yield Step("stage", now)
    if len(now) < len(events):
        yield Step("schedule", [event for event in events if event.due_ms is not None])
    points.reach(AFTER_STAGE)
    return [event.id for event in events]


def cancel_steps(id: str, topic: str) -> Steps[int]:
    """Take a scheduled event back; return how many were: 1 only if it was in time.

    Raises InvalidInput, InvalidTopic.
    """
    check_id(id)
    check_topic(topic)
    return (yield Step("cancel", [(id, topic)], counts=True))


def run(steps: Generator[Any, Any, T], execute: Callable[[Any], Any]) -> T:
    """Drive steps on a synchronous connection."""
    try:
        request = next(steps)
        while True:
            request = steps.send(execute(request))
    except StopIteration as finished:
        result: T = finished.value
        return result


async def arun(steps: Generator[Any, Any, T], execute: Callable[[Any], Awaitable[Any]]) -> T:
    """Drive steps on an async connection."""
    try:
        request = next(steps)
        while True:
            request = steps.send(await execute(request))
    except StopIteration as finished:
        result: T = finished.value
        return result
