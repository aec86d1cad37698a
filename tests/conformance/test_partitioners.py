"""Publishing to topics that have another partitioner than ours: what is stored with the topic decides."""

from datetime import timedelta
from typing import Any

import pytest

from penstock import points
from penstock.log.contract import Log
from penstock.log.entry import key_bytes
from penstock.membership.member import ClusterSettings, Member
from penstock.model.partition import KAFKA, MURMUR3, partition_for
from penstock.model.record import Record
from penstock.operate.erase import erase
from penstock.operate.why import Code, why
from penstock.outbox.sequencer import Sequencer, SequencerSettings
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import Seen, subscribe

PARTITIONS = 7
KEYS = [f"order-{number}" for number in range(40)] + ["ü", "a" * 255]


def all_of(log: Log, topic: str) -> list[Record]:
    """Return the records of a topic, by partition and offset."""
    return [record for number in range(log.topic(topic).partitions) for record in log.read(topic, number, limit=10_000)]


def place(record: Record, partitioner: str) -> int:
    """Return where a partitioner puts a record."""
    return partition_for(partitioner, key_bytes(record.key), record.id, PARTITIONS)


def publish(engine: StoreEngine, topic: str, *values: Any, **options: Any) -> None:
    """Publish each value under every key, and once without one."""
    with engine.connect() as conn:
        for value in values:
            for key in (*KEYS, None):
                engine.outbox.publish(conn, "t", value, key=key, topic=topic, **options)
        conn.commit()


def _erase(engine: StoreEngine) -> None:
    assert erase(engine.outbox, "me", clock=engine.clock).staged == 1


def test_the_partitioners_differ() -> None:
    """Else nothing below would say anything."""
    places = [[partition_for(each, key.encode(), "", PARTITIONS) for key in KEYS] for each in (MURMUR3, KAFKA)]
    assert sum(ours != theirs for ours, theirs in zip(*places, strict=True)) > len(KEYS) // 2


def test_what_is_published_goes_where_the_topics_partitioner_puts_it(engine: StoreEngine) -> None:
    """Staged and scheduled, with a key and without; each key in its order."""
    log = engine.outbox.log
    log.create_topic("events", partitions=PARTITIONS, partitioner=KAFKA)
    publish(engine, "events", 3, at=timedelta(seconds=1))
    publish(engine, "events", 1, 2)
    engine.outbox.drain()
    engine.clock.advance(timedelta(seconds=1))
    engine.outbox.drain()
    found = all_of(log, "events")
    assert len(found) == 3 * (len(KEYS) + 1)
    for record in found:
        assert record.partition == place(record, KAFKA)
    for key in KEYS:
        assert [record.value for record in found if record.key == key] == [1, 2, 3]


def test_topics_of_both_kinds_are_moved_in_one_pass(engine: StoreEngine) -> None:
    log = engine.outbox.log
    log.create_topic("ours", partitions=PARTITIONS)
    log.create_topic("theirs", partitions=PARTITIONS, partitioner=KAFKA)
    for topic in ("theirs", "ours", "new"):
        publish(engine, topic, 1, 2)
    moved = engine.outbox.drain().sequenced
    assert moved == 6 * (len(KEYS) + 1)
    for topic, partitioner in (("ours", MURMUR3), ("theirs", KAFKA)):
        for record in all_of(log, topic):
            assert record.partition == place(record, partitioner)
    assert len(all_of(log, "new")) == 2 * (len(KEYS) + 1)
    for topic in ("ours", "theirs", "new"):
        found = all_of(log, topic)
        assert all([record.value for record in found if record.key == key] == [1, 2] for key in KEYS)


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_what_is_erased_after_the_pick_is_not_moved(engine: StoreEngine) -> None:
    """Rows of such a topic are inserted and removed by their ids: the log gets none that is gone, and no hole."""
    log = engine.outbox.log
    log.create_topic("events", partitions=1, partitioner=KAFKA)
    with engine.connect() as conn:
        for value in (1, 2, 3):
            engine.outbox.publish(conn, "t", value, key="k", topic="events", owner="me" if value == 2 else None)
        conn.commit()
    points.arm("sequencer.after_pick", lambda: _erase(engine))
    assert engine.outbox.drain().sequenced == 2
    assert [(record.offset, record.value) for record in all_of(log, "events")] == [(0, 1), (1, 3)]


def test_a_topic_that_is_made_anew_has_its_new_partitioner_at_once(engine: StoreEngine) -> None:
    """Also for a sequencer that has just moved to the one of that name before."""
    log, store = engine.outbox.log, engine.outbox.store
    member = Member(store.database, ClusterSettings(), engine.clock)
    member.join()
    member.take()
    sequencer = Sequencer(store, SequencerSettings(), engine.clock)
    for partitioner in (MURMUR3, KAFKA, MURMUR3):
        log.create_topic("events", partitions=PARTITIONS, partitioner=partitioner)
        publish(engine, "events", 1)
        while sequencer.sequence(member.fence).moved:
            pass
        found = all_of(log, "events")
        assert len(found) == len(KEYS) + 1
        assert all(record.partition == place(record, partitioner) for record in found)
        log.delete_topic("events")
    member.leave()


@pytest.mark.parametrize("partitioner", [MURMUR3, KAFKA])
def test_handlers_and_why_find_a_key_where_it_is(engine: StoreEngine, partitioner: str) -> None:
    engine.outbox.log.create_topic("events", partitions=PARTITIONS, partitioner=partitioner)
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish(engine, "events", 1, 2)
    engine.outbox.drain()
    assert sorted(seen.values()) == sorted([1, 2] * (len(KEYS) + 1))
    for key in ("order-1", "order-2", "ü"):
        (answer,) = why(engine.outbox, key, clock=engine.clock)
        assert answer.code is Code.DELIVERED
        number = partition_for(partitioner, key.encode(), "", PARTITIONS)
        assert str(answer.place).startswith(f"events/{number}/")
