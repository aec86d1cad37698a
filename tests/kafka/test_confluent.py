"""confluent-kafka, unmodified: produce, consume, groups, transactions, admin."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.kafka.served import Served

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import (  # noqa: E402
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

SECONDS = 30


def producer(served: Served, **config: Any) -> Any:
    return Producer({"bootstrap.servers": served.address, **({"message.timeout.ms": 20_000} | config)})


def consumer(served: Served, **config: Any) -> Any:
    return Consumer(
        {
            "bootstrap.servers": served.address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 100,
            **config,
        }
    )


def send(served: Served, topic: str, values: list[Any], **config: Any) -> list[int]:
    """Produce values and return their offsets."""
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    out = producer(served, **config)
    for each in values:
        out.produce(topic, each, on_delivery=delivered)
    assert out.flush(SECONDS) == 0
    return offsets


def read(reader: Any, count: int) -> list[Any]:
    """Return so many messages."""
    found: list[Any] = []
    end = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < end:
        for each in reader.consume(count - len(found), 0.2):
            assert each.error() is None, each.error()
            found.append(each)
    assert len(found) == count
    return found


def until(holds: Callable[[], bool], *readers: Any) -> None:
    """Poll consumers until something holds."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        for each in readers:
            each.consume(1, 0.05)


@pytest.fixture
def topic(served: Served) -> str:
    return served.topic("t", 4)


@pytest.fixture
def reader(served: Served, topic: str) -> Iterator[Any]:
    with closing(consumer(served)) as opened:
        yield opened


def from_start(reader: Any, topic: str, partitions: int = 4) -> Any:
    reader.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    return reader


# -- records


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_as_it_was(served: Served, topic: str, reader: Any, codec: str) -> None:
    values = [f"{codec} {number} ".encode() * 50 for number in range(200)]
    send(served, topic, values, **{"compression.type": codec, "linger.ms": 20})
    assert sorted(each.value() for each in read(from_start(reader, topic), 200)) == sorted(values)


def test_key_headers_and_time_come_back_as_they_were(served: Served, topic: str, reader: Any) -> None:
    out = producer(served)
    headers = [("a", b"1"), ("a", b"2"), ("none", None), ("empty", b""), ("ü", b"\xff")]
    out.produce(topic, b"v", b"\xffkey", partition=1, headers=headers, timestamp=1_700_000_000_123)
    out.produce(topic, None, b"gone", partition=1)
    out.produce(topic, b"", b"", partition=1)
    assert out.flush(SECONDS) == 0
    first, tombstone, empty = read(from_start(reader, topic), 3)
    assert (first.key(), first.value(), first.headers()) == (b"\xffkey", b"v", headers)
    assert first.timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert (tombstone.key(), tombstone.value()) == (b"gone", None)
    assert (empty.key(), empty.value()) == (b"", b"")


def test_offsets_are_dense_and_told_to_the_producer(served: Served, topic: str) -> None:
    served.topic("one", 1)
    offsets = send(served, "one", [b"x"] * 500, acks="all")
    assert offsets == list(range(500))
    assert served.store.log.bounds("one", 0) == (0, 500)


def test_seek_by_time_finds_the_first_record_at_or_after_it(served: Served, reader: Any) -> None:
    served.topic("timed", 1)
    out = producer(served)
    for number in range(100):
        out.produce("timed", str(number), timestamp=1_700_000_000_000 + number * 1000)
    assert out.flush(SECONDS) == 0
    (found,) = reader.offsets_for_times([TopicPartition("timed", 0, 1_700_000_050_500)], SECONDS)
    assert found.offset == 51
    (none,) = reader.offsets_for_times([TopicPartition("timed", 0, 1_900_000_000_000)], SECONDS)
    assert none.offset == -1
    assert reader.get_watermark_offsets(TopicPartition("timed", 0), SECONDS) == (0, 100)
    reader.assign([TopicPartition("timed", 0, 51)])
    assert read(reader, 1)[0].value() == b"51"


def test_an_offset_out_of_range_starts_over(served: Served, topic: str, reader: Any) -> None:
    served.topic("short", 1)
    send(served, "short", [b"a", b"b"])
    reader.assign([TopicPartition("short", 0, 1000)])
    assert [each.value() for each in read(reader, 2)] == [b"a", b"b"]


