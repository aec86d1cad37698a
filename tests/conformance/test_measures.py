"""Every gauge of a store is there, and moves with what it is about, on every engine."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from penstock import metrics
from penstock.database.database import Database
from penstock.delivery.store import GroupStore
from penstock.membership.member import ClusterSettings, Member
from penstock.metrics import SERIES, Series, SeriesKind
from penstock.model.retry import Fixed
from penstock.operate.dead import DeadSelection, requeue
from penstock.operate.groups import delete
from penstock.operate.lanes import LaneState, lanes
from penstock.worker.status import Measures
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.working import working

GROUPS = (
    metrics.PENDING,
    metrics.ASSIGNED,
    metrics.UNASSIGNED,
    metrics.OLDEST_PENDING,
    metrics.WAITING_LANES,
    metrics.HELD_LANES,
    metrics.DEAD_RECORDS,
)
STORE = (
    metrics.MEMBERS,
    metrics.SLOTS_ASSIGNED,
    metrics.SLOTS_UNASSIGNED,
    metrics.STAGED,
    metrics.SCHEDULED,
    metrics.OLDEST_STAGED,
)


@pytest.fixture(autouse=True)
def _fresh_series() -> Iterator[None]:
    for series in SERIES:
        series.reset()
    yield
    for series in SERIES:
        series.reset()


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the test's own."""
    opened = engine.database()
    yield opened
    opened.close()


@pytest.fixture
def member(engine: StoreEngine, database: Database) -> Member:
    """Give a member that has joined."""
    found = Member(database, ClusterSettings(), engine.clock)
    found.join()
    return found


@pytest.fixture
def measures(engine: StoreEngine, member: Member) -> Measures:
    return Measures(engine.outbox.store, member, engine.clock)


def of(engine: StoreEngine, group: str) -> list[float]:
    """Return the gauges of a group."""
    return [series.values()[engine.outbox.store.name, group] for series in GROUPS]


def of_store(engine: StoreEngine) -> list[float]:
    return [series.values()[engine.outbox.store.name,] for series in STORE]


def test_events_before_the_log_and_members_are_counted(
    engine: StoreEngine, member: Member, measures: Measures, database: Database
) -> None:
    measures.take()
    assert of_store(engine) == [1, 0, 256, 0, 0, 0]
    publish_values(engine, 1, 2)
    with engine.outbox.transaction() as conn:
        engine.outbox.publish(conn, "t", 3, at=timedelta(hours=1))
    other = Member(database, ClusterSettings(), engine.clock)
    other.join()
    member.take()
    measures.take()
    assert of_store(engine) == [2, 256, 0, 2, 1, 0]
    other.leave()
    measures.take()
    assert metrics.MEMBERS.values() == {(engine.outbox.store.name,): 1}


def test_what_a_group_has_to_do_is_counted(
    engine: StoreEngine, database: Database, member: Member, measures: Measures
) -> None:
    """A key that is held shows in the series."""
    seen = Seen(1, 2)
    subscribe(engine.outbox, "g", seen, retry=Fixed(timedelta(seconds=1), max_retries=1))
    subscribe(engine.outbox, "h", Seen(), match="nothing")
    publish_values(engine, 1, key="a")
    engine.outbox.drain()
    measures.take()
    assert of(engine, "g") == [0, 0, 256, 0, 1, 0, 0]  # one key waits for its retry
    engine.clock.advance(timedelta(seconds=1))
    engine.outbox.drain()
    publish_values(engine, 4, 5, key="c")
    engine.outbox.drain()
    measures.take()
    assert of(engine, "g") == [0, 0, 256, 0, 0, 1, 1]  # it is dead now, and its key held
    topic = engine.outbox.log.topic("events")
    store = GroupStore(engine.outbox.store, engine.clock, group="late", topic=topic, owner=member.id)
    store.take_wanted(member.living)
    measures.take()
    assert of(engine, "late") == [3, 0, 256, 1, 0, 0, 0]
    store.take(member.living)
    measures.take()
    owned = metrics.ASSIGNED.values()[engine.outbox.store.name, "late"]
    assert owned == 2  # those with something to do
    assert of(engine, "late") == [3, owned, 256 - owned, 1, 0, 0, 0]
    member.leave()
    measures.take()
    delete(database, "late", clock=engine.clock)
    measures.take()
    assert sorted(group for _, group in metrics.PENDING.values()) == ["g", "h"]


