"""A process without file descriptors says so once, and again only when it had some meanwhile."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from penstock.broker.process import Descriptors
from penstock.testing.clock import FakeClock


@contextmanager
def _none_left() -> Iterator[int]:
    """Let this process have no more file descriptors than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(2)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield lowest
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_lack_is_said_once_with_the_limit_and_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    looked = Descriptors(FakeClock())
    looked.look()
    assert caplog.messages == []
    with _none_left() as limit:
        looked.look()
        looked.look()
    (said,) = caplog.messages
    assert f"limit of {limit} " in said
    assert "ulimit -n" in said


def test_a_lack_is_said_again_only_after_it_was_over_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    looked = Descriptors(clock)
    with _none_left():
        looked.look()
    looked.look()
    with _none_left():
        looked.look()
    assert len(caplog.messages) == 1
    looked.look()
    clock.advance(timedelta(seconds=60))
    looked.look()
    with _none_left():
        looked.look()
    assert len(caplog.messages) == 2
