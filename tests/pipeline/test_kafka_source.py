"""A topic of a Kafka cluster as a source: the same columns, the same tables, each record once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.database.naming import Names
from penstock.errors import (
    AnotherLog,
    HistoryTakenBack,
    InvalidUrl,
    RecordsRemoved,
    StoreError,
    StoreUnreachable,
    StoreUnsupported,
    UnknownTopic,
)
from penstock.log.contract import Keep
from penstock.operate.retention import retain
from penstock.pipeline import history
from penstock.pipeline.backfill import TopicRecords
from penstock.pipeline.lake.modes import Mode, lake_rows
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.offsets import Piece, Range
from penstock.pipeline.source import kafka_view
from penstock.pipeline.source.batch import BatchReader
from penstock.pipeline.source.data_source import PenstockSource
from penstock.pipeline.source.fetch.contract import Request
from penstock.pipeline.source.fetch.kafka import KafkaFetcher
from penstock.pipeline.source.kafka_topic import KafkaTopicReader
from penstock.pipeline.source.options import read_options
from penstock.pipeline.source.stream import StreamReader
from penstock.wire.kafka.record_batch import place_batch
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.kafka.served import Served
from tests.pipeline.conftest import Command
from tests.pipeline.test_continue import Driver, places
from tests.pipeline.test_source import read_all
from tests.pipeline.test_write_back import spark_type

PARTITIONS = 4


class KafkaStore:
    """A served log, seen through its port alone."""

    def __init__(self, served: Served) -> None:
        self.served, self.url = served, f"kafka://{served.address}"
        self._sent = 0

    def fill(self, many: int, topic: str = "orders", **settings: Any) -> None:
        """Send records as another program does."""
        producer = Producer({"bootstrap.servers": self.served.address, **settings})
        for n in range(self._sent, self._sent + many):
            headers: list[Any] = [("ce_type", ("placed", "paid")[n % 2])]
            headers += [("ce_id", f"e-{n}")] if n % 3 else [("h", b"1")]
            producer.produce(topic, f"v-{n}", f"k-{n % 9}", headers=headers, timestamp=1_000 + n)
        producer.flush(30)
        self._sent += many

    def options(self, **given: str) -> Any:
        return read_options({"url": self.url, "topic": "orders"} | given)

    def rows(self, **given: str) -> list[dict[str, Any]]:
        reader = BatchReader(self.options(**given))
        return read_all(reader, reader.partitions())


@pytest.fixture(params=["directory", "database"])
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaStore]:
    """Give a topic behind the Kafka port, on files and on a database."""
    url = f"file://{tmp_path}/log" if request.param == "directory" else f"sqlite:///{tmp_path}/shop.db"
    with Served(url) as served:
        served.topic("orders", PARTITIONS)
        yield KafkaStore(served)


def test_a_cluster_gives_the_columns_that_the_log_gives(kafka: KafkaStore) -> None:
    kafka.fill(300, **{"compression.type": "zstd"})
    found = kafka.rows()
    assert sorted(int(row["value"].decode()[2:]) for row in found) == list(range(300))
    log = kafka.served.store.log
    for row in found:
        (record,) = log.read("orders", row["partition"], row["offset"], 1)
        assert (row["key"], row["value"]) == ((record.key or "").encode(), record.data)
        assert (row["topic"], row["timestamp"]) == ("orders", record.timestamp_ms * 1000)
        assert (row["type"] or None) == (record.type or None)
    assert {row["type"] for row in found if row["value"] == b"v-4"} == {"placed"}


def test_offsets_and_times_cut_a_range(kafka: KafkaStore) -> None:
    kafka.fill(100)
    end = kafka.served.store.log.bounds("orders", 1).end
    some = kafka.rows(startingOffsets='{"orders": {"1": 3, "0": -1, "2": -1, "3": -1}}')
    assert sorted(row["offset"] for row in some) == list(range(3, end))
    late = kafka.rows(startingTimestamp="1060")
    assert {row["value"] for row in late} >= {f"v-{n}".encode() for n in range(60, 100)}


def test_tables_of_a_cluster_hold_each_record_once_and_go_on(kafka: KafkaStore, tmp_path: Path) -> None:
    kafka.fill(100)
    to = tmp_path / "lake"
    Driver(kafka, to, tmp_path / "one").step()  # type: ignore[arg-type]
    kafka.fill(50)
    assert Driver(kafka, to, tmp_path / "two").step().count() == 50  # type: ignore[arg-type]
    log = kafka.served.store.log
    wanted = [(p, offset) for p in range(PARTITIONS) for offset in range(log.bounds("orders", p).end)]
    assert places(to) == sorted(wanted)


def test_records_that_say_no_type_have_a_table_named_after_their_topic(kafka: KafkaStore, tmp_path: Path) -> None:
    kafka.fill(20)
    producer = Producer({"bootstrap.servers": kafka.served.address})
    for n in range(7):
        producer.produce("orders", f"plain-{n}", f"k-{n}")
    producer.flush(30)
    driver = Driver(kafka, tmp_path / "lake", tmp_path / "one")  # type: ignore[arg-type]
    driver.sink.options = {**driver.sink.options, **lake_rows(None, Mode(), tmp_path / "lake")[1]}  # type: ignore[arg-type]
    driver.step()
    assert {each.name for each in tables_in(tmp_path / "lake")} == {"placed", "paid", "orders"}
    assert len(places(tmp_path / "lake")) == 27


def test_what_was_taken_back_is_not_read(kafka: KafkaStore) -> None:
    kafka.fill(10)
    for commits in (False, True, False):
        producer = Producer({"bootstrap.servers": kafka.served.address, "transactional.id": f"t-{commits}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for n in range(20):
            producer.produce("orders", f"{commits}-{n}", f"k-{n}")
        producer.flush(30)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    values = sorted(row["value"].decode() for row in kafka.rows())
    assert values == sorted([*(f"v-{n}" for n in range(10)), *(f"True-{n}" for n in range(20))])


def test_records_of_an_open_transaction_wait_and_are_not_lost(kafka: KafkaStore, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": kafka.served.address, "transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(5):
        producer.produce("orders", f"open-{n}", "k", headers=[("ce_type", "placed")])
    producer.flush(30)
    kafka.fill(40)
    to = tmp_path / "lake"
    driver = Driver(kafka, to, tmp_path / "checkpoint")  # type: ignore[arg-type]
    driver.step()
    producer.commit_transaction(30)
    driver.step()
    assert len(places(to)) == len(set(places(to))) == 45


def test_what_retention_removed_is_reported(kafka: KafkaStore) -> None:
    kafka.fill(200)
    reader = StreamReader(kafka.options())
    start = reader.initialOffset()
    store = kafka.served.store
    store.log.retain(store.log.topic("orders"), Keep(records=5))
    if retain(store).count == 0:
        pytest.skip("whole segments are kept here")
    with pytest.raises(RecordsRemoved):
        reader.latestOffset(start, ReadAllAvailable())


def test_a_topic_made_anew_is_another_one(kafka: KafkaStore, tmp_path: Path) -> None:
    kafka.fill(30)
    Driver(kafka, tmp_path / "lake", tmp_path / "one").step()  # type: ignore[arg-type]
    kafka.served.store.log.delete_topic("orders")
    kafka.served.topic("orders", PARTITIONS)
    kafka.fill(30)
    with pytest.raises((AnotherLog, HistoryTakenBack)):
        Driver(kafka, tmp_path / "lake", tmp_path / "two")  # type: ignore[arg-type]


def test_another_record_in_the_same_place_is_seen(kafka: KafkaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an election that lost records leaves: the same end, and another record before it."""

    kafka.fill(30)
    reader = StreamReader(kafka.options())
    place = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    told = history.mark_of
    monkeypatch.setattr(kafka_view, "mark_of", lambda content: told(f"{content} another"))
    with pytest.raises(HistoryTakenBack, match="another record stands"):
        StreamReader(kafka.options()).latestOffset(place, ReadAllAvailable())


