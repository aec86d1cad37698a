"""What clients say with a commit, and how much they get of a partition."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.wire.kafka.apis.groups import OFFSET_COMMIT, OFFSET_FETCH
from penstock.wire.kafka.apis.records import PRODUCE
from penstock.wire.kafka.apis.topics import CREATE_TOPICS
from penstock.wire.kafka.apis.transactions import TXN_OFFSET_COMMIT
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.record_batch import headers_in
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.kafka.raw import RawClient
from tests.kafka.served import Served
from tests.kafka.test_foreign_producers import ended, opened
from tests.suites.records import a_record


def place(metadata: str | None, epoch: int = -1) -> list[dict[str, Any]]:
    partition = {
        "partition_index": 0,
        "committed_offset": 3,
        "committed_leader_epoch": epoch,
        "committed_metadata": metadata,
    }
    return [{"name": "orders", "partitions": [partition]}]


def committed(client: RawClient, metadata: str | None, epoch: int = -1) -> E:
    said = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    asked = {"group_id": "g", **said, "topics": place(metadata, epoch)}
    return E(client.ask(OFFSET_COMMIT, asked, 7)["topics"][0]["partitions"][0]["error_code"])


def known(client: RawClient) -> tuple[int, int, str]:
    wanted = [{"name": "orders", "partition_indexes": [0]}]
    asked = {"group_id": "g", "topics": wanted, "require_stable": False}
    (found,) = client.ask(OFFSET_FETCH, asked, 7)["topics"][0]["partitions"]
    return found["committed_offset"], found["committed_leader_epoch"], found["metadata"]


def test_a_zero_byte_at_the_end_of_metadata_is_left_out(served: Served) -> None:
    """Confluent's Python client sends the end of a C string along."""
    served.topic("orders")
    with RawClient(served.address) as client:
        assert committed(client, "host-1\0") is E.NONE
        assert known(client) == (3, -1, "host-1")
        assert committed(client, "a\0b") is E.INVALID_REQUEST


def test_confluents_client_commits_metadata_and_gets_it_back(served: Served) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
    served.topic("orders")
    consumer = kafka.Consumer({"bootstrap.servers": served.address, "group.id": "g"})
    try:
        mine = kafka.TopicPartition("orders", 0, 3, metadata="host-1", leader_epoch=2)
        (done,) = consumer.commit(offsets=[mine], asynchronous=False)
        assert done.error is None
        (found,) = consumer.committed([kafka.TopicPartition("orders", 0)], timeout=30)
        assert (found.offset, found.metadata, found.leader_epoch) == (3, "host-1", 2)
    finally:
        consumer.close()


def test_the_leader_epoch_of_a_commit_is_kept(served: Served) -> None:
    served.topic("orders")
    with RawClient(served.address) as client:
        assert committed(client, None, 4) is E.NONE
        assert known(client) == (3, 4, "")
        producer = opened(client, "orders-tx")
        asked = {
            "transactional_id": "orders-tx",
            "group_id": "g",
            **{key: producer[key] for key in ("producer_id", "producer_epoch")},
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": place("in a transaction", 5),
        }
        (topic,) = client.ask(TXN_OFFSET_COMMIT, asked, 3)["topics"]
        assert topic["partitions"][0]["error_code"] == 0
        assert ended(client, "orders-tx", producer) is E.NONE
        assert known(client) == (3, 5, "in a transaction")


def test_the_bound_of_a_topic_for_batches_is_heeded(served: Served) -> None:
    with RawClient(served.address) as client:
        config = {"name": "max.message.bytes", "value": "200"}
        topic = {"name": "little", "num_partitions": 1, "replication_factor": 1, "assignments": []}
        asked = {"topics": [{**topic, "configs": [config]}], "timeout_ms": 5000, "validate_only": False}
        assert client.ask(CREATE_TOPICS, asked, 4)["topics"][0]["error_code"] == 0

        def produced(size: int) -> E:
            records = bytes(encode_records([KafkaRecord(0, 1000, None, b"x" * size, [])]))
            parts = [{"index": 0, "records": records}]
            data = [{"name": "little", "partition_data": parts}]
            said = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data}
            answer = client.ask(PRODUCE, said, 7)["responses"][0]["partition_responses"][0]
            return E(answer["error_code"])

        assert produced(100) is E.NONE
        assert produced(200) is E.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    "size_of", [lambda number: 30, lambda number: 3000, lambda number: 30 + 9000 * (number % 7 == 3)]
)
def test_a_fetch_has_no_more_bytes_than_are_wanted_of_a_partition(
    served: Served, size_of: Callable[[int], int]
) -> None:
    """But for one record, or batch, at least."""
    served.topic("orders")
    topic, offset = served.store.log.topic("orders"), 0
    for number in range(50):  # a batch each, where batches are kept
        served.store.log.append("orders", [a_record(key="k", data=b"x" * size_of(number))])
    while offset < 50:
        fetched = served.batches.fetch(topic, 0, offset, max_bytes=5000, committed=True)
        count = sum(each.record_count for piece in fetched.pieces for _, each in headers_in(piece))
        assert fetched.size <= 5000 or count == 1
        offset += count
