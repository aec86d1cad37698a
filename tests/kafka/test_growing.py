"""A topic grows while Kafka clients write to it: every key keeps its order, and nothing is lost."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from penstock import Outbox, Record
from penstock.database.database import Transaction
from penstock.database.migrations import migrate
from penstock.errors import ForeignPartition, MapChanged
from penstock.log.batches import Write, WriteResult
from penstock.log.contract import Position
from penstock.log.files.batch_log import FileBatchLog
from penstock.log.store import Store, open_batches, open_store
from penstock.log.topics import former_places
from penstock.model.partition import KAFKA, MURMUR3, partition_for, partition_of
from penstock.operate import topics
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.kafka.raw import RawClient
from tests.kafka.served import Served
from tests.kafka.test_confluent import SECONDS, consumer, from_start, read, transactional
from tests.suites.records import a_record

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")

FEW, MANY = 2, 8
KEYS = [f"k-{number}" for number in range(20)]


@pytest.fixture(autouse=True)
def nobody_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """A growth need not wait until members of an older release have heard of it: there is none."""
    monkeypatch.setattr(topics, "wait_until_heard", lambda *_: None)


def grow(served: Served, topic: str, *clients: Any) -> None:
    """Give a topic more partitions, as a client does, and let some clients hear of it."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": served.address})
    admin.create_partitions([NewPartitions(topic, MANY)])[topic].result(SECONDS)
    for each in clients:
        assert len(each.list_topics(topic, SECONDS).topics[topic].partitions) == MANY


def send(out: Any, topic: str, value: str, partitions: int, keys: list[str] = KEYS) -> list[Any]:
    """Send a record of each key to where the topic puts it; return what became of each."""
    told: list[Any] = []
    for key in keys:
        where = partition_of(key, partitions)
        out.produce(topic, value, key, partition=where, on_delivery=lambda error, _: told.append(error))
    assert out.flush(SECONDS) == 0
    return told


def misplaced(served: Served, topic: str, partitioner: str = MURMUR3) -> list[tuple[str, Position]]:
    """Return the records that stand neither where their key is now nor where it was before the growth."""
    found, log = [], served.store.log
    grown = log.topic(topic)
    growths = log.growths(grown)
    for number in range(grown.partitions):
        for record in log.read(topic, number, limit=10_000):
            assert record.key is not None
            assert record.offset is not None
            own = partition_for(partitioner, record.key.encode(), "", grown.partitions)
            before = {place.partition: place.offset for place in former_places(growths, own)}
            if number != own and record.offset >= before.get(number, 0):
                found.append((record.key, Position(number, record.offset)))
    return found


def test_keys_of_an_open_transaction_keep_their_order_over_a_growth(served: Served) -> None:
    outbox, seen = Outbox(served.store), dict[str, list[str]]()
    served.topic("events", FEW, MURMUR3)

    @outbox.handler(None, group="all", topic="events")
    def note(record: Record) -> None:
        assert record.key is not None
        assert record.data is not None
        seen.setdefault(record.key, []).append(record.data.decode())

    outbox.drain()  # the group is there before
    out = transactional(served)
    out.begin_transaction()
    assert send(out, "events", "1", FEW) == [None] * len(KEYS)
    grow(served, "events", out)
    assert send(out, "events", "2", MANY) == [None] * len(KEYS)
    out.commit_transaction(SECONDS)
    outbox.log.append("events", [a_record(key=key, data=b"3") for key in KEYS])
    outbox.drain()
    assert seen == {key: ["1", "2", "3"] for key in KEYS}
    assert misplaced(served, "events") == []
    with closing(consumer(served, **{"isolation.level": "read_committed"})) as reader:
        found = read(from_start(reader, "events", MANY), 3 * len(KEYS))
    assert sorted(each.key().decode() for each in found) == sorted(KEYS * 3)