def test_what_cannot_be_is_said_in_one_sentence(kafka: KafkaStore, penstock: Command, tmp_path: Path) -> None:
    with pytest.raises(UnknownTopic, match="nowhere"):
        BatchReader(kafka.options(topic="nowhere")).partitions()
    with pytest.raises(StoreUnreachable):
        BatchReader(read_options({"url": "kafka://127.0.0.1:1"})).partitions()
    for url in ("kafka://nohost", "kafka://me:secret@host:9092"):
        with pytest.raises(InvalidUrl) as refused:
            read_options({"url": url})
        assert "secret" not in str(refused.value)
    with pytest.raises(StoreUnsupported, match="Spark's own Kafka sink"):
        PenstockSource({"url": kafka.url, "topic": "orders"}).writer(spark_type(), False)
    done = penstock("pipeline", "lake", "--url", kafka.url, "--topic", "nowhere", "--to", str(tmp_path / "l"))
    assert (done.code, done.err.count("\n")) == (1, 1)


@pytest.mark.parametrize(("low", "high", "found"), [(0, 5, [0, 1]), (4, 5, []), (0, 10, [0, 1, 9])])
def test_a_range_may_end_where_compaction_has_left_nothing(
    monkeypatch: pytest.MonkeyPatch, low: int, high: int, found: list[int]
) -> None:
    kept = {at: encode_records([KafkaRecord(0, 1000, b"k", b"v", [])]) for at in (0, 1, 9)}
    for at, batch in kept.items():
        place_batch(memoryview(batch), 0, at, 0)

    def fetched(self: KafkaTopicReader, partition: int, offset: int, max_bytes: int) -> dict[str, Any]:
        records = b"".join(batch for at, batch in kept.items() if at >= offset)
        return {"records": records, "aborted_transactions": None}

    monkeypatch.setattr(KafkaTopicReader, "_fetched", fetched)
    reader = KafkaTopicReader("kafka://localhost:9092", "orders")
    assert [each.header.base_offset for each in reader.batches(0, low, high)] == found