def test_a_group_on_a_topic_that_never_held_anything_has_nothing_to_do(engine: StoreEngine, measures: Measures) -> None:
    engine.outbox.log.create_topic("events", partitions=3)
    subscribe(engine.outbox, "g", Seen())
    engine.outbox.drain()
    measures.take()
    assert of(engine, "g") == [0, 0, 3, 0, 0, 0, 0]


def test_the_oldest_event_that_could_be_in_the_log_counts_from_when_it_was_published_or_due(
    engine: StoreEngine, measures: Measures
) -> None:
    with engine.outbox.transaction() as conn:
        engine.outbox.publish(conn, "t", 1, at=timedelta(seconds=10))
    measures.take()
    assert metrics.OLDEST_STAGED.values()[engine.outbox.store.name,] == 0
    engine.clock.advance(timedelta(seconds=13))
    publish_values(engine, 2)
    engine.clock.advance(timedelta(seconds=2))
    measures.take()
    assert metrics.OLDEST_STAGED.values()[engine.outbox.store.name,] == 5
    engine.outbox.drain()
    measures.take()
    assert metrics.OLDEST_STAGED.values()[engine.outbox.store.name,] == 0
    assert metrics.MEASURED.values()[engine.outbox.store.name,] == engine.clock.now_ms() / 1000


def test_no_count_goes_beyond_its_bound(
    engine: StoreEngine, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(engine.outbox, "g", Seen(1, 2, 3), retry=Fixed(timedelta(seconds=1), max_retries=0))
    for value in (1, 2, 3):
        publish_values(engine, value, key=f"k-{value}")
    engine.outbox.drain()
    publish_values(engine, 4, 5, 6)
    measures.take()
    assert of(engine, "g")[-2:] == [3, 3]
    monkeypatch.setattr("penstock.worker.status._COUNTED", 2)
    measures.take()
    assert of(engine, "g")[-2:] == [2, 2]
    assert metrics.STAGED.values()[engine.outbox.store.name,] == 2


def test_a_worker_takes_them(engine: StoreEngine) -> None:
    subscribe(engine.outbox, "g", Seen())
    with working(engine.outbox):
        wait_until(lambda: sum(metrics.MEMBERS.values().values()) >= 1, "a worker has measured")


def counted(series: Series) -> float:
    return sum(
        value if series.kind is not SeriesKind.HISTOGRAM else sum(value.counts) for value in series.values().values()
    )


@pytest.mark.parametrize("transaction", [False, True])
def test_publishing_handling_and_falling_back_are_timed_and_counted(engine: StoreEngine, transaction: bool) -> None:
    """What only the fallback completed is to be seen."""
    subscribe(
        engine.outbox,
        "g",
        Seen(1, 3),
        retry=Fixed(timedelta(seconds=1), max_retries=0),
        fallback=lambda record: None if record.value == 1 else 1 / 0,
        transaction=transaction,
    )
    publish_values(engine, 1)
    publish_values(engine, 2, 3)
    engine.outbox.drain()
    counts = {
        series.name: counted(series)
        for series in (
            metrics.PUBLISH_SECONDS,
            metrics.PUBLISHED,
            metrics.HANDLER_SECONDS,
            metrics.FALLBACK_SECONDS,
            metrics.DELIVERED,
            metrics.COMPLETED_BY_FALLBACK,
            metrics.DEAD,
        )
    }
    assert counts == {
        "penstock_publish_seconds": 3,
        "penstock_published_total": 3,
        "penstock_handler_seconds": 3,
        "penstock_fallback_seconds": 2,
        "penstock_delivered_total": 2,
        "penstock_completed_by_fallback_total": 1,
        "penstock_dead_total": 1,
    }


def test_a_held_key_is_seen_in_listing_and_series_and_flows_again_after_a_requeue(
    engine: StoreEngine, database: Database, measures: Measures
) -> None:
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=Fixed(timedelta(seconds=1), max_retries=0))
    publish_values(engine, 1, 2, 3)
    engine.outbox.drain()
    measures.take()
    assert [lane.state for lane in lanes(database, held=True, clock=engine.clock).items] == [LaneState.HELD]
    assert of(engine, "g")[-2:] == [1, 1]
    seen.failing.clear()
    requeue(database, DeadSelection(group="g", key="k"), clock=engine.clock)
    engine.outbox.drain()
    measures.take()
    assert seen.values() == [1, 1, 2, 3]
    assert of(engine, "g")[-2:] == [0, 0]
