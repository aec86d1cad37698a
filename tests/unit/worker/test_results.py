"""When the delivery loop is woken for results: always for what presses, not for what it fetches by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.delivery.verdict import Passed
from penstock.worker.calling.verdicts import Results


@dataclass(frozen=True)
class AHandler:
    """As much of one as is counted."""

    group: str = "g"
    id: str = "h"


@dataclass(frozen=True)
class ATask:
    """As much of one as is counted."""

    handler: AHandler


TASK: Any = ATask(AHandler())


class Loop:
    """What is woken."""

    def __init__(self) -> None:
        self.woken, self.promised = 0, 0
        self.results = Results(self.wake, self.promise)

    def wake(self) -> None:
        self.woken += 1

    def promise(self) -> None:
        self.promised += 1

    def end(self, *, plain: bool, more: bool = False) -> None:
        """Be a thread whose call has ended."""
        self.results.put((TASK, Passed(), 0.001))
        if not self.results.is_told:
            self.results.tell(more, plain=plain)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_a_result_wakes_the_loop(loop: Loop) -> None:
    loop.end(plain=True)
    assert loop.woken == 1
    loop.end(plain=True)
    assert loop.woken == 1, "it is awake"
    assert len(loop.results.take()) == 2


def test_what_has_simply_passed_does_not_wake_a_loop_that_fetches_it_by_itself(loop: Loop) -> None:
    assert not loop.results.expect(awaited=False)
    loop.end(plain=True)
    loop.end(plain=True, more=True)
    assert (loop.woken, loop.promised) == (0, 0)
    assert len(loop.results.take()) == 2


def test_anything_else_wakes_it(loop: Loop) -> None:
    loop.results.expect(awaited=False)
    loop.end(plain=False)
    assert loop.woken == 1


def test_many_wake_it(loop: Loop) -> None:
    loop.results.expect(awaited=False)
    for _ in range(300):
        loop.end(plain=True)
    assert loop.woken == 1


def test_what_came_before_the_loop_wanted_to_be_woken_is_not_slept_through(loop: Loop) -> None:
    loop.results.expect(awaited=False)
    loop.end(plain=True)
    assert loop.results.expect(awaited=True)
    loop.results.take()
    assert not loop.results.expect(awaited=True)
