"""Draining when others own something, are dead or slow, and when the store changes meanwhile."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock import Outbox, Record, points
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.delivery.store import GroupStore
from penstock.membership import member
from penstock.membership.member import ClusterSettings, Member
from penstock.membership.process import Process
from tests.conformance.engines import StoreEngine
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.refusal import refusal

LEASE = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Any:
    yield
    points.disarm()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Give a way to do something as a process of another host would."""

    def run(call: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(member, "this_process", lambda: Process("another host", 1, "1"))
            call()

    return run


def crash_at(point: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a drain end at a point as if its process had died: nothing is given back."""
    with monkeypatch.context() as patch:
        patch.setattr(Member, "leave", lambda self: None)
        patch.setattr(GroupStore, "release", lambda self, partitions: None)

        def die() -> None:
            points.arm(point, die)
            raise KeyboardInterrupt

        points.arm(point, die)
        refusal(KeyboardInterrupt, call)
        points.disarm()


def test_what_a_crashed_member_of_another_host_owned_waits_for_its_lease(
    engine: StoreEngine, elsewhere: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-10: a drain meanwhile ends and harms nothing; the first one after the lease does the work."""
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 1, 2)
    elsewhere(lambda: crash_at("delivery.before_settle", engine.outbox.drain, monkeypatch))
    assert seen.values() == [1, 2]
    publish_values(engine, 3)
    engine.clock.advance(LEASE - timedelta(milliseconds=1))
    assert engine.outbox.drain() == engine.outbox.drain()
    assert seen.values() == [1, 2]
    engine.clock.advance(timedelta(milliseconds=1))
    counts = engine.outbox.drain()
    assert (counts.sequenced, counts.delivered) == (1, 3)
    assert seen.values() == [1, 2, 1, 2, 3]


def test_what_a_dead_process_of_this_host_owned_is_taken_at_once(
    engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 1)
    crash_at("delivery.before_settle", engine.outbox.drain, monkeypatch)
    monkeypatch.setattr(Process, "is_surely_dead", lambda self: True)
    assert engine.outbox.drain().delivered == 1
    assert seen.values() == [1, 1]


def test_a_crash_after_settling_repeats_nothing(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 1, 2)
    crash_at("delivery.after_settle", engine.outbox.drain, monkeypatch)
    engine.clock.advance(LEASE)
    assert engine.outbox.drain().delivered == 0
    assert seen.values() == [1, 2]


def test_slow_handlers_keep_the_lease_alive(engine: StoreEngine) -> None:
    """500 records of a second each take longer than the lease; another drain must find the owner alive."""
    seen, other = Seen(), engine.another()
    subscribe(other, "g", seen)

    def slow(record: Record) -> None:
        seen(record)
        engine.clock.advance(timedelta(seconds=20))
        other.drain()

    subscribe(engine.outbox, "g", slow)
    publish_values(engine, *range(6))
    assert engine.outbox.drain().delivered == 6
    assert seen.values() == list(range(6))


def test_a_handler_longer_than_the_lease_costs_one_repetition_at_most(
    engine: StoreEngine, elsewhere: Callable[[Callable[[], object]], None]
) -> None:
    """Whoever may have lost its lease starts no other handler before it has asked."""
    seen, taken = Seen(), Seen()
    other = engine.another()
    subscribe(other, "g", taken)

    def stuck(record: Record) -> None:
        seen(record)
        if len(seen) == 1:
            engine.clock.advance(LEASE)
            other.drain()

    subscribe(engine.outbox, "g", stuck)
    publish_values(engine, 1, 2, 3)
    elsewhere(engine.outbox.drain)
    assert seen.values() == [1]
    assert taken.values() == [1, 2, 3]
    assert engine.outbox.drain().delivered == 0


def test_a_topic_deleted_by_a_handler_ends_its_delivery_only(engine: StoreEngine) -> None:
    others, seen = Seen(), Seen()

    def deleting(record: Record) -> None:
        seen(record)
        engine.outbox.log.delete_topic("events")

    subscribe(engine.outbox, "deleting", deleting)
    subscribe(engine.outbox, "others", others, topic="others")
    publish_values(engine, 1)
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 2, topic="others")
        conn.commit()
    engine.outbox.drain()
    assert (seen.values(), others.values()) == ([1], [2])
    publish_values(engine, 3)
    engine.outbox.drain()
    assert 3 in seen.values()


def test_a_drain_without_handlers_only_sequences(engine: StoreEngine) -> None:
    publish_values(engine, 1, 2)
    counts = engine.outbox.drain()
    assert (counts.sequenced, counts.delivered, counts.retried, counts.parked, counts.dead) == (2, 0, 0, 0, 0)


def test_a_drain_leaves_no_member_and_no_owner_behind(engine: StoreEngine) -> None:
    subscribe(engine.outbox, "g", Seen())
    publish_values(engine, 1)
    engine.outbox.drain()
    with engine.connect() as conn:
        for table in ("member", "slot WHERE owner IS NOT NULL", "cursor WHERE owner IS NOT NULL"):
            assert conn.execute(f"SELECT count(*) FROM penstock_{table}").fetchone()[0] == 0


def test_a_long_lived_member_keeps_its_slots_from_a_drain(engine: StoreEngine) -> None:
    """Two sequencers on one store: the drain leaves the other's work to it, and delivers what is there."""
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    database = open_database(engine.url, Names())
    living = Member(database, ClusterSettings(), engine.clock)
    living.join()
    living.take()
    publish_values(engine, 1)
    assert engine.outbox.drain().sequenced == 0
    living.leave()
    assert engine.outbox.drain().delivered == 1
    database.close()


def test_a_failing_handler_is_named_in_the_log(engine: StoreEngine, caplog: pytest.LogCaptureFixture) -> None:
    subscribe(engine.outbox, "g", Seen(1), id="my-handler")
    subscribe(engine.outbox, "p", Seen(), match=lambda record: 1 / 0, id="odd")
    publish_values(engine, 1, type="order.placed")
    engine.outbox.drain()
    assert "handler my-handler on order.placed" in caplog.text
    assert "handler odd on order.placed" in caplog.text
    assert "OrderDeclined" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_many_records_are_settled_in_lots(engine: StoreEngine) -> None:
    """A failure after more than one lot repeats only what was not settled."""
    seen = Seen(700)
    subscribe(engine.outbox, "g", seen)
    with engine.connect() as conn:
        engine.outbox.publish_many(conn, ({"type": "t", "value": n, "key": "k"} for n in range(1_000)))
        conn.commit()
    counts = engine.outbox.drain()
    assert (counts.delivered, counts.retried) == (700, 1)
    seen.failing.clear()
    engine.clock.advance(timedelta(seconds=2))
    assert engine.outbox.drain().delivered == 300
    assert seen.values() == [*range(701), *range(700, 1_000)]


def test_an_outbox_without_tables_says_so() -> None:
    outbox = Outbox("memory://")
    with pytest.raises(Exception, match=r"outbox\.migrate\(\)"):
        outbox.drain()
    outbox.close()
