"""The schedule is open: fixed beforehand, never stretched by what is late."""

import asyncio
import itertools
import time
from collections.abc import Iterator

import pytest

from bench.rivals import pacing
from bench.rivals.pacing import Pace, publish_in_tasks, publish_in_threads

SECOND = 1_000_000_000


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give a clock that stands still unless it is set."""
    moment = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: moment[0])
    return moment


def nothing() -> Iterator[int]:
    return iter(())


def test_connections_share_the_schedule_between_them(now: list[int]) -> None:
    pace = Pace(rate=4, seconds=1.5, connections=2, first=100)

    turns = [list(pace.turns(connection, 10 * SECOND, nothing())) for connection in range(2)]

    assert turns[0] == [(100, 10 * SECOND), (102, 10 * SECOND + SECOND // 2), (104, 11 * SECOND)]
    assert [number for number, _ in turns[1]] == [101, 103, 105]


def test_what_comes_late_keeps_its_due_time(now: list[int]) -> None:
    turns = Pace(rate=10, seconds=1).turns(0, 0, nothing())
    assert next(turns) == (0, 0)

    now[0] = SECOND // 2  # a stall
    assert [due for _, due in itertools.islice(turns, 3)] == [SECOND // 10, SECOND // 5, 3 * SECOND // 10]


def test_a_publisher_that_cannot_keep_up_gives_up_soon_after_its_time(now: list[int]) -> None:
    turns = Pace(rate=1000, seconds=1).turns(0, 0, nothing())
    done = 0
    for _ in turns:
        done += 1
        now[0] += SECOND // 10

    assert done == 12  # at 0, 0.1, ... 1.1 s


@pytest.mark.parametrize("in_loop", [False, True])
def test_each_event_is_published_once_and_noted(in_loop: bool, now: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "_LEAD_NS", 0)
    pace = Pace(rate=50_000, seconds=0.001, connections=3)
    published: list[int] = []

    async def publish(number: int) -> None:
        published.append(number)

    if in_loop:
        rows = asyncio.run(publish_in_tasks(pace, [publish] * 3))
    else:
        rows = publish_in_threads(pace, [published.append] * 3)

    assert sorted(published) == sorted(number for number, _, _ in rows) == list(range(50))
    assert [due for _, due, _ in sorted(rows)] == pytest.approx([each * 20_000 for each in range(50)], abs=1)
    assert {committed for _, _, committed in rows} == {0}  # the clock stands still
