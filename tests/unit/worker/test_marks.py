"""Which records are marked as redelivered after a loss: all that may have been handed out, and few others."""

from __future__ import annotations

import pytest

from penstock.worker.group import bounds
from penstock.worker.group.delivery import GroupDelivery
from tests.conformance.engines import StoreEngine
from tests.suites.handling_suite import publish_values
from tests.unit.worker.test_group_delivery import (
    Make,
    database,  # noqa: F401
    fill,
    finish,
    make,  # noqa: F401
    publish,
    taken,
)

KEYS = 7


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def many(store: StoreEngine, count: int) -> None:
    """Publish so many records, of a few keys."""
    for value in range(count):
        publish_values(store, value, key=f"k-{value % KEYS}")
    store.outbox.drain()


def test_what_a_stale_owner_hands_out_after_it_was_replaced_is_marked_by_its_heir(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    """It was stopped, or a clock was set: it does not know yet, and the heir had nothing left to do."""
    publish(engine, ("a", 1))
    stale = make("stale")
    finish(stale, taken(stale, engine))
    stale.settle()
    heir = make("heir")
    publish(engine, ("z", 2))
    finish(heir, taken(heir, engine))
    heir.settle()
    publish(engine, ("a", 3), ("b", 4))
    fill(stale, engine)
    late = {task.record.value for task in stale.start(1000)}
    assert {3, 4} <= late
    fill(heir, engine)
    again = heir.start(1000)
    assert {(task.record.value, task.record.redelivered) for task in again} == {(3, True), (4, True)}


def test_the_mark_is_kept_by_an_heir_that_gives_the_partition_back(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    publish(engine, ("a", 1))
    stale = make("stale")
    finish(stale, taken(stale, engine))
    stale.settle()
    for owner in ("first", "second"):
        publish(engine, (owner, 2))
        heir = make(owner)
        finish(heir, taken(heir, engine))
        heir.let_go()
        heir.release_idle()
    publish(engine, ("a", 3))
    fill(stale, engine)
    assert stale.start(1000)
    last = make("last")
    (task,) = taken(last, engine)
    assert task.record.redelivered


def test_what_a_dead_owner_had_not_handed_out_is_not_marked(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    many(engine, 60)
    lost = make("lost")
    lost.take(lambda tx: [])
    fill(lost, engine)
    out = {task.place.offset for task in lost.start(10)}
    heir = make("heir", None, ["lost"])
    marked = {task.place.offset for task in taken(heir, engine) if task.record.redelivered}
    while more := _worked(heir, engine):
        marked |= more
    assert out <= marked
    assert len(marked - out) <= bounds.LEAST_AGAIN


def test_an_idle_partition_whose_owner_has_died_marks_nothing_that_comes_later(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    publish(engine, ("a", 1))
    lost = make("lost")
    finish(lost, taken(lost, engine))
    lost.settle()
    publish(engine, ("a", 2))
    heir = make("heir", None, ["lost"])
    (task,) = taken(heir, engine)
    assert task.record.redelivered, "it may have been handed out"
    finish(heir, [task])
    heir.settle()
    publish(engine, ("a", 3))
    fill(heir, engine)
    assert [task.record.redelivered for task in heir.start(1000)] == [False]


def test_nothing_is_handed_out_that_the_row_does_not_say(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    """Beside a settling nothing is written, so no more goes out than was written down before."""
    many(engine, 60)
    mine = make()
    mine.take(lambda tx: [])
    fill(mine, engine)
    assert mine.start(1000, writes=False) == []
    first = mine.start(5)
    assert len(mine.start(1000, writes=False)) <= bounds.LEAST_AGAIN
    finish(mine, first)
    mine.settle()
    assert mine.start(1000)


def _worked(heir: GroupDelivery, engine: StoreEngine) -> set[int]:
    """Hand out and pass what may run; return which of it was marked."""
    fill(heir, engine)
    tasks = heir.start(1000)
    finish(heir, tasks)
    heir.settle()
    return {task.place.offset for task in tasks if task.record.redelivered}