def test_a_waiting_fetch_is_woken_by_a_record(served: Served) -> None:
    topic = served.topic("one", 1)  # of several partitions a client waits for the first it knows
    with closing(consumer(served, **{"fetch.wait.max.ms": 20_000})) as waiting:
        from_start(waiting, topic, 1)
        waiting.consume(1, 0.5)
        begun = time.monotonic()
        send(served, topic, [b"now"])
        assert read(waiting, 1)[0].value() == b"now"
        assert time.monotonic() - begun < 15  # far less than the fetch waits


def test_a_message_above_the_limit_is_refused_and_the_next_is_taken(kafka_url: str) -> None:
    with Served(kafka_url, batch_bytes=200_000) as served:
        served.topic("t", 1)
        out = producer(served, **{"message.max.bytes": 5_000_000})
        errors: list[Any] = []
        out.produce("t", b"x" * 1_000_000, on_delivery=lambda error, _: errors.append(error))
        assert out.flush(SECONDS) == 0
        is_opaque = kafka_url.startswith("file")  # batches in files are not opened: frame_bytes bounds them
        assert is_opaque or errors[0].name() == "MSG_SIZE_TOO_LARGE"
        assert send(served, "t", [b"small"])


# -- idempotent producers and transactions


def test_an_idempotent_producer_keeps_order_and_doubles_nothing(served: Served, reader: Any) -> None:
    served.topic("once", 1)
    send(served, "once", [str(number) for number in range(2000)], **{"enable.idempotence": True, "linger.ms": 1})
    found = read(from_start(reader, "once", 1), 2000)
    assert [int(each.value()) for each in found] == list(range(2000))


def transactional(served: Served, id: str = "tx", timeout_ms: int = 20_000) -> Any:
    config = {"transactional.id": id, "transaction.timeout.ms": timeout_ms, "linger.ms": 1}
    made = producer(served, **config, **{"message.timeout.ms": timeout_ms})
    made.init_transactions(SECONDS)
    return made


def committed_only(served: Served, topic: str) -> Any:
    return from_start(consumer(served, **{"isolation.level": "read_committed"}), topic, 1)


def test_what_is_aborted_is_never_seen_and_what_is_committed_is(served: Served) -> None:
    served.topic("tx", 1)
    out = transactional(served)
    for number in range(6):
        out.begin_transaction()
        for part in range(3):
            out.produce("tx", f"{number}-{part}")
        out.flush(SECONDS)  # else an abort would take back what was never sent
        out.commit_transaction(SECONDS) if number % 2 else out.abort_transaction(SECONDS)
    with closing(committed_only(served, "tx")) as reader:
        assert [each.value().decode() for each in read(reader, 9)] == [
            f"{number}-{part}" for number in (1, 3, 5) for part in range(3)
        ]
    values = [each.data for each in served.store.log.read("tx", 0)]
    assert len(values) == 9  # handlers and pipelines see the same


def test_open_records_are_not_seen_until_the_commit(served: Served) -> None:
    served.topic("tx", 1)
    out = transactional(served)
    out.begin_transaction()
    out.produce("tx", b"hidden")
    out.flush(SECONDS)
    send(served, "tx", [b"plain"])
    with closing(committed_only(served, "tx")) as reader:
        before = [each.value() for each in reader.consume(2, 0.7)]
        assert b"hidden" not in before
        out.commit_transaction(SECONDS)
        after = [each.value() for each in read(reader, 2 - len(before))]
        assert sorted(before + after) == [b"hidden", b"plain"]


def test_a_newer_producer_fences_the_older_one(served: Served) -> None:
    served.topic("tx", 1)
    older = transactional(served)
    older.begin_transaction()
    older.produce("tx", b"lost")
    older.flush(SECONDS)
    newer = transactional(served)
    with pytest.raises(KafkaException) as refused:
        older.commit_transaction(SECONDS)
    assert refused.value.args[0].name() == "_FENCED"
    newer.begin_transaction()
    newer.produce("tx", b"kept")
    newer.commit_transaction(SECONDS)
    assert [each.data for each in served.store.log.read("tx", 0)] == [b"kept"]


