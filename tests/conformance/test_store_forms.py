"""An outbox is opened by a URL or with a store; operations take an outbox, a store or a database alike."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from penstock import Outbox
from penstock.database.naming import Names
from penstock.errors import InvalidInput, UnknownTopic
from penstock.log.store import Store, StoreLike, open_store, store_of
from penstock.model.retry import Fixed
from penstock.operate import audit, dead, drop, erase, groups, lanes, reconcile, retention, scheduled, topics
from penstock.operate.clear import clear
from penstock.operate.events import EventState, events
from penstock.operate.records import delete_done
from penstock.operate.reset import reset
from penstock.operate.why import why
from penstock.testing import FakeClock
from tests.conformance.engines import StoreEngine, connect
from tests.conformance.stores import kind_or_lists, sql_log_only  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition

HOUR = timedelta(hours=1)
LATER = Fixed(HOUR, max_retries=3)
NEVER = Fixed(HOUR, max_retries=0)


def later(clock: FakeClock) -> FakeClock:
    """Return a clock that is a year ahead."""
    return FakeClock(clock.now() + timedelta(days=365))


# Each is asked of a store, an outbox and a database: what it tells, or would do.
ASKED: dict[str, Callable[[StoreLike, FakeClock], Any]] = {
    "topics": lambda source, clock: topics.topics(source),
    "topic": lambda source, clock: topics.show(source, "events"),
    "size": lambda source, clock: topics.size_bytes(source, "events"),
    "partitions of a topic": lambda source, clock: topics.partitions(source, "events"),
    "groups": lambda source, clock: groups.groups(source, clock=clock),
    "group": lambda source, clock: groups.show(source, "parks", clock=clock),
    "partitions of a group": lambda source, clock: groups.partitions(source, "parks"),
    "lanes": lambda source, clock: lanes.lanes(source, clock=clock),
    "dead letters": lambda source, clock: dead.dead_letters(source),
    "dead letter": lambda source, clock: dead.show(source, "gives-up", "events", 0, 1),
    "scheduled": lambda source, clock: scheduled.scheduled(source, scheduled.ScheduledSelection()),
    "reconciled": lambda source, clock: reconcile.reconcile(source, "events"),
    "retention": lambda source, clock: retention.planned(source, clock=clock),
    "expired": lambda source, clock: retention.examine_groups(source, later(clock)),
    "owner": lambda source, clock: erase.count_owner(source, "me"),
    "losses": lambda source, clock: drop.losses(source, clock=clock),
    "audit": lambda source, clock: audit.audit(source),
    "why": lambda source, clock: why(source, "k", clock=clock),
    "would clear": lambda source, clock: clear(source, "events", dry_run=True, clock=clock),
    "would reset": lambda source, clock: reset(
        source, "parks", topic="events", to="earliest", dry_run=True, clock=clock
    ),
    "would delete": lambda source, clock: delete_done(
        source, clock.now() + HOUR, topic="events", dry_run=True, clock=clock
    ),
    **{
        f"events {state.value}": lambda source, clock, state=state: events(source, state)  # type: ignore[misc]
        for state in EventState
    },
}


@pytest.fixture
def told(engine: StoreEngine) -> StoreEngine:
    """Give a store with something in every state."""
    in_one_partition(engine)
    subscribe(engine.outbox, "parks", Seen(1), retry=LATER)
    subscribe(engine.outbox, "gives-up", Seen(2), retry=NEVER, on_exhausted="release")
    publish_values(engine, 1, 2, 3)
    engine.outbox.drain()
    topics.set_retention(engine.outbox, "events", max_records=2, clock=engine.clock)
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 4, key="k", owner="me")
        engine.outbox.publish(conn, "t", 5, key="k", at=HOUR)
        conn.commit()
    return engine


@pytest.mark.parametrize("name", ASKED)
def test_an_operation_answers_an_outbox_a_store_and_a_database_alike(told: StoreEngine, name: str) -> None:
    with closing(told.database()) as database:
        sources: list[StoreLike] = [told.outbox, told.outbox.store, database]
        answers = [ASKED[name](source, told.clock) for source in sources]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0], "it has something to tell"


def test_an_operation_changes_the_same_through_each(told: StoreEngine) -> None:
    with closing(told.database()) as database:
        sources: list[StoreLike] = [told.outbox, told.outbox.store, database]
        for number, source in enumerate(sources):
            assert topics.create(source, f"t-{number}", partitions=2, clock=told.clock)
            records = told.count("log")
            assert records == (3, 3, 1)[number]
            assert topics.delete(source, "events", force=True, clock=told.clock) == records
            assert told.count("log") == 0
            publish_values(told, *range(2 - number))
            told.outbox.drain()  # what is staged makes it anew
    names = [each.name for each in topics.topics(told.outbox).items]
    assert names == [each.name for each in told.outbox.log.topics()] == ["t-0", "t-1", "t-2"]


@pytest.mark.parametrize("name", ["outbox", "store", "database"])
def test_what_has_the_store_may_be_given_by_its_name(told: StoreEngine, name: str) -> None:
    with closing(told.database()) as database:
        source = {"outbox": told.outbox, "store": told.outbox.store, "database": database}[name]
        by_name: dict[str, Any] = {name: source}
        shown: Callable[..., Any] = topics.show
        assert shown(name="events", **by_name) == shown(source, "events")
        reset_now: Callable[..., Any] = reset
        done = reset_now(**by_name, group="parks", topic="events", to="latest", clock=told.clock)
        assert done.moves
        for twice in ((source,), ("events",)):
            with pytest.raises(TypeError, match="one outbox, store or database"):
                shown(*twice, **by_name)
    with pytest.raises(TypeError, match="one outbox, store or database"):
        shown(name="events")


def test_what_has_a_store_leads_to_it(engine: StoreEngine) -> None:
    store = engine.outbox.store
    assert store_of(store) is store
    assert store_of(engine.outbox) is store
    with closing(open_store(engine.url).database) as database:
        whole = store_of(database)
        assert whole.database is database
        assert whole.is_one


# --- an outbox on a store ------------------------------------------------------------------------


def test_an_outbox_on_a_store_is_the_one_of_its_url(migrated_url: str) -> None:
    clock = FakeClock()
    store = open_store(migrated_url, clock=clock)
    with_store, with_url = Outbox(store, clock=clock), Outbox(migrated_url, clock=clock)
    with_store.migrate()
    assert with_store.store is store
    assert (with_store.url, with_store.database, with_store.log) == (migrated_url, store.database, store.log)
    seen = Seen()
    subscribe(with_store, "g", seen)
    conn = connect(migrated_url)
    with_url.publish(conn, "t", 1, key="k")
    with_store.publish(conn, "t", 2, key="k")
    conn.commit()
    conn.close()
    assert with_store.drain().delivered == 2
    assert seen.values() == [1, 2]
    topic, partition = seen[0].topic, seen[0].partition
    assert topic is not None
    assert partition is not None
    assert [each.value for each in with_url.log.read(topic, partition)] == [1, 2]
    with_url.close()
    with_store.close()


@sql_log_only  # it looks at the table of that log
def test_the_names_of_a_store_are_those_of_its_outbox(url: str) -> None:
    outbox = Outbox(open_store(url, Names("mine_")))
    outbox.migrate()
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", 1, key="k")
    assert outbox.drain().sequenced == 1
    conn = connect(url)
    assert conn.execute("SELECT count(*) FROM mine_log").fetchone()[0] == 1
    conn.close()
    outbox.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [("prefix", "mine_"), ("prefix", "penstock_"), ("schema", "app"), ("listen_url", "postgresql://h/d")],
)
def test_what_a_store_was_opened_with_cannot_be_said_to_its_outbox(migrated_url: str, name: str, value: str) -> None:
    """It would be ignored, and the tables of another prefix would stay empty."""
    options: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"{name}='{value}'.*give it to `open_store`"):
        Outbox(open_store(migrated_url), **options)


def test_two_outboxes_share_a_store_and_its_log(engine: StoreEngine) -> None:
    store: Store = engine.outbox.store
    other = Outbox(store, clock=engine.clock)
    publish_values(engine, 1)
    assert other.drain().sequenced == 1
    assert other.log is engine.outbox.log
    with pytest.raises(UnknownTopic):
        other.log.topic("nowhere")
