"""B-09: a handler that will not be called is not passed over in silence.

`penstock check` and the series of records without a reader come with issue 6; what can be told now is told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from penstock import Outbox, Record
from penstock.clock import SYSTEM
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import LONGEST_SECONDS, wait_until

NOBODY, TOO_LATE = "no handler is registered", "is registered too late"


def test_b_09_a_worker_without_any_handler_says_so(
    engine: StoreEngine, caplog: pytest.LogCaptureFixture
) -> None:
    with a_run(engine.another(SYSTEM)):
        wait_until(lambda: NOBODY in caplog.text, "it is said")
    assert [each.levelno for each in caplog.records if NOBODY in each.getMessage()] == [logging.WARNING]


def test_b_09_a_handler_that_comes_after_the_worker_began_is_told_apart(
    engine: StoreEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not called by that worker, and a warning says so; the next one calls it."""
    outbox, seen = engine.another(SYSTEM), list[str]()
    outbox.handler("early", group="early", id="early")(lambda record: seen.append("early"))
    with engine.connect() as conn:
        for type in ("early", "late"):
            outbox.publish(conn, type, 1, key="k")
        conn.commit()
    with a_run(outbox):
        wait_until(lambda: seen == ["early"], "the first handler is called")

        @outbox.handler("late", group="late")
        def late(record: Record) -> None:
            seen.append("late")

        assert TOO_LATE in caplog.text
        assert "late" in caplog.text
    assert NOBODY not in caplog.text
    assert seen == ["early"]
    caplog.clear()
    with a_run(outbox):
        wait_until(lambda: seen == ["early", "late"], "the second is called too")
    outbox.handler("more", group="late", id="more")(lambda record: None)
    assert caplog.text == ""


@contextmanager
def a_run(outbox: Outbox) -> Iterator[None]:
    """Run an outbox for the length of a block."""
    until = Event()
    thread = Thread(target=outbox.run, kwargs={"until": until})
    thread.start()
    try:
        yield
    finally:
        until.set()
        thread.join(LONGEST_SECONDS)
    assert not thread.is_alive()
