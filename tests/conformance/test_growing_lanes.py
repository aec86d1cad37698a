"""What waits in lanes while a topic grows: of keys, of partitions, of groups that change between them."""

from contextlib import closing
from datetime import timedelta
from typing import Any, get_args

import pytest

from penstock import Fixed
from penstock.delivery.store import GroupStore
from penstock.membership.member import ClusterSettings, Member
from penstock.model.partition import partition_of
from penstock.operate import topics
from penstock.operate.erase import erase
from penstock.operate.reset import reset
from penstock.worker.handler_options import LanesWord
from tests.conformance.engines import StoreEngine
from tests.suites.handling_suite import Seen, subscribe

pytestmark = pytest.mark.usefixtures("brisk")

MODES = get_args(LanesWord)
LATER, NEVER = Fixed(timedelta(seconds=10), max_retries=3), Fixed(timedelta(seconds=1), max_retries=0)


def key_in(partition: int) -> str:
    """Return a key that is in a partition of eight."""
    return next(key for number in range(500) if partition_of(key := f"k-{number}", 8) == partition)


def publish(engine: StoreEngine, key: str, *values: Any, owner: str | None = None) -> None:
    with engine.connect() as conn:
        for value in values:
            engine.outbox.publish(conn, "t", value, key=key, owner=owner)
        conn.commit()


@pytest.mark.parametrize("after", MODES)
@pytest.mark.parametrize("before", MODES)
def test_a_key_keeps_its_order_although_the_lanes_are_others_since(
    engine: StoreEngine, before: LanesWord, after: LanesWord
) -> None:
    engine.outbox.log.create_topic("events", partitions=4)
    seen, key = Seen(0), key_in(5)
    subscribe(engine.outbox, "g", seen, retry=LATER, lanes=before)
    publish(engine, key, 0, 1)
    engine.outbox.drain()
    topics.grow(engine.outbox, "events", 8, clock=engine.clock)
    publish(engine, key, 2)
    deployed = engine.another()
    subscribe(deployed, "g", seen, retry=LATER, lanes=after)
    deployed.drain()
    assert seen.values() == [0]
    seen.failing.clear()
    engine.clock.advance(timedelta(seconds=11))
    deployed.drain()
    assert seen.values() == [0, 0, 1, 2]


def test_a_partition_that_stops_after_the_growth_stops_no_other(engine: StoreEngine) -> None:
    engine.outbox.log.create_topic("events", partitions=4)
    seen = Seen("bad")
    subscribe(engine.outbox, "g", seen, retry=NEVER, lanes="partition")
    topics.grow(engine.outbox, "events", 8, clock=engine.clock)
    publish(engine, key_in(1), "bad", "behind it")
    engine.outbox.drain()
    publish(engine, key_in(5), "of another partition")
    engine.outbox.drain()
    assert seen.values() == ["bad", "of another partition"]


def test_what_waits_behind_the_growth_still_does_when_its_first_record_is_erased(engine: StoreEngine) -> None:
    engine.outbox.log.create_topic("events", partitions=4)
    seen, key = Seen(0), key_in(5)
    subscribe(engine.outbox, "g", seen, retry=LATER)
    publish(engine, key, 0)
    engine.outbox.drain()
    topics.grow(engine.outbox, "events", 8, clock=engine.clock)
    publish(engine, key, 1, owner="ann")
    publish(engine, key, 2)
    engine.outbox.drain()
    erase(engine.outbox, "ann", clock=engine.clock)
    engine.outbox.drain()
    assert seen.values() == [0]
    seen.failing.clear()
    engine.clock.advance(timedelta(seconds=11))
    engine.outbox.drain()
    assert seen.values() == [0, 0, 2]


def test_a_reset_of_the_former_partition_closes_the_one_that_took_its_keys_over(engine: StoreEngine) -> None:
    engine.outbox.log.create_topic("events", partitions=4)
    seen, key = Seen(), key_in(5)
    subscribe(engine.outbox, "g", seen)
    publish(engine, key, 0, 1)
    engine.outbox.drain()
    topics.grow(engine.outbox, "events", 8, clock=engine.clock)
    publish(engine, key, 2)
    engine.another().drain()  # it has no handlers: that is only sequenced
    with closing(engine.database()) as database:
        member = Member(database, ClusterSettings.load(), engine.clock)
        member.join()
        topic = engine.outbox.log.topic("events")
        store = GroupStore(engine.outbox.store, engine.clock, group="g", topic=topic, owner=member.id)
        assert store.take(member.living)[5].barrier.is_open
        reset(engine.outbox, "g", topic="events", to="earliest", partition=1, clock=engine.clock)
        assert store.owned() == {}, "its owner would hand out 2 before 0 and 1 have come again"
        assert not store.take(member.living)[5].barrier.is_open
        store.release([1, 5])
        member.leave()
    engine.outbox.drain()
    assert seen.values() == [0, 1, 0, 1, 2]


def test_growing_to_the_same_count_shuts_nobody_out(engine: StoreEngine) -> None:
    engine.outbox.log.create_topic("events", partitions=4)
    with closing(engine.database()) as database:
        before = database.look(lambda tx: tx.rows("database", "schema_read"))
        topics.grow(engine.outbox, "events", 4, clock=engine.clock)
        assert database.look(lambda tx: tx.rows("database", "schema_read")) == before
