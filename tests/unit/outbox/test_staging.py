"""The core of publishing, without a database: which steps there are, and what an event becomes."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from penstock import points
from penstock.errors import InvalidInput, InvalidSelection, InvalidTime, InvalidTopic, TokenReused
from penstock.model.limits import LimitsSettings
from penstock.model.token import check_token, digest
from penstock.outbox.contract import StagedEvent, Step, Steps, arun, run
from penstock.outbox.staging import Staged, cancel_steps, reschedule_steps, stage_steps, staged_event
from penstock.outbox.tokens import find_steps, wait_steps

NOW_MS = 1_700_000_000_000
WINDOW_MS = 1_000


def an_event(value: Any = 1, type: str = "t", **options: Any) -> StagedEvent:
    """Return an event as it is staged."""
    return staged_event(type, value, now_ms=NOW_MS, limits=LimitsSettings(), **options)


def steps_of(*events: StagedEvent) -> tuple[list[Step], list[str]]:
    """Return the steps that stage some events, and the ids they give."""
    steps: list[Step] = []

    def execute(step: Step) -> int:
        steps.append(step)
        return len(step.rows)

    return steps, run(stage_steps(events, WINDOW_MS), execute).ids


def cancelling(id: str | None, topic: str = "events", **by: str | None) -> Steps[int]:
    """Return the steps of a cancel."""
    return cancel_steps(id, topic, **({"key": None, "owner": None} | by), limits=LimitsSettings())


def test_one_event_is_one_step_of_one_row() -> None:
    event = an_event(key="k")
    assert steps_of(event) == ([Step("stage", [event[:10]])], [event.id])


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
    assert run(cancelling("an-id"), lambda step: 1) == 1
    assert next(cancelling("an-id")) == Step("cancel", [("an-id", "events")], counts=True)
    assert next(cancelling(None, key="order-123")) == Step(
        "cancel_key", [(0x2DAE14BD, b"order-123", "events")], counts=True
    )
    assert next(cancelling(None, owner="me")) == Step("cancel_owner", [("me", "events")], counts=True)


def moving(id: str | None, at: Any, **by: Any) -> Steps[int]:
    """Return the steps that give scheduled events another time."""
    return reschedule_steps(id, at, "events", NOW_MS, **by, limits=LimitsSettings())


def test_a_new_time_is_one_step_and_never_in_the_past() -> None:
    for at, due_ms in [(timedelta(seconds=5), NOW_MS + 5_000), (timedelta(days=-1), NOW_MS)]:
        assert next(moving("an-id", at)) == Step("reschedule", [(due_ms, "an-id", "events")], counts=True)
    assert run(moving("an-id", timedelta()), lambda step: 1) is True
    assert run(moving("an-id", timedelta()), lambda step: 0) is False
    with pytest.raises(InvalidTime):
        next(moving("an-id", None))


def test_a_new_time_by_key_or_owner_counts_those_in_time() -> None:
    assert next(moving(None, timedelta(), key="order-123")) == Step(
        "reschedule_key", [(NOW_MS, 0x2DAE14BD, b"order-123", "events")], counts=True
    )
    assert next(moving(None, timedelta(), owner="me")) == Step(
        "reschedule_owner", [(NOW_MS, "me", "events")], counts=True
    )
    assert run(moving(None, timedelta(), key="k"), lambda step: 3) == 3
    for said in ({}, {"key": "k", "owner": "o"}):
        with pytest.raises(InvalidSelection, match="reschedule takes exactly one of id, key"):
            next(moving(None, timedelta(), **said))


def test_a_cancel_that_can_find_nothing_is_refused_before_any_step() -> None:
    with pytest.raises(InvalidInput):
        next(cancelling("a\x00"))
    with pytest.raises(InvalidTopic):
        next(cancelling("an-id", "no topic"))


@pytest.mark.parametrize(
    ("id", "by", "words"),
    [
        (None, {}, "none was given"),
        ("an-id", {"key": "k"}, "id and key were given"),
        (None, {"key": "k", "owner": "me"}, "key and owner were given"),
    ],
)
def test_a_cancel_must_say_one_thing(id: str | None, by: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSelection, match=f"exactly one of id, key=... and owner=...; {words}"):
        next(cancelling(id, **by))


def test_points_stand_around_the_steps() -> None:
    seen: list[str] = []
    points.arm("outbox.before_stage", lambda: seen.append("before"))
    points.arm("outbox.after_stage", lambda: seen.append("after"))
    run(stage_steps([an_event()], WINDOW_MS), lambda step: seen.append("step"))
    points.disarm()
    assert seen == ["before", "step", "after"]


def test_what_a_step_raises_comes_out_as_it_was() -> None:
    def execute(step: Step) -> int:
        raise LookupError("as it was")

    with pytest.raises(LookupError, match="as it was"):
        run(stage_steps([an_event()], WINDOW_MS), execute)


def test_the_async_driver_takes_the_same_steps() -> None:
    events = [an_event(), an_event(at=timedelta(seconds=1)), an_event()]
    taken: list[Step] = []

    async def execute(step: Step) -> int:
        taken.append(step)
        return len(step.rows)

    assert (taken, asyncio.run(arun(stage_steps(events, WINDOW_MS), execute)).ids) == steps_of(*events)
    assert asyncio.run(arun(cancelling("an-id"), execute)) == 1


def test_what_an_async_step_raises_comes_out_as_it_was() -> None:
    async def execute(step: Step) -> int:
        raise LookupError("as it was")

    with pytest.raises(LookupError, match="as it was"):
        asyncio.run(arun(stage_steps([an_event()], WINDOW_MS), execute))


class Tokens(dict[bytes, tuple[str, int, bytes | None]]):
    """The table of tokens, and the names of the statements that were run on it and beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    def execute(self, step: Step) -> Any:
        self.ran.append(step.statement)
        if step.statement == "token_take":
            assert [row[0] for row in step.rows] == sorted(row[0] for row in step.rows)
            free = [row for row in step.rows if row[0] not in self]
            self.update({row[0]: row[1:] for row in free})
            return len(free)
        if step.statement == "token_find":
            return [(token, *self[token]) for (token,) in step.rows if token in self]
        if step.statement == "token_drop":
            for token, before_ms in step.rows:
                if token in self and self[token][1] <= before_ms:
                    del self[token]
        return len(step.rows)

    def stage(self, *events: StagedEvent) -> Staged:
        """Stage events."""
        self.ran.clear()
        return run(stage_steps(events, WINDOW_MS), self.execute)