def forget(kafka: KafkaStore, before: dict[int, int]) -> None:
    """Remove what a topic holds before some offsets, as retention does."""
    admin = AdminClient({"bootstrap.servers": kafka.served.address})
    places = [TopicPartition("orders", partition, offset) for partition, offset in before.items()]
    for done in admin.delete_records(places).values():
        done.result(30)


def test_of_a_range_that_retention_enters_the_rest_is_read_and_the_loss_is_named(
    kafka: KafkaStore, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.fill(200)
    reader = StreamReader(kafka.options(failOnDataLoss="false"))
    start = reader.initialOffset()
    ends = kafka.served.store.log.all_bounds(kafka.served.store.log.topic("orders"))
    end = reader.latestOffset(start, ReadAllAvailable())
    tasks = reader.partitions(start, end)
    forget(kafka, {0: 7, 2: ends[2].end})  # into the middle of one partition, and all of another
    found = sorted((row["partition"], row["offset"]) for row in read_all(reader, tasks))
    kept = {0: 7, 1: 0, 2: ends[2].end, 3: 0}
    assert found == [(p, offset) for p, low in kept.items() for offset in range(low, ends[p].end)]
    assert f"partition 0: 0 to before 7, partition 2: 0 to before {ends[2].end}" in caplog.text


def test_a_loss_in_the_middle_of_reading_is_named_as_it_was(kafka: KafkaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.fill(300, **{"batch.num.messages": 10})  # type: ignore[arg-type]
    asked, fetched = list[int](), KafkaTopicReader._fetched

    def fetched_slowly(self: KafkaTopicReader, partition: int, offset: int, max_bytes: int) -> Any:
        if asked:
            forget(kafka, {0: 45})
        asked.append(offset)
        return fetched(self, partition, offset, 1)

    monkeypatch.setattr(KafkaTopicReader, "_fetched", fetched_slowly)
    request = Request(1, [Piece(0, 3, 50)], ["offset"])
    with closing(KafkaFetcher(kafka.url, "orders")) as fetcher:
        found = [offset for batch in fetcher.batches(request) for offset in batch["offset"].to_pylist()]
        assert fetcher.lost(request) == [Piece(0, asked[1], 45)]
    assert found == [*range(3, asked[1]), *range(45, 50)]
    assert 3 < asked[1] < 45


def test_a_handler_over_a_range_that_retention_enters_gets_the_rest(
    kafka: KafkaStore, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.fill(100)
    forget(kafka, {1: 5})
    pieces = [Piece(1, 0, 12), Piece(1, 13, 15)]
    records = TopicRecords(kafka.url, Names(), "orders", fail_on_loss=False)
    assert [each.offset for each in records.read(iter(pieces))] == [*range(5, 12), 13, 14]
    assert "partition 1: 0 to before 5;" in caplog.text
    with pytest.raises(RecordsRemoved):
        list(TopicRecords(kafka.url, Names(), "orders").read(iter(pieces)))


def test_a_batch_bounded_in_bytes_counts_what_retention_has_left(kafka: KafkaStore) -> None:
    kafka.fill(200)
    reader = StreamReader(kafka.options(failOnDataLoss="false", maxBytesPerTrigger="600"))
    start = reader.initialOffset()
    forget(kafka, dict.fromkeys(range(PARTITIONS), 4))
    ends = Range.from_json(reader.latestOffset(start, ReadAllAvailable())).ends
    assert all(4 < end < 15 for end in ends.values())


def test_a_cluster_that_ends_earlier_than_it_said_is_refused(
    kafka: KafkaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an election that lost records, while a batch is read."""

    kafka.fill(40)
    with closing(KafkaTopicReader(kafka.url, "orders")) as reader:
        end = reader.bounds()[0].end
        monkeypatch.setattr(reader, "_fetched", lambda *_: None)
        with pytest.raises(StoreError, match=f"ends orders/0 at offset {end}, and said that it goes to 1000"):
            list(reader.batches(0, end + 1, 1000))