def test_who_is_told_of_a_commit_reads_a_key_in_its_new_partition_at_once(served: Served) -> None:
    """On files it is in the old one already, below where that one ended."""
    served.topic("events", FEW, MURMUR3)
    key = next(key for key in KEYS if partition_of(key, MANY) != partition_of(key, FEW))
    where = partition_of(key, MANY if served.batches.holds_back else FEW)
    asked: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 1}
    part = {"partition": where, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    asked["topics"] = [{"topic": "events", "partitions": [part]}]

    def is_there(client: RawClient) -> bool:
        (topic,) = client.ask(FETCH, asked, 11)["responses"]
        return bool(topic["partitions"][0]["records"])

    out = transactional(served)
    out.begin_transaction()
    assert send(out, "events", "1", FEW, [key]) == [None]
    grow(served, "events")
    with RawClient(served.address) as client:
        assert not is_there(client)
        out.commit_transaction(SECONDS)
        assert is_there(client)


def test_what_is_taken_back_over_a_growth_is_never_seen_and_holds_up_nobody(served: Served) -> None:
    outbox, seen = Outbox(served.store), list[str]()
    served.topic("events", FEW, MURMUR3)
    outbox.handler(None, group="all", id="all", topic="events")(lambda record: seen.append(record.key or ""))
    outbox.drain()
    out = transactional(served)
    out.begin_transaction()
    assert send(out, "events", "1", FEW) == [None] * len(KEYS)
    grow(served, "events")
    out.abort_transaction(SECONDS)
    outbox.log.append("events", [a_record(key=key) for key in KEYS])
    outbox.drain()
    assert sorted(seen) == sorted(KEYS)


def test_a_transaction_that_goes_on_by_the_old_map_is_to_be_taken_back(served: Served) -> None:
    served.topic("events", FEW, MURMUR3)
    key = next(key for key in KEYS if partition_of(key, MANY) != partition_of(key, FEW))
    out = transactional(served)
    out.begin_transaction()
    assert send(out, "events", "1", FEW, [key]) == [None]
    grow(served, "events", out)
    (error,) = send(out, "events", "2", FEW, [key])
    assert error.name() == "INVALID_RECORD"
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        out.commit_transaction(SECONDS)
    assert (refused.value.args[0].fatal(), refused.value.args[0].txn_requires_abort()) == (False, True)
    out.abort_transaction(SECONDS)
    out.begin_transaction()
    assert send(out, "events", "3", MANY, [key]) == [None]
    out.commit_transaction(SECONDS)
    values = [each.data for number in range(MANY) for each in served.store.log.read("events", number)]
    assert values == [b"3"]


def test_where_clients_place_keys_an_open_transaction_stays_where_it_was_sent(served: Served) -> None:
    """As with Apache Kafka: what is committed is there, all of it, in the partition that was told."""
    served.topic("orders", FEW, KAFKA)
    out = transactional(served)
    out.begin_transaction()
    for key in KEYS:
        where = partition_for(KAFKA, key.encode(), "", FEW)
        out.produce("orders", b"1", key, partition=where)
    assert out.flush(SECONDS) == 0
    grow(served, "orders")
    out.commit_transaction(SECONDS)
    log = served.store.log
    found = {number: [each.key for each in log.read("orders", number)] for number in range(MANY)}
    expected = {
        number: [key for key in KEYS if partition_for(KAFKA, key.encode(), "", FEW) == number] for number in range(MANY)
    }
    assert found == expected


def test_what_a_topic_allows_in_foreign_partitions_stays_there(served: Served) -> None:
    served.topic("events", FEW, MURMUR3)
    topic = served.store.log.topic("events")
    served.store.database.run(
        lambda tx: tx.change(
            "log", "topic_config_add", topic_id=topic.id, name="penstock.foreign.keys", value="allowed"
        )
    )
    out = transactional(served)
    out.begin_transaction()
    told: list[Any] = []
    for key in KEYS:
        out.produce("events", b"1", key, partition=0, on_delivery=lambda error, _: told.append(error))
    assert out.flush(SECONDS) == 0
    assert told == [None] * len(KEYS)
    grow(served, "events")
    out.commit_transaction(SECONDS)
    assert [each.key for each in served.store.log.read("events", 0)] == KEYS


def test_a_batch_of_before_a_growth_that_is_sent_again_is_known(served: Served) -> None:
    """Its answer was lost, say: it is in the log, once, and a refusal would say that it is not."""
    served.topic("events", FEW, MURMUR3)
    key = next(key for key in KEYS if partition_of(key, MANY) != partition_of(key, FEW)).encode()
    where = partition_of(key, FEW)

    def sent(client: RawClient, sequence: int) -> int:
        records = [KafkaRecord(0, 1000, key, b"x", [])]
        batch = encode_records(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
        part = {"index": where, "records": bytes(batch)}
        topic = {"name": "events", "partition_data": [part]}
        asked = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": [topic]}
        (answer,) = client.ask(PRODUCE, asked, 9)["responses"][0]["partition_responses"]
        return int(answer["error_code"])

    with RawClient(served.address) as client:
        assert sent(client, 0) == 0
        grow(served, "events")
        assert sent(client, 0) == 0
        assert sent(client, 1) == ErrorNumber.INVALID_RECORD
    assert served.store.log.bounds("events", where) == (0, 1)


# -- in files, where a batch is looked at before it is its turn


class _Files:
    """A log in files with a topic that grows, written by batches."""

    def __init__(self, folder: Path) -> None:
        self.store: Store = open_store(f"{folder}/")
        migrate(self.store.database)
        self.batches = open_batches(self.store, batch_bytes=1 << 20)
        self.topic = self.store.log.create_topic("events", partitions=FEW)
        self.key = next(key for key in KEYS if partition_of(key, MANY) != partition_of(key, FEW))

    def send(self, partitions: int) -> "Written":
        batch = encode_records([KafkaRecord(0, 1000, self.key.encode(), b"x", [])])
        written = Written()
        write = Write(self.topic, partition_of(self.key, partitions), batch)
        self.batches.write([write], written)
        return written


class Written:
    """What became of one write, once it is known."""

    def __init__(self) -> None:
        self._done, self._found = Event(), list[WriteResult]()

    def __call__(self, results: Any) -> None:
        self._found.extend(results)
        self._done.set()

    @property
    def error(self) -> Exception | None:
        assert self._done.wait(SECONDS)
        return self._found[0].error


@pytest.fixture
def files(tmp_path: Path) -> Iterator[_Files]:
    made = _Files(tmp_path / "log")
    yield made
    made.store.close()


def test_a_batch_that_was_looked_at_before_a_growth_is_not_written_after_it(
    files: _Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = FileBatchLog._foreign

    def grow_then(self: FileBatchLog, *arguments: Any) -> Any:
        found = look(self, *arguments)
        topics.grow(files.store, "events", MANY)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(FileBatchLog, "_foreign", grow_then)
        assert isinstance(files.send(FEW).error, MapChanged)
    assert isinstance(files.send(FEW).error, ForeignPartition)


def test_a_batch_that_comes_while_a_topic_grows_is_looked_at_by_the_new_map(files: _Files) -> None:
    store = files.store
    with ThreadPoolExecutor(1) as other:

        def change(tx: Transaction) -> "Future[Written]":
            store.log_in(tx).grow("events", MANY)
            sent = other.submit(files.send, FEW)
            wait([sent], 0.5)  # where it need not wait for the growth it is written by now
            return sent

        written = store.database.run(change).result(SECONDS)
    assert isinstance(written.error, ForeignPartition)
    files.topic = store.log.topic("events")
    assert files.send(MANY).error is None
