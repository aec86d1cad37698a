"""Retention beside a person who resets or clears, and a clock that jumps: nothing goes that is needed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import points
from penstock.database.database import Database
from penstock.delivery.retention import Retention
from penstock.delivery.retention_rule import RetentionSettings
from penstock.log.contract import Log, Topic
from penstock.log.store import store_of
from penstock.membership.member import ClusterSettings, Member
from penstock.operate.clear import clear
from penstock.operate.reset import EARLIEST, reset
from penstock.worker.retention import RetentionService
from tests.conformance.engines import StoreEngine, lock_waits
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition

WEEK, SOON = timedelta(days=7), timedelta(seconds=1)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of retention's own."""
    opened = engine.database()
    yield opened
    points.disarm()
    opened.close()


@pytest.fixture
def seen(engine: StoreEngine) -> Seen:
    """Give a group that has read three records, all of which are too old by now."""
    in_one_partition(engine)
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 1, 2, 3)
    engine.outbox.drain()
    engine.clock.advance(WEEK + SOON)
    engine.outbox.drain()
    seen.clear()
    return seen


class Slow(Retention):
    """Retention that is slow between its plan and its deletion."""

    meanwhile: Any = None

    def _ranges(self, *args: Any) -> Any:
        planned = super()._ranges(*args)
        self.meanwhile()
        return planned


def test_what_a_group_is_reset_to_since_the_plan_is_kept(engine: StoreEngine, database: Database, seen: Seen) -> None:
    retention = Slow(store_of(database), RetentionSettings.load(), engine.clock)
    retention.meanwhile = lambda: reset(database, "g", topic="events", to=EARLIEST, clock=engine.clock)
    assert retention.run().count == 0
    engine.outbox.drain()
    assert seen.values() == [1, 2, 3]
    retention.meanwhile = lambda: None
    assert retention.run().count == 3, "once it has passed them again"


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
@pytest.mark.parametrize("point", ["retention.after_copy", "retention.before_commit"])
def test_a_reset_while_records_are_deleted_gives_what_it_says(
    engine: StoreEngine, database: Database, seen: Seen, point: str
) -> None:
    """Whoever is second sees the first: the reset is to what is left, or the deletion is undone."""
    with ThreadPoolExecutor(1) as pool:
        resets = []

        def reset_meanwhile() -> None:
            resets.append(pool.submit(reset, database, "g", topic="events", to=EARLIEST, clock=engine.clock))
            if point.endswith("commit"):
                wait_until(lambda: lock_waits(engine), "the reset waits for the heads")
            else:
                resets[0].result()

        points.arm(point, reset_meanwhile)
        Retention(store_of(database), RetentionSettings.load(), engine.clock).run()
        again = resets[0].result().again
    engine.outbox.drain()
    assert len(seen.values()) == again
    assert again == (0 if point.endswith("commit") else 3)


def test_what_a_reader_holds_since_the_plan_is_kept(engine: StoreEngine, database: Database, seen: Seen) -> None:
    """As a pipeline that starts meanwhile."""
    store = store_of(database)
    retention = Slow(store, RetentionSettings.load(), engine.clock)
    topic = store.log.topic("events")
    retention.meanwhile = lambda: store.log.hold("lake", topic, {0: 1})
    assert retention.run().count == 0
    retention.meanwhile = lambda: None
    assert retention.run().count == 1
    assert store.log.bounds("events", 0) == (1, 3)


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)  # SQLite has one writer at a time
def test_a_hold_put_while_records_are_deleted_waits_for_it(engine: StoreEngine, database: Database, seen: Seen) -> None:
    """It would else be told that it holds what is just going."""
    store = store_of(database)
    topic = store.log.topic("events")
    with ThreadPoolExecutor(1) as pool:
        holds = []

        def hold_meanwhile() -> None:
            holds.append(pool.submit(store.log.hold, "lake", topic, {0: 0}))
            wait_until(lambda: lock_waits(engine) or holds[0].done(), "the hold is put or waits")
            assert not holds[0].done()

        points.arm("retention.before_commit", hold_meanwhile)
        assert Retention(store, RetentionSettings.load(), engine.clock).run().count == 3
        holds[0].result()
    assert store.log.bounds("events", 0) == (3, 3)
    assert store.log.holds(topic) == {"lake": {0: 0}}


def test_a_clock_that_jumps_makes_no_working_group_forgotten(
    engine: StoreEngine, database: Database, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that slept for long, say: its groups were there all the time, and have not read all."""
    publish_values(engine, 4, 5)
    idle = engine.another()
    subscribe(idle, "other", Seen())
    idle.drain()  # it brings them into the log, and "g" has not read them
    member = Member(database, ClusterSettings.load(), engine.clock)
    member.join()
    member.take()
    service = RetentionService(store_of(database), engine.clock, member=member, groups=["g", "other"])
    later_ms = engine.clock.now_ms() + 2 * WEEK // timedelta(milliseconds=1)
    monkeypatch.setattr(engine.clock, "now_ms", lambda: later_ms)  # and not what it counts by itself
    member.heartbeat()
    service.turn()
    engine.outbox.drain()
    assert seen.values() == [4, 5]


def test_a_clearing_cut_short_hides_what_it_has_not_deleted_yet(
    engine: StoreEngine, database: Database, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(log: Log, topic: Topic) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(engine.outbox.log), "sweep", cut)
        with pytest.raises(KeyboardInterrupt):
            clear(database, "events", clock=engine.clock)
    long_ago = datetime(1990, 1, 1, tzinfo=UTC)
    assert reset(database, "g", topic="events", to=long_ago, clock=engine.clock).again == 0
    engine.outbox.drain()
    assert seen.values() == []
