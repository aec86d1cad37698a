"""P6 between two settlements, and where records wait in lanes: what began comes marked, and little else."""

from __future__ import annotations

import pytest

from penstock.worker.group import bounds
from tests.conformance.engines import StoreEngine
from tests.unit.worker.test_group_delivery import (
    Make,
    database,  # noqa: F401
    fill,
    finish,
    make,  # noqa: F401
    publish,
    taken,
    values,
)


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_has_ended_and_is_not_settled_stays_written_down(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    """What goes out next stands before it in the log, and must not take its place in the row."""
    publish(engine, *(("slow", value) for value in range(20)), ("quick", 20))
    lost = make("lost")
    lost.take(lambda tx: [])
    fill(lost, engine)
    begun = set[int]()
    for _ in range(10):
        tasks = lost.start(2)
        begun |= {task.record.value for task in tasks}
        finish(lost, tasks)
    heir = make("heir", None, ["lost"])
    marked = {task.record.value for task in taken(heir, engine) if task.record.redelivered}
    assert begun & {0, 20} <= marked


def test_of_a_waiting_lane_that_flows_only_what_may_have_begun_is_marked(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    publish(engine, *(("slow", value) for value in range(1000)))
    lost = make("lost")
    lost.take(lambda tx: [])
    for _ in range(30):
        fill(lost, engine)
        lost.settle()
    (head, *_) = lost.start(1)
    assert head.record.value == 0
    heir = make("heir", None, ["lost"])
    marked = list[int]()
    heir.take(lambda tx: [])
    for _ in range(1000):
        fill(heir, engine)
        tasks = heir.start(1)
        marked += [task.record.value for task in tasks if task.record.redelivered]
        finish(heir, tasks)
        heir.settle()
    assert marked[0] == 0
    assert len(marked) <= 2 * bounds.AHEAD


def test_what_comes_after_an_owner_has_died_for_certain_is_not_marked(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    """Also while what it had out is still to be done."""
    publish(engine, ("a", 1))
    taken(make("lost"), engine)
    heir = make("heir", None, ["lost"])
    (again,) = taken(heir, engine)
    heir.suspects.trials.settled()
    heir.settle()
    publish(engine, ("b", 2))
    fill(heir, engine)
    assert again.record.redelivered
    assert [task.record.redelivered for task in heir.start(1000)] == [False]


def test_what_might_have_followed_what_is_out_is_not_marked_when_it_is_given_back(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    publish(engine, ("a", 1))
    mine = make()
    finish(mine, taken(mine, engine))
    mine.settle()  # now some more may go out
    publish(engine, ("a", 2))
    fill(mine, engine)
    assert values(mine.start(1000)) == [2]
    mine.let_go()
    mine.settle()
    mine.release()
    publish(engine, ("b", 3), ("c", 4))
    again = taken(make("heir"), engine)
    assert {task.record.value: task.record.redelivered for task in again} == {2: True, 3: False, 4: False}


def test_what_is_out_when_everything_is_given_back_comes_marked(
    make: Make,  # noqa: F811
    engine: StoreEngine,
) -> None:
    """A thread that was about to call its handler cannot be called back, and a unit may be cut off."""
    publish(engine, ("a", 1))
    mine = make()
    assert values(taken(mine, engine)) == [1]
    mine.let_go()
    mine.settle()
    mine.release()
    (again,) = taken(make("heir"), engine)
    assert again.record.redelivered
