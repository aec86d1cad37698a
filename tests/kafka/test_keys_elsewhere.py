"""A key that a client put where the topic's partitioner would not: `why` and `browse` find what is there."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from penstock import Fixed, Outbox, Record
from penstock.database.database import Transaction
from penstock.database.migrations import migrate
from penstock.log.batches import ALLOWED, FOREIGN_KEYS, Write, WriteResult
from penstock.log.contract import Topic
from penstock.log.store import open_batches, open_store
from penstock.model.partition import KAFKA, MURMUR3, partition_for
from penstock.operate.browse import browse
from penstock.operate.key_course import key_course
from penstock.operate.why import Answer, Code, QuestionKind, finder, why
from penstock.wire.kafka.records import KafkaRecord, encode_records

PARTITIONS = 4
LATER, NEVER = Fixed(timedelta(hours=1), max_retries=3), Fixed(timedelta(hours=1), max_retries=0)


class Placed:
    """A store with one topic, written by batches to partitions of the client's choice."""

    def __init__(self, url: str) -> None:
        self.url, self.store = url, open_store(url)
        migrate(self.store.database)
        self.batches = open_batches(self.store, batch_bytes=1 << 20)
        self.failing: set[str] = set()

    def topic(self, partitioner: str = KAFKA) -> Topic:
        """Make the topic."""
        return self.store.log.create_topic("d", partitions=PARTITIONS, partitioner=partitioner)

    def allow(self, topic: Topic, value: str | None) -> None:
        """Let the topic take foreign keys, or no longer."""

        def put(tx: Transaction) -> None:
            config = {"topic_id": topic.id, "name": FOREIGN_KEYS}
            tx.change("log", "topic_config_delete", **config)
            if value is not None:
                tx.change("log", "topic_config_add", **config, value=value)

        self.store.database.run(put)

    def send(self, topic: Topic, partition: int, *keys: str) -> None:
        """Write a record of each key to a partition, whatever its partitioner says."""
        records = [KafkaRecord(at, 1000 + at, key.encode(), b"1", []) for at, key in enumerate(keys)]
        done, found = Event(), list[WriteResult]()

        def told(results: Sequence[WriteResult]) -> None:
            found.extend(results)
            done.set()

        self.batches.write([Write(topic, partition, encode_records(records))], told)
        assert done.wait(30)
        assert found[0].error is None

    def drain(self, retry: Any = LATER) -> None:
        """Let a group `g` handle all that is there; it fails for some keys."""
        outbox = Outbox(self.url)

        @outbox.handler(None, group="g", topic="d", retry=retry)
        def handle(record: Record) -> None:
            if record.key in self.failing:
                raise ValueError("no")

        outbox.drain()
        outbox.close()

    def why(self, key: str, **options: Any) -> list[Answer]:
        """Ask about a key."""
        return why(self.store, key, kind=QuestionKind.KEY, **options)

    def one(self, key: str, **options: Any) -> Answer:
        """Ask, where there is one answer."""
        (answer,) = self.why(key, **options)
        return answer


@pytest.fixture
def placed(kafka_url: str) -> Iterator[Placed]:
    made = Placed(kafka_url)
    yield made
    made.batches.close()
    made.store.close()


def elsewhere(topic: Topic, key: str) -> int:
    """Return a partition that is not the one of a key."""
    return (own(topic, key) + 1) % PARTITIONS


def own(topic: Topic, key: str) -> int:
    """Return the partition of a key."""
    return partition_for(topic.partitioner, key.encode(), "", PARTITIONS)


@pytest.mark.parametrize("everything", [False, True])
def test_a_key_that_a_client_placed_itself_is_found(placed: Placed, everything: bool) -> None:
    topic = placed.topic()
    where = elsewhere(topic, "k")
    placed.send(topic, where, "k")
    unread = placed.one("k", everything=everything)
    assert (unread.code, unread.place) == (Code.NO_HANDLER, f"d/{where}/0")
    placed.drain()
    done = placed.one("k", everything=everything)
    assert (done.code, done.place, done.group) == (Code.DELIVERED, f"d/{where}/0", "g")
    assert [each.partition for each in key_course(placed.store, "k").records] == [where]


