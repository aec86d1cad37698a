"""Idempotent producers by hand: what is sent again is added once, what does not follow is refused."""

import pytest

from penstock.broker.transaction_store import TransactionStore
from penstock.clock import SYSTEM
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
)
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.kafka.raw import RawClient
from tests.kafka.served import Served

OUT_OF_ORDER, OLD_EPOCH, NOT_MAPPED, WRONG_STATE = 45, 47, 49, 48
BEING_ENDED, FENCED = 51, 90


def batch(producer: int, epoch: int, sequence: int, count: int = 2, *, transactional: bool = False) -> bytes:
    records = [KafkaRecord(each, 1, None, f"{sequence + each}".encode(), []) for each in range(count)]
    return bytes(
        encode_records(
            records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
    )


def send(client: RawClient, records: bytes, id: str | None = None) -> tuple[int, int]:
    """Return error and base offset."""
    part = {"index": 0, "records": records}
    asked = {
        "transactional_id": id,
        "acks": -1,
        "timeout_ms": 1000,
        "topic_data": [{"name": "t", "partition_data": [part]}],
    }
    (topic,) = client.ask(PRODUCE, asked, 9)["responses"]
    (answer,) = topic["partition_responses"]
    return answer["error_code"], answer["base_offset"]


@pytest.fixture
def client(served: Served) -> RawClient:
    served.topic("t", 1)
    return RawClient(served.address)


def given(client: RawClient, id: str | None = None) -> tuple[int, int]:
    answer = client.ask(INIT_PRODUCER_ID, {"transactional_id": id, "transaction_timeout_ms": 60_000}, 4)
    assert answer["error_code"] == 0
    return answer["producer_id"], answer["producer_epoch"]


def test_the_last_five_batches_are_known_again(served: Served, client: RawClient) -> None:
    with client:
        producer, epoch = given(client)
        sent = [batch(producer, epoch, each * 2) for each in range(6)]
        assert [send(client, each) for each in sent] == [(0, each * 2) for each in range(6)]
        assert [send(client, each) for each in sent[1:]] == [(0, each * 2) for each in range(1, 6)]
        assert send(client, sent[0])[0] == OUT_OF_ORDER
        assert send(client, batch(producer, epoch, 14))[0] == OUT_OF_ORDER
        assert send(client, batch(producer, epoch, 12)) == (0, 12)
    assert [each.data for each in served.store.log.read("t", 0)] == [b"%d" % each for each in range(14)]


def test_a_later_epoch_ends_the_one_before(served: Served, client: RawClient) -> None:
    with client:
        producer, epoch = given(client)
        assert send(client, batch(producer, epoch, 0)) == (0, 0)
        assert send(client, batch(producer, epoch + 1, 0)) == (0, 2)
        assert send(client, batch(producer, epoch, 2))[0] == OLD_EPOCH
        assert send(client, batch(producer, epoch + 2, 5))[0] == OUT_OF_ORDER


def test_what_was_sent_before_a_restart_is_known_after_it(kafka_url: str) -> None:
    with Served(kafka_url) as served:
        served.topic("t", 1)
        with RawClient(served.address) as client:
            producer, epoch = given(client)
            assert send(client, batch(producer, epoch, 0)) == (0, 0)
    with Served(kafka_url) as served, RawClient(served.address) as client:
        assert send(client, batch(producer, epoch, 0)) == (0, 0)
        assert send(client, batch(producer, epoch, 2)) == (0, 2)
        assert given(client)[0] != producer


def test_a_transaction_goes_on_after_a_restart_and_its_producer_is_not_fenced(kafka_url: str) -> None:
    with Served(kafka_url) as served:
        served.topic("t", 1)
        with RawClient(served.address) as client:
            producer, epoch = given(client, "tx")
            who = {"transactional_id": "tx", "producer_id": producer, "producer_epoch": epoch}
            opened = {f"v3_and_below_{name}": value for name, value in who.items()}
            opened["v3_and_below_topics"] = [{"name": "t", "partitions": [0]}]
            (topic,) = client.ask(ADD_PARTITIONS_TO_TXN, opened, 2)["results_by_topic_v3_and_below"]
            assert topic["results_by_partition"][0]["partition_error_code"] == 0
            assert send(client, batch(producer, epoch, 0, transactional=True), "tx")[0] == 0
    with Served(kafka_url) as served, RawClient(served.address) as client:
        TransactionStore(served.store, served.batches, SYSTEM).abort_late()  # as it does from time to time
        assert send(client, batch(producer, epoch, 2, transactional=True), "tx")[0] == 0
        assert client.ask(ADD_OFFSETS_TO_TXN, who | {"group_id": "g"}, 2)["error_code"] == 0
        place = {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
        offsets = {"group_id": "g", "topics": [{"name": "t", "partitions": [place]}]}
        (topic,) = client.ask(TXN_OFFSET_COMMIT, who | offsets, 2)["topics"]
        assert topic["partitions"][0]["error_code"] == 0
    with Served(kafka_url) as served, RawClient(served.address) as client:
        assert client.ask(END_TXN, who | {"committed": True}, 2)["error_code"] == 0
        assert client.ask(END_TXN, who | {"committed": True}, 2)["error_code"] == 0
        assert [each.data for each in served.store.log.read("t", 0)] == [b"%d" % each for each in range(4)]


def test_who_is_told_of_a_commit_reads_it_at_once(served: Served, client: RawClient) -> None:
    """Also where it has just read to the end, and the broker knows that from memory."""
    part = {"partition": 0, "partition_max_bytes": 1 << 20}
    asked = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 1}

    def is_there(offset: int) -> bool:
        topics = [{"topic": "t", "partitions": [{**part, "fetch_offset": offset}]}]
        (topic,) = client.ask(FETCH, {**asked, "topics": topics}, 11)["responses"]
        return bool(topic["partitions"][0]["records"])

    with client:
        producer, epoch = given(client, "tx")
        who = {"transactional_id": "tx", "producer_id": producer, "producer_epoch": epoch}
        opened = {f"v3_and_below_{name}": value for name, value in who.items()}
        opened["v3_and_below_topics"] = [{"name": "t", "partitions": [0]}]
        for number in range(0, 40, 2):
            _, end = served.store.log.bounds("t", 0)
            assert not is_there(end)
            client.ask(ADD_PARTITIONS_TO_TXN, opened, 2)
            assert send(client, batch(producer, epoch, number, transactional=True), "tx")[0] == 0
            assert client.ask(END_TXN, who | {"committed": True}, 2)["error_code"] == 0
            assert is_there(end)


def test_transactional_records_need_a_transaction(served: Served, client: RawClient) -> None:
    with client:
        producer, epoch = given(client, "tx")
        assert send(client, batch(producer, epoch, 0, transactional=True), "tx")[0] == WRONG_STATE
        assert send(client, batch(producer + 999, 0, 0, transactional=True), "tx")[0] == NOT_MAPPED
        ended = {"transactional_id": "tx", "producer_id": producer, "producer_epoch": epoch, "committed": True}
        assert client.ask(END_TXN, ended, 3)["error_code"] == WRONG_STATE
        again, later = given(client, "tx")
        assert (again, later) == (producer, epoch + 1)
        assert client.ask(END_TXN, ended, 3)["error_code"] == 90
    assert served.store.log.read("t", 0) == []


def test_a_producer_that_asks_for_a_later_epoch_amid_its_transaction_is_not_fenced(
    served: Served, client: RawClient
) -> None:
    """What it left open is taken back first, as Apache Kafka does; meanwhile it is told to ask again."""
    with client:
        producer, epoch = given(client, "tx")
        who = {"transactional_id": "tx", "producer_id": producer, "producer_epoch": epoch}
        opened = {f"v3_and_below_{name}": value for name, value in who.items()}
        client.ask(ADD_PARTITIONS_TO_TXN, opened | {"v3_and_below_topics": [{"name": "t", "partitions": [0]}]}, 2)
        assert send(client, batch(producer, epoch, 0, transactional=True), "tx")[0] == 0
        answers = [client.ask(INIT_PRODUCER_ID, who | {"transaction_timeout_ms": 60_000}, 4)]
        while answers[-1]["error_code"] == BEING_ENDED:
            answers.append(client.ask(INIT_PRODUCER_ID, who | {"transaction_timeout_ms": 60_000}, 4))
        said = answers[-1]
        assert (said["error_code"], said["producer_id"], said["producer_epoch"]) == (0, producer, epoch + 1)
        late = send(client, batch(producer, epoch, 2, transactional=True), "tx")[0]
        assert late in (OLD_EPOCH, WRONG_STATE)
        assert client.ask(INIT_PRODUCER_ID, who | {"transaction_timeout_ms": 60_000}, 4)["error_code"] == FENCED
    assert served.store.log.read("t", 0) == []
