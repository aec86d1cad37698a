"""A handler that will not be called is not passed over in silence; see also `penstock check`."""

from __future__ import annotations

import logging

import pytest

from penstock import Record, metrics
from penstock.clock import SYSTEM
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")
NOBODY, TOO_LATE = "no handler is registered", "is registered too late"


def test_a_worker_without_any_handler_says_so(engine: StoreEngine, caplog: pytest.LogCaptureFixture) -> None:
    with working(engine.another(SYSTEM)):
        wait_until(lambda: NOBODY in caplog.text, "it is said")
    assert [each.levelno for each in caplog.records if NOBODY in each.getMessage()] == [logging.WARNING]


def test_a_handler_that_comes_after_the_worker_began_is_told_apart(
    engine: StoreEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not called by that worker, and a warning says so; the next one calls it."""
    outbox, seen = engine.another(SYSTEM), list[str]()
    outbox.handler("early", group="early", id="early")(lambda record: seen.append("early"))
    with engine.connect() as conn:
        for type in ("early", "late"):
            outbox.publish(conn, type, 1, key="k")
        conn.commit()
    with working(outbox):
        wait_until(lambda: seen == ["early"], "the first handler is called")

        @outbox.handler("late", group="late")
        def late(record: Record) -> None:
            seen.append("late")

        assert TOO_LATE in caplog.text
        assert "late" in caplog.text
    assert NOBODY not in caplog.text
    assert seen == ["early"]
    caplog.clear()
    with working(outbox):
        wait_until(lambda: seen == ["early", "late"], "the second is called too")
    outbox.handler("more", group="late", id="more")(lambda record: None)
    assert TOO_LATE not in caplog.text


def test_records_that_no_group_reads_are_in_a_series(engine: StoreEngine) -> None:
    """By topic; once a group reads it, there are none."""
    metrics.UNREAD.reset()
    with engine.connect() as conn:
        for topic in ("mine", "nobodys", "nobodys"):
            engine.outbox.publish(conn, "t", 1, topic=topic)
        conn.commit()
    engine.outbox.handler(group="g", topic="mine", id="mine")(lambda record: None)
    engine.outbox.drain()
    assert metrics.UNREAD.values() == {(engine.outbox.store.name, "nobodys"): 2}
    later = engine.another()
    later.handler(group="g", topic="nobodys", id="nobodys")(lambda record: None)
    later.drain()
    assert metrics.UNREAD.values() == {(engine.outbox.store.name, "nobodys"): 0}


def test_a_worker_measures_what_no_group_reads(engine: StoreEngine) -> None:
    metrics.UNREAD.reset()
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 1, topic="nobodys")
        conn.commit()
    engine.outbox.drain()
    metrics.UNREAD.reset()
    outbox = engine.another(SYSTEM)
    outbox.handler(group="g", id="g")(lambda record: None)
    with working(outbox):
        wait_until(lambda: metrics.UNREAD.values() == {(engine.outbox.store.name, "nobodys"): 1}, "it is measured")
