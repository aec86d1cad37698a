"""Writing back, its writers called as Spark calls them: each row of a released batch is in the log once."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock import Outbox, Record
from penstock.clock import from_ms
from penstock.errors import (
    InvalidColumn,
    InvalidOption,
    InvalidType,
    MapChanged,
    PartsMissing,
    StoreUnsupported,
    UnknownTopic,
    ValueTooLarge,
    WriteOutOfOrder,
)
from penstock.log.sql.parted_writes import KEPT_MS, PartedWrites
from penstock.model.partition import partition_for
from penstock.model.record import TOKEN
from penstock.pipeline.columns import COLUMNS
from penstock.pipeline.source.data_source import PenstockSource
from penstock.pipeline.writeback import BackStreamWriter
from penstock.testing.clock import FakeClock
from penstock.worker.retention import Housekeeping
from tests.pipeline.stores import LogStore

COPIES = "copies"
WRITTEN = ("key", "value", "type", "headers", "timestamp")
Rows = Sequence[dict[str, Any]]


def rows(numbers: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "key": f"k-{n % 7}".encode(),
            "value": str(n).encode(),
            "type": "copied",
            "headers": [{"key": "n", "value": str(n).encode()}],
            "timestamp": datetime(2026, 11, 1, tzinfo=UTC),
        }
        for n in numbers
    ]


def spark_type(columns: Sequence[str] = WRITTEN) -> StructType:
    return from_arrow_schema(pa.schema([(name, COLUMNS[name][1]) for name in columns]))


def batch(some: Rows, columns: Sequence[str] = WRITTEN) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(some), schema=pa.schema([(name, COLUMNS[name][1]) for name in columns]))


class Query:
    """A streaming query with a checkpoint, whose batches are run by hand."""

    def __init__(self, store: LogStore, folder: Path, **others: str) -> None:
        self.store, self.folder = store, folder
        (folder / "offsets").mkdir(parents=True)
        (folder / "metadata").write_text(json.dumps({"id": "query-1"}))
        self._options = {"url": store.url, "topic": COPIES, "checkpointLocation": str(folder)} | others

    def writer(self, columns: Sequence[str] = WRITTEN) -> BackStreamWriter:
        found: BackStreamWriter = PenstockSource(self._options).streamWriter(spark_type(columns), False)
        return found

    def plan(self, number: int, content: str = "") -> None:
        (self.folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{content or number}\n")

    def task(self, some: Rows, columns: Sequence[str] = WRITTEN) -> Any:
        """Run an attempt of a task, after a journey by pickle."""
        writer = pickle.loads(pickle.dumps(self.writer(columns)))
        return pickle.loads(pickle.dumps(writer.write(iter([batch(some, columns)]))))

    def commit(self, messages: list[Any], number: int, columns: Sequence[str] = WRITTEN) -> None:
        self.writer(columns).commit(messages, number)


@pytest.fixture
def query(store: LogStore, tmp_path: Path) -> Query:
    store.outbox.log.create_topic(COPIES, partitions=4)
    return Query(store, tmp_path / "checkpoint")


def copied(store: LogStore, topic: str = COPIES) -> list[Record]:
    log = store.outbox.log
    return [each for partition in range(log.topic(topic).partitions) for each in log.read(topic, partition, 0, 100_000)]


def numbers(store: LogStore) -> list[int]:
    return sorted(int(each.data or b"") for each in copied(store))


def held(store: LogStore) -> tuple[int, int]:
    """Return how many records and parts are held back."""
    with store.outbox.store.database.transaction() as tx:
        (records,) = tx.conn.execute("SELECT count(*) FROM penstock_pending").fetchone()
        (parts,) = tx.conn.execute("SELECT count(*) FROM penstock_write_part").fetchone()
    return records, parts


def test_what_is_written_back_is_what_the_rows_say(store: LogStore, query: Query) -> None:
    query.plan(0)
    query.commit([query.task(rows(range(20))), None, query.task(rows([]))], 0)
    found = {each.data: each for each in copied(store)}
    assert len(found) == 20
    record = found[b"3"]
    assert (record.key, record.type, record.raw_headers) == ("k-3", "copied", (("n", b"3"),))
    assert record.timestamp == datetime(2026, 11, 1, tzinfo=UTC)
    topic = store.outbox.log.topic(COPIES)
    assert all(
        each.partition == partition_for(topic.partitioner, (each.key or "").encode(), each.id, topic.partitions)
        for each in found.values()
    )
    assert held(store) == (0, 0)


@pytest.mark.parametrize(
    ("column", "value"), [("timestamp", datetime(1960, 1, 1, tzinfo=UTC)), ("type", "t" * 256), ("type", "two\nlines")]
)
def test_what_no_other_door_takes_is_refused(store: LogStore, query: Query, column: str, value: Any) -> None:
    query.plan(0)
    with pytest.raises((InvalidColumn, InvalidType)):
        query.task([rows([1])[0] | {column: value}])
    assert held(store) == (0, 0)


def test_the_token_of_another_record_is_not_copied(store: LogStore, query: Query) -> None:
    query.plan(0)
    token = {"key": TOKEN, "value": b"t" * 16}
    row = rows([1])[0]
    query.commit([query.task([row | {"headers": [token, *row["headers"]]}, row | {"headers": [token]}])], 0)
    assert sorted(each.raw_headers for each in copied(store)) == [(), (("n", b"1"),)]


def test_rows_of_a_task_keep_their_order_and_tasks_follow_each_other(store: LogStore, query: Query) -> None:
    query.plan(0)
    later, sooner = query.task(rows(range(100, 130))), query.task(rows(range(30)))
    query.commit([sooner, later], 0)
    for partition in range(4):
        found = [int(each.data or b"") for each in store.outbox.log.read(COPIES, partition, 0, 1000)]
        assert found == sorted(found)
        offsets = [each.offset for each in store.outbox.log.read(COPIES, partition, 0, 1000)]
        assert offsets == list(range(len(offsets)))


def test_nobody_sees_what_is_not_released(store: LogStore, query: Query) -> None:
    query.task(rows(range(9)))
    assert copied(store) == []
    assert held(store) == (9, 1)


def test_a_batch_run_again_with_fewer_tasks_is_there_once(store: LogStore, query: Query) -> None:
    """The case that breaks keys of (epoch, task): rows move from one task to another."""
    query.plan(0)
    query.task(rows([1, 4, 8]))  # of three tasks one had written before the crash
    query.commit([query.task(rows([0, 1, 2, 3, 4])), query.task(rows([5, 6, 7, 8, 9]))], 0)
    assert numbers(store) == list(range(10))
    query.commit([query.task(rows(range(10)))], 0)  # and again: the answer of the commit was lost
    assert numbers(store) == list(range(10))
    assert held(store) == (3, 1)  # what nobody named


def test_of_two_attempts_of_a_task_the_named_one_counts(store: LogStore, query: Query) -> None:
    query.plan(0)
    query.task(rows(range(5)))
    query.commit([query.task(rows(range(5)))], 0)
    assert numbers(store) == list(range(5))


def test_batches_follow_each_other_and_an_empty_one_counts(store: LogStore, query: Query) -> None:
    for number in range(3):
        query.plan(number)
        query.commit([query.task(rows([number]))] if number != 1 else [], number)
    assert numbers(store) == [0, 2]


@pytest.mark.parametrize(("number", "content"), [(1, "another"), (0, "0"), (3, "3")])
def test_a_batch_that_does_not_follow_is_refused(store: LogStore, query: Query, number: int, content: str) -> None:
    for each in range(2):
        query.plan(each)
        query.commit([query.task(rows([each]))], each)
    query.plan(2)
    query.plan(number, content)
    with pytest.raises(WriteOutOfOrder, match=r"spark/query-1.* last one in this log is 1.*new checkpoint"):
        query.commit([query.task(rows([9]))], number)
    assert numbers(store) == [0, 1]


def test_a_log_from_before_the_first_batch_is_noticed(store: LogStore, query: Query) -> None:
    """A restored backup knew nothing of the query, and took whatever came next."""
    query.plan(0)
    query.plan(1)
    with pytest.raises(WriteOutOfOrder, match="this log has no batch of it"):
        query.commit([query.task(rows([9]))], 1)
    assert numbers(store) == []


def test_other_files_under_the_number_of_a_batch_are_noticed(store: LogStore, query: Query) -> None:
    """A source of files counts its batches; which files they are stands in a log of its own."""
    log = query.folder / "sources" / "0" / "0"
    log.parent.mkdir(parents=True)
    query.plan(0, '{"logOffset":0}')
    log.write_text('v1\n{"path":"a.txt"}')
    query.commit([query.task(rows([1]))], 0)
    query.commit([query.task(rows([1]))], 0)  # the same files again: nothing is added
    log.write_text('v1\n{"path":"b.txt"}')
    with pytest.raises(WriteOutOfOrder):
        query.commit([query.task(rows([2]))], 0)
    assert numbers(store) == [1]


def test_drivers_that_release_a_batch_at_once_release_it_once(store: LogStore, query: Query) -> None:
    query.plan(0)
    messages = [query.task(rows(range(50))) for _ in range(4)]
    together = Barrier(len(messages))

    def release(message: Any) -> None:
        writer = query.writer()
        together.wait()
        writer.commit([message], 0)

    threads = [Thread(target=release, args=[each]) for each in messages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(store) == list(range(50))
    assert held(store) == (0, 0)


def test_an_aborted_batch_leaves_nothing(store: LogStore, query: Query) -> None:
    message = query.task(rows(range(5)))
    query.writer().abort([message, None], 0)
    assert held(store) == (0, 0)
    query.plan(0)
    with pytest.raises(PartsMissing, match="none of them was released"):
        query.commit([message], 0)
    assert copied(store) == []


def test_a_part_that_lost_records_is_not_released(store: LogStore, query: Query) -> None:
    query.plan(0)
    message = query.task(rows(range(5)))
    store.run("DELETE FROM penstock_pending WHERE seq = (SELECT max(seq) FROM penstock_pending)")
    with pytest.raises(PartsMissing):
        query.commit([message], 0)
    assert copied(store) == []


def test_leftovers_go_after_a_day_and_not_before(store: LogStore, query: Query) -> None:
    query.task(rows(range(5)))
    now_ms = store.outbox.store.database.now_ms(None)
    young = FakeClock(from_ms(now_ms + KEPT_MS - 60_000))
    Housekeeping(store.outbox.store, young).run()
    assert held(store) == (5, 1)
    old = FakeClock(from_ms(now_ms + KEPT_MS + 60_000))
    Housekeeping(store.outbox.store, old).run()
    assert held(store) == (0, 0)


def test_a_task_whose_part_was_taken_away_fails(store: LogStore, query: Query) -> None:
    parts = PartedWrites(store.outbox.store.database)

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(rows(range(3)))
        store.run("DELETE FROM penstock_write_part")
        yield batch(rows(range(3)))

    with pytest.raises(PartsMissing):
        query.writer().write(batches())
    assert not parts.expire()


def test_a_topic_that_grew_or_went_meanwhile_stops_the_release(store: LogStore, query: Query) -> None:
    query.plan(0)
    message = query.task(rows(range(20)))
    store.outbox.log.grow(COPIES, 8)
    with pytest.raises(MapChanged):
        query.commit([message], 0)
    assert copied(store) == []
    message = query.task(rows(range(20)))
    store.outbox.log.delete_topic(COPIES)
    store.outbox.log.create_topic(COPIES, partitions=8)
    with pytest.raises(UnknownTopic):
        query.commit([message], 0)
    assert copied(store) == []


def test_rows_name_their_topics(store: LogStore, query: Query, tmp_path: Path) -> None:
    store.outbox.log.create_topic("others", partitions=2)
    several = Query(store, tmp_path / "another", topic="")
    several.plan(0)
    columns = ("value", "topic")
    some = [{"value": str(n).encode(), "topic": COPIES if n % 2 else "others"} for n in range(10)]
    several.commit([several.task(some, columns)], 0, columns)
    assert sorted(int(each.data or b"") for each in copied(store, "others")) == [0, 2, 4, 6, 8]
    assert numbers(store) == [1, 3, 5, 7, 9]
    with pytest.raises(InvalidColumn, match="column topic is null"):
        several.task([{"value": b"1", "topic": None}], columns)
    with pytest.raises(UnknownTopic, match="nowhere"):
        several.task([{"value": b"1", "topic": "nowhere"}], columns)


def test_headers_of_a_cloudevent_give_id_and_type(store: LogStore, query: Query) -> None:
    query.plan(0)
    said = [{"key": "ce_id", "value": b"e-1"}, {"key": "ce_type", "value": b"order.paid"}]
    query.commit([query.task([{"value": b"1", "headers": said}], ("value", "headers"))], 0)
    (record,) = copied(store)
    assert (record.id, record.type) == ("e-1", "order.paid")


# -- batch writes


def batch_write(store: LogStore, some: Rows, **options: str) -> None:
    source = PenstockSource({"url": store.url, "topic": COPIES} | options)
    writer = source.writer(spark_type(), False)
    writer.commit([writer.write(iter([batch(some)]))])


def test_a_name_is_for_one_topic(store: LogStore, query: Query) -> None:
    """In `foreachBatch` a batch may write several topics under one name and number."""
    store.outbox.log.create_topic("others", partitions=1)
    for topic in (COPIES, "others", COPIES):
        batch_write(store, rows([1]), txnAppId="nightly", txnVersion="1", topic=topic)
    assert numbers(store) == [1]
    assert len(copied(store, "others")) == 1


def test_a_value_larger_than_publish_takes_is_refused(store: LogStore, query: Query) -> None:
    with pytest.raises(ValueTooLarge, match=r"limits\.event_bytes"):
        batch_write(store, [{"value": b"x" * 1_048_577}])
    assert numbers(store) == []


def test_a_batch_write_that_names_itself_is_there_once(store: LogStore, query: Query) -> None:
    for version in ("1", "1", "3"):
        batch_write(store, rows([int(version)]), txnAppId="nightly", txnVersion=version)
    with pytest.raises(WriteOutOfOrder, match=r"version 2 after version 3.*must grow"):
        batch_write(store, rows([2]), txnAppId="nightly", txnVersion="2")
    assert numbers(store) == [1, 3]
    batch_write(store, rows([7]))
    batch_write(store, rows([7]))
    assert numbers(store) == [1, 3, 7, 7]
    assert held(store) == (1, 1)  # of the one that was refused; Spark aborts it


def test_a_version_made_from_other_records_is_refused(store: LogStore, query: Query) -> None:
    """`each_batch`: an older copy of a checkpoint gives the last number to another batch."""
    for _ in range(2):
        batch_write(store, rows([1]), txnAppId="spark/q", txnVersion="1", txnContent="one")
    with pytest.raises(WriteOutOfOrder, match=r"version 1 a second time.*older copy"):
        batch_write(store, rows([2]), txnAppId="spark/q", txnVersion="1", txnContent="two")
    assert numbers(store) == [1]


# -- refusals

TEXT = ("value", pa.string())
REFUSED = [
    ([("key", pa.int64()), TEXT], "column key is BIGINT and must be STRING or BINARY: cast it"),
    ([("value", pa.struct([("a", pa.int32())]))], "column value is STRUCT<A:INT> and must be STRING or BIN"),
    ([TEXT, ("type", pa.int32())], "column type is INT"),
    ([TEXT, ("headers", pa.map_(pa.string(), pa.string()))], "column headers is MAP"),
    ([TEXT, ("timestamp", pa.int64())], "column timestamp is BIGINT"),
    ([TEXT, ("offset", pa.int64())], "column offset is none that a record has"),
    ([("key", pa.string())], "column value is missing"),
]


@pytest.mark.parametrize(("columns", "said"), REFUSED, ids=[each[0][-1][0] for each in REFUSED])
def test_a_column_that_a_topic_cannot_take_is_named(sqlite_store: LogStore, columns: list[Any], said: str) -> None:
    sqlite_store.outbox.log.create_topic(COPIES, partitions=4)
    source = PenstockSource({"url": sqlite_store.url, "topic": COPIES})
    with pytest.raises(InvalidColumn) as refused:
        source.writer(from_arrow_schema(pa.schema(columns)), False)
    assert str(refused.value).startswith(said)


def test_options_that_cannot_be_are_named(sqlite_store: LogStore, tmp_path: Path) -> None:
    good = {"url": sqlite_store.url, "topic": "orders"}
    kind = spark_type()
    with pytest.raises(InvalidColumn, match="column topic is missing, and so is the option topic"):
        PenstockSource({"url": sqlite_store.url}).writer(kind, False)
    with pytest.raises(InvalidOption, match="append"):
        PenstockSource(good).writer(kind, True)
    with pytest.raises(InvalidOption, match="checkpointLocation"):
        PenstockSource(good).streamWriter(kind, False)
    with pytest.raises(InvalidOption, match="url"):
        PenstockSource({"topic": "orders"}).writer(kind, False)
    with pytest.raises(UnknownTopic, match="nowhere"):
        PenstockSource(good | {"topic": "nowhere"}).writer(kind, False)
    with pytest.raises(InvalidOption, match="txnVersion"):
        PenstockSource(good | {"txnAppId": "nightly"}).writer(kind, False)
    with pytest.raises(InvalidOption, match="txnAppId"):
        PenstockSource(good | {"txnVersion": "1"}).writer(kind, False)


def test_a_log_in_files_is_refused_with_the_remedy(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/log"
    outbox = Outbox(url)
    outbox.migrate()
    outbox.log.create_topic(COPIES, partitions=4)
    outbox.close()
    with pytest.raises(StoreUnsupported, match=r"this one is in files.*penstock serve --kafka"):
        PenstockSource({"url": url, "topic": COPIES}).writer(spark_type(), False)


def test_a_reserved_type_is_refused(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.outbox.log.create_topic(COPIES, partitions=4)
    query = Query(sqlite_store, tmp_path / "checkpoint")
    with pytest.raises(InvalidColumn, match=r"column type says penstock\.erased"):
        query.task([{"value": b"1", "type": "penstock.erased"}], ("value", "type"))


@pytest.mark.parametrize(
    ("name", "said"),
    [("topics", "did you mean topic"), ("txnappID2", "did you mean txnAppId"), ("partitionBy", "one of url")],
)
def test_an_option_that_would_be_ignored_is_refused(query: Query, name: str, said: str) -> None:
    given = {"url": query.store.url, "topic": COPIES, name: "x"}
    with pytest.raises(InvalidOption, match=said) as refused:
        PenstockSource(given).writer(spark_type(), False)
    assert f"option {name}=" in str(refused.value)
    with pytest.raises(InvalidOption, match=said):
        PenstockSource(given | {"checkpointLocation": "c"}).streamWriter(spark_type(), False)


def test_options_are_known_whatever_their_case(query: Query) -> None:
    given = {"URL": query.store.url, "Topic": COPIES, "txnappid": "a", "TXNVERSION": "1"}
    assert PenstockSource(CaseInsensitiveDict(given)).writer(spark_type(), False)
