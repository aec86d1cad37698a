"""The core of publishing, without a database: which steps there are, and what an event becomes."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from penstock import points
from penstock.errors import InvalidInput, InvalidTopic
from penstock.model.limits import LimitsSettings
from penstock.outbox.event import StagedEvent, staged_event
from penstock.outbox.staging import Step, arun, cancel_steps, run, stage_steps

NOW_MS = 1_700_000_000_000


def an_event(value: Any = 1, **options: Any) -> StagedEvent:
    """Return an event as it is staged."""
    return staged_event("t", value, now_ms=NOW_MS, limits=LimitsSettings(), **options)


def steps_of(*events: StagedEvent) -> tuple[list[Step], list[str]]:
    """Return the steps that stage some events, and the ids they give."""
    steps: list[Step] = []

    def execute(step: Step) -> int:
        steps.append(step)
        return len(step.rows)

    return steps, run(stage_steps(events), execute)


def test_one_event_is_one_step_of_one_row() -> None:
    event = an_event(key="k")
    assert steps_of(event) == ([Step("stage", [event[:-1]])], [event.id])


def test_many_events_are_one_step() -> None:
    events = [an_event() for _ in range(5)]
    steps, ids = steps_of(*events)
    assert [(step.statement, len(step.rows)) for step in steps] == [("stage", 5)]
    assert ids == [event.id for event in events]


def test_events_for_now_and_for_later_are_two_steps_and_the_ids_keep_their_order() -> None:
    now, later = an_event(), an_event(at=timedelta(seconds=1))
    steps, ids = steps_of(later, now, later)
    assert [(step.statement, len(step.rows)) for step in steps] == [("stage", 1), ("schedule", 2)]
    assert ids == [later.id, now.id, later.id]


@pytest.mark.parametrize("at", [timedelta(), timedelta(seconds=-1), None])
def test_what_is_due_is_not_scheduled(at: timedelta | None) -> None:
    assert an_event(at=at).due_ms is None


def test_what_is_due_a_millisecond_from_now_is_scheduled() -> None:
    assert an_event(at=timedelta(milliseconds=1)).due_ms == NOW_MS + 1


def test_slot_and_hash_come_from_the_key() -> None:
    event = an_event(key="order-123")
    assert (event.key_hash, event.slot, event.key) == (0x2DAE14BD, 0xBD, b"order-123")


def test_without_a_key_they_come_from_the_id_and_spread() -> None:
    assert len({an_event().slot for _ in range(200)}) > 50
    assert an_event().key is None


def test_bytes_are_marked_as_such_unless_the_caller_has_named_them() -> None:
    assert b"octet-stream" in (an_event(b"x").headers or b"")
    assert b"octet-stream" not in (an_event(b"x", headers={"content-type": "image/png"}).headers or b"")
    assert an_event({"a": 1}).headers is None


def test_a_cancel_is_one_step_whose_count_is_wanted() -> None:
    assert run(cancel_steps("an-id", "events"), lambda step: 1) == 1
    assert next(cancel_steps("an-id", "events")) == Step("cancel", [("an-id", "events")], counts=True)


def test_a_cancel_that_can_find_nothing_is_refused_before_any_step() -> None:
    with pytest.raises(InvalidInput):
        next(cancel_steps("a\x00", "events"))
    with pytest.raises(InvalidTopic):
        next(cancel_steps("an-id", "no topic"))


def test_points_stand_around_the_steps() -> None:
    seen: list[str] = []
    points.arm("outbox.before_stage", lambda: seen.append("before"))
    points.arm("outbox.after_stage", lambda: seen.append("after"))
    run(stage_steps([an_event()]), lambda step: seen.append("step"))
    points.disarm()
    assert seen == ["before", "step", "after"]


def test_what_a_step_raises_comes_out_as_it_was() -> None:
    def execute(step: Step) -> int:
        raise LookupError("as it was")

    with pytest.raises(LookupError, match="as it was"):
        run(stage_steps([an_event()]), execute)


def test_the_async_driver_takes_the_same_steps() -> None:
    events = [an_event(), an_event(at=timedelta(seconds=1)), an_event()]
    taken: list[Step] = []

    async def execute(step: Step) -> int:
        taken.append(step)
        return len(step.rows)

    assert (taken, asyncio.run(arun(stage_steps(events), execute))) == steps_of(*events)
    assert asyncio.run(arun(cancel_steps("an-id", "events"), execute)) == 1


def test_what_an_async_step_raises_comes_out_as_it_was() -> None:
    async def execute(step: Step) -> int:
        raise LookupError("as it was")

    with pytest.raises(LookupError, match="as it was"):
        asyncio.run(arun(stage_steps([an_event()]), execute))
