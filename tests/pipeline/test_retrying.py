"""How long an interrupted pipeline is tried again."""

from __future__ import annotations

from datetime import timedelta

from penstock.errors import PipelineFailed, PipelineInterrupted
from penstock.pipeline.failure import RetryBackoff
from penstock.testing import FakeClock

AWAY = PipelineInterrupted("the store is away")


def test_the_pauses_grow_up_to_the_limit_and_begin_again_when_it_goes_well() -> None:
    clock = FakeClock()
    retrying = RetryBackoff(100, clock)
    pauses = []
    while (pause := retrying.pause_after(AWAY)) is not None:
        pauses.append(pause)
        clock.advance(timedelta(seconds=pause))
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 9]
    retrying.succeeded()
    assert retrying.pause_after(AWAY) == 1


def test_what_does_not_pass_is_not_tried_again() -> None:
    assert RetryBackoff(100, FakeClock()).pause_after(PipelineFailed("columns differ")) is None


def test_the_same_sentence_is_said_once() -> None:
    retrying = RetryBackoff(100, FakeClock())
    other = PipelineInterrupted("an executor was lost")
    assert [retrying.is_new(each) for each in (AWAY, AWAY, other, other)] == [True, False, True, False]
    retrying.succeeded()
    assert retrying.is_new(other)