def test_a_transaction_that_takes_too_long_is_taken_back(served: Served) -> None:
    served.topic("tx", 1)
    out = transactional(served, timeout_ms=1000)
    out.begin_transaction()
    out.produce("tx", b"late")
    out.flush(SECONDS)
    database = served.store.database

    def is_over() -> bool:
        rows = database.look(lambda tx: tx.rows("log", "kafka_transactions", now_ms=None))
        return bool(rows[0][2] == "aborted")

    until(is_over)
    with pytest.raises(KafkaException):
        out.commit_transaction(SECONDS)
    assert served.store.log.read("tx", 0) == []


def test_consumed_offsets_and_records_commit_together(served: Served, topic: str) -> None:
    served.topic("out", 1)
    send(served, topic, [str(number) for number in range(100)])
    out = transactional(served)
    with closing(consumer(served, **{"isolation.level": "read_committed"})) as reader:
        reader.subscribe([topic])
        done, aborted = 0, False
        while done < 100:
            messages = [each for each in reader.consume(20, 1.0) if each.error() is None]
            if not messages:
                continue
            out.begin_transaction()
            for each in messages:
                out.produce("out", each.value())
            positions = reader.position(reader.assignment())
            out.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), SECONDS)
            if done >= 40 and not aborted:
                aborted = True
                out.abort_transaction(SECONDS)
                for place in reader.committed(reader.assignment(), SECONDS):
                    reader.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
                continue
            out.commit_transaction(SECONDS)
            done += len(messages)
        assert sum(max(each.offset, 0) for each in reader.committed(reader.assignment(), SECONDS)) == 100
    values = sorted(int(each.data or b"") for each in served.store.log.read("out", 0, limit=1000))
    assert values == list(range(100))


# -- groups


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_and_take_over(served: Served, topic: str, strategy: str) -> None:
    config = {"partition.assignment.strategy": strategy, "group.id": strategy}
    with closing(consumer(served, **config)) as first:
        first.subscribe([topic])
        until(lambda: len(first.assignment()) == 4, first)
        second = consumer(served, **config)
        second.subscribe([topic])
        until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
        second.close()
        until(lambda: len(first.assignment()) == 4, first)


def test_a_group_goes_on_where_it_committed(served: Served, topic: str) -> None:
    send(served, topic, [str(number) for number in range(100)])
    with closing(consumer(served)) as reader:
        reader.subscribe([topic])
        first = read(reader, 60)
        reader.commit(asynchronous=False)
    with closing(consumer(served)) as reader:
        reader.subscribe([topic])
        rest = read(reader, 40)
    assert len({each.value() for each in first + rest}) == 100


def test_a_restarted_broker_knows_its_groups_without_a_rebalance(kafka_url: str) -> None:
    with Served(kafka_url) as served:
        served.topic("t", 2)
        port = served.port
        reader = consumer(served, **{"group.instance.id": "i-1"})
        reader.subscribe(["t"])
        until(lambda: len(reader.assignment()) == 2, reader)
        send(served, "t", [b"before"])
        read(reader, 1)
        reader.commit(asynchronous=False)
        held = served.broker.groups.held["g"].group
        known = held.generation, held.leader
    with Served(kafka_url, port=port) as served, closing(reader):
        send(served, "t", [b"after"])
        assert read(reader, 1)[0].value() == b"after"
        reader.commit(asynchronous=False)
        held = served.broker.groups.held["g"].group
        assert (held.generation, held.leader) == known


def test_a_static_member_that_starts_again_keeps_its_share(served: Served, topic: str) -> None:
    one = consumer(served, **{"group.instance.id": "one"})
    two = consumer(served, **{"group.instance.id": "two"})
    for each in (one, two):
        each.subscribe([topic])
    until(lambda: len(one.assignment()) == len(two.assignment()) == 2, one, two)
    share, generation = sorted(two.assignment()), served.broker.groups.held["g"].group.generation
    two.close()
    again = consumer(served, **{"group.instance.id": "two"})
    again.subscribe([topic])
    until(lambda: len(again.assignment()) == 2, one, again)
    assert sorted(again.assignment()) == share
    assert served.broker.groups.held["g"].group.generation == generation
    one.close()
    again.close()


