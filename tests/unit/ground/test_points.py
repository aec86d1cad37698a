import os
import signal
from collections.abc import Iterator

import pytest

from penstock import points
from penstock.errors import UnknownPoint
from penstock.points import Point, arm, declare, disarm, fail, kill, pause, reach
from tests.unit.ground.child import finish, start

PROGRAM = """
import atexit, sys
from penstock import points

atexit.register(print, "cleaned up")
here = points.declare("test.here", "Nothing is done yet.")
points.arm("test.here", points.ACTION)
print("before", flush=True)
try:
    points.reach(here)
    print("after")
finally:
    print("unwound")
"""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Point]:
    monkeypatch.setattr(points, "_declared", {})
    yield declare("test.here", "Nothing is done yet.")
    disarm()


@pytest.fixture
def visits() -> list[str]:
    return []


def test_nothing_happens_at_a_point_that_is_not_armed(here: Point) -> None:
    reach(here)

    assert points.declared() == {"test.here": "Nothing is done yet."}


def test_nothing_happens_at_the_other_points(here: Point, visits: list[str]) -> None:
    there = declare("test.there", "All is done.")
    arm("test.here", lambda: visits.append("here"))

    reach(there)
    assert visits == []
    reach(here)
    assert visits == ["here"]


def test_an_action_runs_once(here: Point, visits: list[str]) -> None:
    arm("test.here", lambda: visits.append("here"))

    for _ in range(3):
        reach(here)

    assert visits == ["here"]


def test_an_action_runs_at_the_visit_it_was_armed_for(here: Point, visits: list[str]) -> None:
    arm("test.here", lambda: visits.append("here"), visit=3)

    seen = []
    for _ in range(5):
        reach(here)
        seen.append(len(visits))

    assert seen == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("visit", [0, -1])
def test_visits_are_counted_from_one(here: Point, visit: int) -> None:
    with pytest.raises(AssertionError, match="visits are counted from 1"):
        arm("test.here", kill, visit=visit)


def test_disarming_forgets_every_action(here: Point) -> None:
    arm("test.here", kill)

    disarm()

    reach(here)


def test_a_point_that_nobody_declared_cannot_be_armed(here: Point) -> None:
    with pytest.raises(UnknownPoint, match=r"no point 'test\.heer' is declared; declared points: test\.here"):
        arm("test.heer", kill)


def test_a_point_is_declared_once(here: Point) -> None:
    with pytest.raises(AssertionError, match=r"point test\.here is declared twice"):
        declare("test.here", "Again.")


def test_fail_raises_the_error_it_was_given(here: Point) -> None:
    error = OSError("disk full")
    arm("test.here", fail(error))

    with pytest.raises(OSError, match="disk full") as raised:
        reach(here)
    assert raised.value is error
    reach(here)


def test_kill_ends_the_process_at_once_without_cleanup() -> None:
    child = start(PROGRAM.replace("ACTION", kill.__name__))

    assert finish(child, expected=-signal.SIGKILL) == "before\n"


def test_pause_stops_the_process_until_it_is_told_to_go_on() -> None:
    child = start(PROGRAM.replace("ACTION", pause.__name__))

    _, status = os.waitpid(child.pid, os.WUNTRACED)
    stopped_by = os.WSTOPSIG(status) if os.WIFSTOPPED(status) else None
    child.send_signal(signal.SIGCONT)

    assert stopped_by == signal.SIGSTOP
    assert finish(child) == "before\nafter\nunwound\ncleaned up\n"


def test_no_variable_of_the_environment_arms_a_point() -> None:
    program = "from penstock import points; points.reach(points.declare('test.here', 'x')); print(points._armed)"
    child = start(program, PENSTOCK_POINTS="test.here=kill", PENSTOCK_POINTS_TEST_HERE="kill")

    assert finish(child) == "{}\n"
