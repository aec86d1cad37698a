"""A lone worker begins at once: it waits neither for others to join nor for its own next look."""

from __future__ import annotations

import pytest

from penstock import Outbox
from penstock.clock import SYSTEM
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, subscribe
from tests.working import working


@pytest.fixture
def outbox(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """Give an outbox whose worker, once it has begun, looks again only in an hour."""
    hour = "3600"
    for name in ("HEARTBEAT_INTERVAL", "REBALANCE_INTERVAL", "GATHER_JOINS"):
        monkeypatch.setenv(f"PENSTOCK_CLUSTER_{name}", hour)
    monkeypatch.setenv("PENSTOCK_CLUSTER_LEASE_TTL", "7200")
    monkeypatch.setattr("penstock.worker.membership_loop._LOOK_SECONDS", float(hour))
    return engine.another(SYSTEM)


def publish(outbox: Outbox, topic: str = "events") -> None:
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", 1, key="k", topic=topic)


def delivered(outbox: Outbox, seen: Seen, count: int) -> None:
    with working(outbox):
        wait_until(lambda: len(seen) == count, "the first worker delivers", seconds=30)


def test_on_tables_that_no_worker_has_used(outbox: Outbox) -> None:
    """The topic is not there before the worker itself has moved the first record."""
    seen = Seen()
    subscribe(outbox, "g", seen)
    publish(outbox)
    delivered(outbox, seen, 1)


def test_on_tables_that_another_has_left(outbox: Outbox, engine: StoreEngine) -> None:
    seen, before = Seen(), Seen()
    for each, notes in ((outbox, before), (engine.another(SYSTEM), seen)):
        subscribe(each, "g", notes)
        publish(each)
        delivered(each, notes, 1)


def test_for_a_topic_that_comes_later(outbox: Outbox) -> None:
    seen, others = Seen(), Seen()
    subscribe(outbox, "g", others)
    subscribe(outbox, "g", seen, topic="later", id="later")
    publish(outbox)
    with working(outbox):
        wait_until(lambda: len(others) == 1, "the worker is at work", seconds=30)
        publish(outbox, "later")
        wait_until(lambda: len(seen) == 1, "the new topic is delivered", seconds=30)
