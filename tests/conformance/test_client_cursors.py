"""Groups of clients: they commit where they are, and hold nothing back."""

from datetime import timedelta

import pytest

from penstock import metrics
from penstock.delivery.client_cursors import ClientCommit
from penstock.delivery.retention import Retention
from penstock.delivery.retention_rule import RetentionSettings
from penstock.errors import GroupKindDiffers, InvalidSelection
from penstock.log.contract import Batch, Topic
from penstock.membership.member import ClusterSettings, Member
from penstock.operate.groups import groups, show
from penstock.operate.handlers import check
from penstock.operate.records import delete_done, delete_records
from penstock.worker.handlers import Handlers
from penstock.worker.status import Measures
from tests.conformance.client_cursors import ClientCursors
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import Seen, subscribe
from tests.suites.log_reading import numbered
from tests.suites.refusal import refusal


@pytest.fixture
def topic(engine: StoreEngine) -> Topic:
    """Give a topic of two partitions with five records in the first, all of them old."""
    log = engine.outbox.log
    made = log.create_topic("t", partitions=2)
    log.append_all([Batch("t", numbered(5, timestamp_ms=1), 0)])
    return made


@pytest.fixture
def cursors(engine: StoreEngine, topic: Topic) -> ClientCursors:
    return ClientCursors(engine.outbox.store, engine.clock, group="kafka-app", topic=topic)


def test_a_commit_is_kept_with_what_the_client_said(engine: StoreEngine, cursors: ClientCursors) -> None:
    assert cursors.committed() == {}
    cursors.commit({0: ClientCommit(3, "host-1"), 1: ClientCommit(0)})
    cursors.commit({0: ClientCommit(2, "")})
    cursors.commit({})
    assert cursors.committed() == {0: ClientCommit(2, ""), 1: ClientCommit(0, None)}


def test_a_group_has_one_kind(engine: StoreEngine, topic: Topic, cursors: ClientCursors) -> None:
    """A name that handlers use cannot be committed to by a client, and the other way round."""
    engine.outbox.handler(group="kafka-app", id="x", topic="t")(lambda record: None)
    error = refusal(GroupKindDiffers, engine.outbox.drain)
    assert "choose another name" in str(error)
    other = engine.another()
    other.handler(group="mailer", id="x", topic="t")(lambda record: None)
    other.drain()
    store, clock = engine.outbox.store, engine.clock
    refusal(GroupKindDiffers, ClientCursors, store, clock, group="mailer", topic=topic)


def test_a_client_holds_nothing_back_and_a_handler_does(
    engine: StoreEngine, topic: Topic, cursors: ClientCursors
) -> None:
    cursors.commit({0: ClientCommit(1)})
    store, settings = engine.outbox.store, RetentionSettings.load(age=timedelta(days=1))
    assert Retention(store, settings, engine.clock).planned() == {"t": 5}
    other = engine.another()
    other.handler(group="mailer", id="x", topic="t")(lambda record: None)
    other.drain()
    engine.outbox.log.append_all([Batch("t", numbered(2, timestamp_ms=1), 0)])
    assert Retention(store, settings, engine.clock).planned() == {"t": 5}


def test_a_reader_that_holds_keeps_retention_back(engine: StoreEngine, topic: Topic) -> None:
    """As a pipeline does, which is no group."""
    store, settings = engine.outbox.store, RetentionSettings.load(age=timedelta(days=1))
    store.log.hold("lake", topic, {0: 2})
    retention = Retention(store, settings, engine.clock)
    assert retention.planned() == {"t": 2}
    assert retention.run().count == 2
    store.log.hold("lake", topic, {})
    assert retention.run().count == 3


def test_listings_tell_the_kind_and_the_lag(engine: StoreEngine, cursors: ClientCursors) -> None:
    cursors.commit({0: ClientCommit(2)})
    (listed,) = groups(engine.outbox).items
    assert (listed.name, listed.kind, listed.lag) == ("kafka-app", "client", 3)
    assert show(engine.outbox, "kafka-app").group == listed


def test_what_a_client_has_yet_to_pass_is_not_deleted_as_done(
    engine: StoreEngine, topic: Topic, cursors: ClientCursors
) -> None:
    """By hand every group counts: only retention, which nobody watches, does not wait for clients."""
    store, moment = engine.outbox.store, engine.clock.now() + timedelta(days=1)
    assert delete_done(store, moment, clock=engine.clock).count == 0, "no group reads it"
    cursors.commit({0: ClientCommit(2)})
    refusal(InvalidSelection, delete_records, store, "t", 0, 3, clock=engine.clock)
    assert delete_done(store, moment, dry_run=True, clock=engine.clock).count == 2
    assert delete_done(store, moment, clock=engine.clock).count == 2
    assert store.log.bounds("t", 0) == (2, 5)


def test_a_client_needs_no_handler(engine: StoreEngine, cursors: ClientCursors) -> None:
    """A check of handlers does not miss one for it, and what it reads is read by somebody."""
    cursors.commit({0: ClientCommit(2)})
    assert check(engine.outbox.store, Handlers()).findings == ()


def test_the_gauges_are_those_of_handlers(engine: StoreEngine, cursors: ClientCursors) -> None:
    """How far a client is behind is its own affair: it may never come back."""
    other = engine.another()
    subscribe(other, "mailer", Seen(), topic="t")
    other.drain()
    cursors.commit({0: ClientCommit(2)})
    member = Member(engine.outbox.store.database, ClusterSettings.load(), engine.clock)
    Measures(engine.outbox.store, member).take()
    for series in (metrics.PENDING, metrics.WAITING_LANES, metrics.DEAD_RECORDS):
        groups_shown = {labels[1] for labels in series.values()}
        assert "mailer" in groups_shown
        assert "kafka-app" not in groups_shown