def test_without_a_token_nothing_is_asked() -> None:
    tokens = Tokens()
    assert len(tokens.stage(an_event(), an_event()).ids) == 2
    assert tokens.ran == ["stage"]


def test_a_free_token_costs_one_statement_and_a_used_one_two() -> None:
    tokens = Tokens()
    first, again = an_event(token="t"), an_event(token="t")
    assert tokens.stage(first) == Staged([first.id], [first], ["t"])
    assert tokens.ran == ["token_take", "stage"]
    assert tokens.stage(again) == Staged([first.id], [], ["t"])
    assert tokens.ran == ["token_take", "token_find"]


def test_tokens_are_taken_in_the_order_of_their_hashes_and_events_keep_theirs() -> None:
    """`Tokens.execute` looks at the order; one of many may be used, and twice in a call is once."""
    tokens = Tokens()
    used = an_event(token="3")
    tokens.stage(used)
    events = [an_event(token=str(number)) for number in range(6)]
    events += [an_event(), an_event(token="5")]
    staged = tokens.stage(*events)
    wanted = [event.id for event in events[:7]] + [events[5].id]
    wanted[3] = used.id
    assert staged.ids == wanted
    assert list(staged.events) == [event for event in events[:7] if event is not events[3]]


def test_a_token_older_than_the_window_is_free_whether_it_was_removed_or_not() -> None:
    tokens = Tokens()
    tokens.stage(an_event(token="t"))
    content = next(iter(tokens.values()))[2]
    tokens.update(dict.fromkeys(tokens, ("old", NOW_MS - WINDOW_MS + 1, content)))
    assert tokens.stage(an_event(token="t")).ids == ["old"]
    tokens.update(dict.fromkeys(tokens, ("old", NOW_MS - WINDOW_MS, content)))
    event = an_event(token="t")
    assert tokens.stage(event) == Staged([event.id], [event], ["t"])
    assert tokens.ran == ["token_take", "token_find", "token_drop", "token_take", "stage"]
    assert set(tokens.values()) == {(event.id, NOW_MS, content)}


def test_a_token_is_of_its_topic() -> None:
    tokens = Tokens()
    first, other = an_event(token="t", topic="orders"), an_event(token="t", topic="billing")
    assert tokens.stage(first, other).ids == [first.id, other.id]
    for event in (first, other):
        again = an_event(token="t", topic=event.topic)
        assert tokens.stage(again) == Staged([event.id], [], ["t"])
    token = check_token("t", "billing")
    assert run(find_steps(token, NOW_MS, WINDOW_MS), tokens.execute) == other.id
    assert run(find_steps(check_token("t", None), NOW_MS, WINDOW_MS), tokens.execute) == first.id
    elsewhere = check_token("t", "events")
    assert run(find_steps(elsewhere, NOW_MS, WINDOW_MS), tokens.execute) is None
    assert run(wait_steps(elsewhere, NOW_MS, WINDOW_MS), tokens.execute) is None


@pytest.mark.parametrize("other", [{"key": "k-2"}, {"type": "u"}, {"value": 2}])
def test_a_token_with_other_content_is_refused_and_takes_nothing(other: dict[str, Any]) -> None:
    tokens = Tokens()
    content: dict[str, Any] = {"type": "t", "value": 1, "key": "k-1"}
    first = an_event(token="t", **content)
    tokens.stage(first)
    before = dict(tokens)
    with pytest.raises(TokenReused, match=f"'t' belongs to event {first.id} in topic 'events'"):
        tokens.stage(an_event(token="new", **content), an_event(token="t", **content | other))
    assert tokens == before
    with pytest.raises(TokenReused):
        tokens.stage(an_event(token="u", **content), an_event(token="u", **content | other))
    assert tokens == before


def test_a_token_that_is_refused_in_a_second_look_leaves_no_other_taken() -> None:
    """What the whole store knew of it is old, so it is looked at again; another of the call was free."""
    tokens, token = Tokens(), check_token("t", "events")
    content = digest(b"k-1", b"t", b"1")
    tokens[token.store_hash] = ("elsewhere", NOW_MS - WINDOW_MS - 1, content)
    tokens[token.hash] = ("here", NOW_MS - 1, content)
    with pytest.raises(TokenReused):
        tokens.stage(
            an_event(token="new", type="t", value=1, key="k-1"), an_event(token="t", type="t", value=2, key="k-1")
        )
    assert list(tokens) == [token.hash]