# -- admin


def test_topics_are_made_described_grown_set_trimmed_and_deleted(served: Served) -> None:
    admin = AdminClient({"bootstrap.servers": served.address})
    made = admin.create_topics([NewTopic("made", 2, 1, config={"retention.ms": "60000"}), NewTopic("default", -1, 1)])
    assert [each.result(SECONDS) for each in made.values()] == [None, None]
    topics = admin.list_topics(timeout=SECONDS).topics
    assert len(topics["made"].partitions) == 2
    assert len(topics["default"].partitions) == 8
    for bad, code in ((NewTopic("made", 2, 1), 36), (NewTopic("b/d", 1, 1), 17), (NewTopic("r", 1, 3), 38)):
        with pytest.raises(KafkaException) as refused:
            next(iter(admin.create_topics([bad]).values())).result(SECONDS)
        assert refused.value.args[0].code() == code
    admin.create_partitions([NewPartitions("made", 4)])["made"].result(SECONDS)
    assert len(admin.list_topics(timeout=SECONDS).topics["made"].partitions) == 4
    resource = ConfigResource(ResourceType.TOPIC, "made")
    (described,) = admin.describe_configs([resource]).values()
    assert described.result(SECONDS)["retention.ms"].value == "60000"
    change = ConfigEntry("retention.ms", "120000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "made", incremental_configs=[change])
    (changed,) = admin.incremental_alter_configs([resource]).values()
    changed.result(SECONDS)
    assert served.store.log.topic("made").keep.age_ms == 120_000
    out = producer(served)
    for number in range(10):
        out.produce("made", str(number), partition=0, timestamp=1_800_000_000_000 + number)
    out.flush(SECONDS)
    (trimmed,) = admin.delete_records([TopicPartition("made", 0, 4)]).values()
    assert trimmed.result(SECONDS).low_watermark == 4
    (offsets,) = admin.list_offsets({TopicPartition("made", 0): OffsetSpec.earliest()}).values()
    assert offsets.result(SECONDS).offset == 4
    (latest,) = admin.list_offsets({TopicPartition("made", 0): OffsetSpec.max_timestamp()}).values()
    assert latest.result(SECONDS).offset == 9
    admin.delete_topics(["made"])["made"].result(SECONDS)
    assert "made" not in admin.list_topics(timeout=SECONDS).topics


def test_groups_are_listed_described_and_deleted(served: Served, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": served.address})
    send(served, topic, [b"x"] * 4)
    reader = consumer(served)
    reader.subscribe([topic])
    read(reader, 4)
    reader.commit(asynchronous=False)
    (listed,) = admin.list_consumer_groups().result(SECONDS).valid
    assert (listed.group_id, listed.state.name) == ("g", "STABLE")
    described = admin.describe_consumer_groups(["g"])["g"].result(SECONDS)
    assert len(described.members[0].assignment.topic_partitions) == 4
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups(["g"])["g"].result(SECONDS)
    assert refused.value.args[0].name() == "NON_EMPTY_GROUP"
    reader.close()
    admin.delete_consumer_groups(["g"])["g"].result(SECONDS)
    assert admin.list_consumer_groups().result(SECONDS).valid == []
    cluster = admin.describe_cluster().result(SECONDS)
    assert len(cluster.nodes) == 1


def test_a_topic_that_is_not_there_is_made_only_where_that_is_set(kafka_url: str) -> None:
    with Served(kafka_url, auto_create=True) as served:
        assert send(served, "new", [b"x"]) == [0]
        assert served.store.log.topic("new").partitioner == "kafka"


def test_auto_creation_is_off(served: Served) -> None:
    at_once = {"message.timeout.ms": 3000, "topic.metadata.propagation.max.ms": 0}
    out, errors = producer(served, **at_once), list[Any]()
    out.produce("nowhere", b"x", on_delivery=lambda error, _: errors.append(error))
    out.flush(SECONDS)
    assert errors[0] is not None
    assert [each.name for each in served.store.log.topics()] == []