def test_what_waits_of_a_key_in_any_partition_is_told_first(placed: Placed) -> None:
    topic = placed.topic()
    where = elsewhere(topic, "k")
    placed.send(topic, own(topic, "k"), "k")
    placed.drain()
    placed.failing.add("k")
    placed.send(topic, where, "k", "k")
    placed.drain()
    parked = placed.one("k")
    assert (parked.code, parked.place, parked.unsettled) == (Code.PARKED, f"d/{where}/0", 2)
    assert f"1 more record of the key waits behind it, up to d/{where}/1." in parked.also
    placed.send(topic, own(topic, "k"), "k")
    placed.drain()
    both = placed.one("k")
    assert (both.place, both.unsettled) == (f"d/{own(topic, 'k')}/1", 3)
    assert f"2 more records of the key are not settled in d/{where}." in both.also


def test_a_lane_and_a_dead_letter_are_found_however_far_back_their_record_is(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "WALK", 3)
    topic, others = placed.topic(), [f"o-{n}" for n in range(10)]
    where = elsewhere(topic, "k")
    placed.failing.add("k")
    placed.send(topic, where, "k", *others)
    placed.drain()
    assert (placed.one("k").code, placed.one("k").place) == (Code.PARKED, f"d/{where}/0")
    dead = elsewhere(topic, "dead")
    at = placed.store.log.bounds("d", dead).end
    placed.failing.add("dead")
    placed.send(topic, dead, "dead", *others)
    placed.drain(NEVER)
    assert (placed.one("dead").code, placed.one("dead").place) == (Code.HELD, f"d/{dead}/{at}")


def test_a_key_beyond_the_bound_of_another_partition_is_not_said_to_be_unpublished(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "WALK", 3)
    topic = placed.topic()
    where = elsewhere(topic, "k")
    placed.send(topic, where, "k", "a", "b", "c")
    unknown = placed.one("k")
    assert unknown.sentence == "no record of key k is in the part of the log that was searched."
    assert unknown.also == ("only 3 records of each partition were searched; search all with --scan.",)
    assert placed.one("k", everything=True).place == f"d/{where}/0"


@pytest.mark.parametrize("now", [ALLOWED, None], ids=["allowed", "no longer allowed"])
def test_a_foreign_key_of_an_outbox_topic_is_found(placed: Placed, now: str | None) -> None:
    """Also where the topic was made strict again since."""
    topic = placed.topic(MURMUR3)
    placed.allow(topic, ALLOWED)
    where = elsewhere(topic, "k")
    placed.send(topic, where, "k")
    placed.allow(topic, now)
    assert placed.one("k").place == f"d/{where}/0"
    (record,) = placed.store.log.read("d", where)
    assert record.id is not None
    by_id = why(placed.store, record.id, kind=QuestionKind.ID, key="k", everything=True)
    assert by_id[0].place == f"d/{where}/0"


def test_a_key_that_is_nowhere_was_never_published(placed: Placed) -> None:
    placed.send(placed.topic(), 0, "k")
    assert placed.one("another").sentence == (
        "there is no record of key another: it was never published, or was rolled back or cancelled before it was due."
    )


@pytest.mark.parametrize("partitioner", [KAFKA, MURMUR3])
def test_a_page_of_a_key_has_what_stands_elsewhere(placed: Placed, partitioner: str) -> None:
    topic = placed.topic(partitioner)
    own = partition_for(topic.partitioner, b"k", "k", PARTITIONS)
    placed.send(topic, own, "k")
    placed.allow(topic, ALLOWED if partitioner == MURMUR3 else None)
    placed.send(topic, elsewhere(topic, "k"), "another", "k")
    found = [(each.record.partition, each.record.offset) for each in browse(placed.store, "d", key="k").items]
    assert sorted(found) == sorted([(own, 0), (elsewhere(topic, "k"), 1)])
