"""Outbox topics are Kafka topics, and what Kafka clients write reaches handlers."""

import time
from contextlib import closing
from typing import Any

import pytest

from penstock import Outbox, Record
from penstock.model.partition import partition_of
from tests.kafka.served import Served
from tests.kafka.test_confluent import SECONDS, consumer, from_start, producer, read

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")


@pytest.fixture
def outbox(served: Served) -> Outbox:
    """Give the outbox of a store that has one."""
    if served.url.startswith("file:"):
        pytest.skip("a log in files has no outbox of its own")
    return Outbox(served.store)


def test_an_event_is_read_as_a_cloud_event(served: Served, outbox: Outbox) -> None:
    with outbox.transaction() as conn:
        id = outbox.publish(conn, "order.placed", {"order": "o-1"}, key="o-1", headers={"tenant": "a"}, topic="events")
    outbox.drain()
    served.broker.topics.refresh()
    with closing(consumer(served)) as reader:
        (found,) = read(from_start(reader, "events", 256), 1)
    headers = {name: value.decode() for name, value in found.headers()}
    assert found.key() == b"o-1"
    assert found.value() == b'{"order":"o-1"}'
    assert found.partition() == partition_of("o-1", 256)
    assert (headers["ce_id"], headers["ce_type"], headers["tenant"]) == (id, "order.placed", "a")
    assert {"ce_specversion", "ce_source"} <= headers.keys()


def test_a_waiting_client_hears_of_an_event_soon_after_its_commit(served: Served, outbox: Outbox) -> None:
    served.topic("events", 1, "murmur3")
    with closing(consumer(served, **{"fetch.wait.max.ms": 20_000})) as reader:
        from_start(reader, "events", 1)
        reader.consume(1, 0.5)
        with outbox.transaction() as conn:
            outbox.publish(conn, "a", 1)
        begun = time.monotonic()
        outbox.drain()
        assert read(reader, 1)[0].value() == b"1"
        assert time.monotonic() - begun < 15


def test_what_a_client_writes_reaches_handlers(served: Served) -> None:
    outbox = Outbox(served.store)
    served.topic("orders", 4)
    seen: list[Record] = []
    outbox.handler(None, group="all", topic="orders")(seen.append)
    out = producer(served)
    out.produce("orders", b'{"n":1}', b"k", headers=[("ce_type", b"order.placed"), ("ce_id", b"id-1")])
    out.produce("orders", b"\xff", b"\xffk")
    out.produce("orders", None, b"gone")
    assert out.flush(SECONDS) == 0
    outbox.drain()
    by_key = {each.key: each for each in seen}
    assert (by_key["k"].type, by_key["k"].id, by_key["k"].value) == ("order.placed", "id-1", {"n": 1})
    assert by_key["gone"].data is None
    assert len(seen) == 3
    assert len({each.id for each in seen}) == 3


def test_a_key_in_a_foreign_partition_is_refused_with_the_remedy(served: Served) -> None:
    served.topic("events", 8, "murmur3")
    own = partition_of("k", 8)
    errors: list[Any] = []
    out = producer(served)
    out.produce("events", b"x", "k", partition=(own + 1) % 8, on_delivery=lambda error, _: errors.append(error))
    assert out.flush(SECONDS) == 0
    assert errors[0].name() == "INVALID_RECORD"
    errors.clear()
    out.produce("events", b"x", "k", partition=own, on_delivery=lambda error, _: errors.append(error))
    out.produce("events", b"no key", partition=3, on_delivery=lambda error, _: errors.append(error))
    assert out.flush(SECONDS) == 0
    assert errors == [None, None]


def test_a_key_is_refused_in_its_old_partition_as_soon_as_the_topic_has_grown(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.topic("events", 2, "murmur3")
    key = next(key for key in map(str, range(100)) if partition_of(key, 8) != partition_of(key, 2))
    errors: list[Any] = []
    out = producer(served)

    def sent(partitions: int) -> Any:
        where = partition_of(key, partitions)
        out.produce("events", b"x", key, partition=where, on_delivery=lambda error, _: errors.append(error))
        assert out.flush(SECONDS) == 0
        return errors.pop()

    assert sent(2) is None
    monkeypatch.setattr(served.broker.topics, "refresh", lambda: None)  # it has not heard of it yet
    Outbox(served.store).log.grow("events", 8)
    assert sent(2).name() == "INVALID_RECORD"


def test_a_topic_may_allow_foreign_keys(served: Served) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    served.topic("events", 8, "murmur3")
    admin = AdminClient({"bootstrap.servers": served.address})
    entry = ConfigEntry("penstock.foreign.keys", "allowed", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "events", incremental_configs=[entry])
    (changed,) = admin.incremental_alter_configs([resource]).values()
    changed.result(SECONDS)
    errors: list[Any] = []
    out = producer(served)
    for partition in range(8):
        out.produce("events", b"x", "k", partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert out.flush(SECONDS) == 0
    assert errors == [None] * 8


def test_a_group_of_handlers_is_not_taken_for_one_of_clients(served: Served) -> None:
    outbox = Outbox(served.store)
    served.topic("orders", 1)
    outbox.handler(None, group="mailer", id="mail", topic="orders")(lambda record: None)
    outbox.drain()
    with closing(consumer(served, **{"group.id": "mailer"})) as reader:
        reader.subscribe(["orders"])
        end = time.monotonic() + SECONDS
        found = None
        while found is None and time.monotonic() < end:
            message = reader.poll(0.2)
            found = message.error() if message is not None else None
    assert found is not None
    assert found.name() == "INVALID_GROUP_ID"


def test_records_that_handlers_still_need_are_not_deleted_by_a_client(served: Served) -> None:
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient

    outbox = Outbox(served.store)
    served.topic("orders", 1)
    outbox.handler(None, group="mailer", id="mail", topic="orders")(lambda record: None)
    out = producer(served)
    out.produce("orders", b"1")
    out.flush(SECONDS)
    outbox.drain()
    out.produce("orders", b"2")
    out.flush(SECONDS)
    admin = AdminClient({"bootstrap.servers": served.address})
    with pytest.raises(KafkaException) as refused:
        next(iter(admin.delete_records([TopicPartition("orders", 0, 2)]).values())).result(SECONDS)
    assert refused.value.args[0].name() == "POLICY_VIOLATION"
    assert served.store.log.bounds("orders", 0) == (0, 2)


def test_erased_records_are_left_out_and_passed_over(served: Served) -> None:
    """From files batches come as they are stored: there nothing is left of such a record but its place."""
    from penstock.log.contract import Position

    served.topic("orders", 1)
    out = producer(served)
    for number in range(6):
        out.produce("orders", str(number), str(number))
        out.flush(SECONDS)
    topic = served.store.log.topic("orders")
    served.store.log.erase(topic, [Position(0, each) for each in (2, 5)])
    with closing(consumer(served, **{"enable.partition.eof": True})) as reader:
        from_start(reader, "orders", 1)
        found, is_over = [], False
        end = time.monotonic() + SECONDS
        while not is_over and time.monotonic() < end:
            message = reader.poll(0.2)
            if message is None:
                continue
            is_over = message.error() is not None
            if not is_over:
                found.append((message.offset(), message.key(), message.value()))
    assert is_over, "it did not come to the end"
    kept = [(each, str(each).encode(), str(each).encode()) for each in (0, 1, 3, 4)]
    erased = [(each, None, None) for each in (2, 5)] if served.url.startswith("file:") else []
    assert found == sorted([*kept, *erased])
