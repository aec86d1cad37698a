"""A producer's id in another's hands: no transaction is entered, and nothing is lost in silence."""

from typing import Any

import pytest

from penstock.wire.kafka import record_batch
from penstock.wire.kafka.apis.records import PRODUCE
from penstock.wire.kafka.apis.transactions import ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.kafka.raw import RawClient
from tests.kafka.served import Served

NOW_MS = 1_700_000_000_000


def a_batch(value: bytes, producer: Any, sequence: int, *, in_transaction: bool, time_ms: int = NOW_MS) -> bytes:
    records = encode_records([KafkaRecord(0, time_ms, b"k", value, [])])
    header = record_batch.read_header(records)._replace(
        producer_id=producer["producer_id"],
        producer_epoch=producer["producer_epoch"],
        base_sequence=sequence,
        attributes=0x10 if in_transaction else 0,
    )
    return bytes(record_batch.sealed(header, bytes(records[record_batch.HEADER_BYTES :])))


def produce(client: RawClient, batch: bytes, name: str | None = None) -> tuple[E, int]:
    parts = [{"index": 0, "records": batch}]
    asked = {
        "transactional_id": name,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"name": "orders", "partition_data": parts}],
    }
    (answer,) = client.ask(PRODUCE, asked, 7)["responses"][0]["partition_responses"]
    return E(answer["error_code"]), answer["base_offset"]


def begun(client: RawClient, name: str | None) -> Any:
    asked = {"transactional_id": name, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    return client.ask(INIT_PRODUCER_ID, asked, 3)


def opened(client: RawClient, name: str) -> Any:
    producer = begun(client, name)
    asked = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": producer["producer_id"],
        "v3_and_below_producer_epoch": producer["producer_epoch"],
        "v3_and_below_topics": [{"name": "orders", "partitions": [0]}],
    }
    (answer,) = client.ask(ADD_PARTITIONS_TO_TXN, asked, 3)["results_by_topic_v3_and_below"]
    assert answer["results_by_partition"][0]["partition_error_code"] == 0
    return producer


def ended(client: RawClient, name: str, producer: Any) -> E:
    ids = {"producer_id": producer["producer_id"], "producer_epoch": producer["producer_epoch"]}
    return E(client.ask(END_TXN, {"transactional_id": name, **ids, "committed": True}, 3)["error_code"])


def values(served: Served) -> list[bytes | None]:
    return [each.data for each in served.store.log.read("orders", 0)]


@pytest.mark.parametrize("open_before", [True, False], ids=["open", "not-begun"])
def test_nobody_enters_a_transaction_without_its_name(served: Served, open_before: bool) -> None:
    served.topic("orders")
    with RawClient(served.address) as victim, RawClient(served.address) as other:
        producer = opened(victim, "orders-tx")
        opened(other, "other-tx")
        sent = int(open_before)
        if open_before:
            first = a_batch(b"own-0", producer, 0, in_transaction=True)
            assert produce(victim, first, "orders-tx")[0] is E.NONE
        foreign = a_batch(b"foreign", producer, sent, in_transaction=True)
        assert produce(other, foreign)[0] is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert produce(other, foreign, "other-tx")[0] is E.INVALID_TXN_STATE
        if open_before:
            outside = a_batch(b"foreign", producer, sent, in_transaction=False)
            assert produce(other, outside)[0] is E.INVALID_TXN_STATE
        own = a_batch(b"own-1", producer, sent, in_transaction=True)
        assert produce(victim, own, "orders-tx")[0] is E.NONE
        assert ended(victim, "orders-tx", producer) is E.NONE
    assert values(served) == ([b"own-0", b"own-1"] if open_before else [b"own-1"])


def test_nobody_commits_offsets_in_a_transaction_without_its_name(served: Served) -> None:
    served.topic("orders")
    with RawClient(served.address) as victim, RawClient(served.address) as other:
        producer = opened(victim, "orders-tx")
        opened(other, "other-tx")
        place = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}
        asked = {
            "transactional_id": "other-tx",
            "group_id": "readers",
            "producer_id": producer["producer_id"],
            "producer_epoch": producer["producer_epoch"],
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": "orders", "partitions": [{**place, "committed_metadata": None}]}],
        }
        (topic,) = other.ask(TXN_OFFSET_COMMIT, asked, 3)["topics"]
        assert E(topic["partitions"][0]["error_code"]) is E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("time_ms", [NOW_MS, -1], ids=["timed", "untimed"])
def test_a_producer_whose_place_was_taken_hears_of_it(served: Served, time_ms: int) -> None:
    served.topic("orders")
    with RawClient(served.address) as victim, RawClient(served.address) as other:
        producer = begun(victim, None)

        def batch(value: bytes, sequence: int) -> bytes:
            return a_batch(value, producer, sequence, in_transaction=False, time_ms=time_ms)

        assert produce(victim, batch(b"own-0", 0)) == (E.NONE, 0)
        assert produce(other, batch(b"foreign", 1)) == (E.NONE, 1)
        assert produce(victim, batch(b"own-1", 1))[0] is E.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert produce(victim, batch(b"own-0", 0)) == (E.NONE, 0)  # sent again, as clients do
        assert produce(other, batch(b"foreign", 1)) == (E.NONE, 1)
    assert values(served) == [b"own-0", b"foreign"]


def test_producer_ids_cannot_be_guessed(served: Served) -> None:
    with RawClient(served.address) as client:
        ids = sorted(begun(client, name)["producer_id"] for name in ("a", "b", None, None))
    assert len(set(ids)) == len(ids)
    assert ids[-1] - ids[0] > 1 << 40  # four draws of 63 bits are nearer by chance once in 2^67 runs
