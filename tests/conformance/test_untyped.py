"""Records without a type, from another door than `publish`: who is given them, and how they are told."""

from datetime import timedelta

import msgspec
import pytest

from penstock.model.retry import Fixed
from penstock.operate import dead
from penstock.operate.dead import DeadSelection, LetterOutcome
from penstock.operate.events import EventState, events
from penstock.operate.reconcile import reconcile
from penstock.operate.why import Code, QuestionKind, why
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import Seen, subscribe
from tests.suites.outbox_suite import in_one_partition
from tests.suites.records import a_record

SOON = timedelta(seconds=1)


@pytest.fixture
def untyped(engine: StoreEngine) -> list[str]:
    """Give the ids of three records in the log, the second of which has a type."""
    in_one_partition(engine)
    records = [a_record("k", b"1", type=None), a_record("k", b"2"), a_record(None, b"3", type=None)]
    engine.outbox.log.append("events", records)
    return [each.id for each in records]


def test_the_log_tells_an_absent_type_from_any_other(engine: StoreEngine, untyped: list[str]) -> None:
    found = engine.outbox.log.read("events", 0)
    assert [(each.id, each.type) for each in found] == [
        (untyped[0], None),
        (untyped[1], "order.placed"),
        (untyped[2], None),
    ]


def test_who_takes_all_is_given_them_and_who_names_a_type_is_not(engine: StoreEngine, untyped: list[str]) -> None:
    everything, exact, prefixed, picky = Seen(), Seen(), Seen(), Seen()
    subscribe(engine.outbox, "everything", everything)
    subscribe(engine.outbox, "exact", exact, match="order.placed")
    subscribe(engine.outbox, "prefixed", prefixed, match="order.*")
    subscribe(engine.outbox, "picky", picky, match=lambda record: record.type is None)
    engine.outbox.drain()
    given = sorted((each.value, each.type) for each in everything)
    assert given == [(1, None), (2, "order.placed"), (3, None)]
    assert exact.values() == prefixed.values() == [2]
    assert sorted(picky.values()) == [1, 3]
    assert reconcile(engine.outbox, "events").agrees, "those who skip them have passed them"


def test_of_two_handlers_in_a_group_the_one_for_all_has_them(engine: StoreEngine, untyped: list[str]) -> None:
    rest, orders = Seen(), Seen()
    subscribe(engine.outbox, "g", rest, id="rest")
    subscribe(engine.outbox, "g", orders, id="orders", match="order.*")
    engine.outbox.drain()
    assert (sorted(rest.values()), orders.values()) == ([1, 3], [2])


def test_a_handler_of_a_class_is_given_none(engine: StoreEngine, untyped: list[str]) -> None:
    """It takes records of a type, the class's."""

    class Placed(msgspec.Struct):
        n: int

    engine.outbox.event("placed")(Placed)
    came = []

    def handle(event: Placed) -> None:
        came.append(event)

    engine.outbox.handler(group="g", id="g")(handle)
    engine.outbox.drain()
    assert came == []
    assert reconcile(engine.outbox, "events", groups=["g"]).agrees


def test_one_that_fails_waits_dies_and_comes_back_as_it_was(engine: StoreEngine, untyped: list[str]) -> None:
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=Fixed(SOON, max_retries=1))
    engine.outbox.drain()
    waiting = events(engine.outbox, EventState.WAITING).items
    assert [(each.id, each.type) for each in waiting] == [(untyped[0], ""), (untyped[1], "order.placed")]
    engine.clock.advance(SOON)
    engine.outbox.drain()
    (letter,) = dead.dead_letters(engine.outbox).items
    assert (letter.id, letter.type) == (untyped[0], "")
    assert dead.show(engine.outbox, "g", "events", 0, 0).record.type is None
    assert [each.id for each in events(engine.outbox, EventState.DEAD).items] == [untyped[0]]
    requeued = dead.requeue(engine.outbox, DeadSelection(group="g", all=True), clock=engine.clock)
    assert requeued == LetterOutcome(1)
    seen.failing.clear()
    seen.clear()
    engine.outbox.drain()
    assert [(each.value, each.type) for each in seen] == [(1, None), (2, "order.placed")]
    (answer,) = why(engine.outbox, untyped[0], kind=QuestionKind.ID, clock=engine.clock)
    assert answer.code is Code.DELIVERED
