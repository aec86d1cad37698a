"""The source on each engine, its readers called as Spark calls them: what it gives is what the log holds."""

from __future__ import annotations

import json
import logging
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from threading import Timer
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.database.statements import statement
from penstock.errors import (
    AnotherLog,
    HistoryTakenBack,
    InvalidOption,
    RecordsRemoved,
    StoreLocked,
    StoreUnreachable,
    StoreUnsupported,
    UnknownTopic,
)
from penstock.log.store import Store, open_store
from penstock.operate.drop import restored
from penstock.operate.erase import erase
from penstock.pipeline.columns import arrow_schema
from penstock.pipeline.offsets import Range
from penstock.pipeline.source import view
from penstock.pipeline.source.batch import BatchReader
from penstock.pipeline.source.options import SourceOptions, read_options, written_offsets
from penstock.pipeline.source.stream import StreamReader
from penstock.pipeline.source.view import Heads, TopicView
from tests.pipeline.hurting import HOLDER
from tests.pipeline.stores import PARTITIONS, TOPIC, LogStore, row_of

Rows = list[dict[str, Any]]


def options(store: LogStore, **given: Any) -> SourceOptions:
    return read_options({"url": store.url, "topic": TOPIC} | {name: str(value) for name, value in given.items()})


def read_all(reader: BatchReader | StreamReader, tasks: Iterable[Any]) -> Rows:
    """Read tasks as Spark's workers do, each after a journey by pickle."""
    found: Rows = []
    for task in tasks:
        reader, task = pickle.loads(pickle.dumps((reader, task)))
        for batch in reader.read(task):
            assert isinstance(batch, pa.RecordBatch)
            if "timestamp" in batch.schema.names:
                place = batch.schema.names.index("timestamp")
                batch = batch.set_column(place, "timestamp", batch.column(place).cast(pa.int64()))
            found += batch.to_pylist()
    return found


def batch_rows(store: LogStore, **given: Any) -> Rows:
    reader = BatchReader(options(store, **given))
    return read_all(reader, reader.partitions())


def expected(store: LogStore) -> Rows:
    rows = [row_of(record) for _, record in sorted(store.records().items())]
    return [row | {"timestamp": row["timestamp"] * 1000} for row in rows]


def places(rows: Rows) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in rows)


def test_a_batch_gives_every_record_as_it_was_published(store: LogStore) -> None:
    store.fill(500)
    rows = batch_rows(store)
    assert sorted(rows, key=lambda row: (row["partition"], row["offset"])) == expected(store)


def test_rows_of_a_partition_come_in_order_in_one_task(store: LogStore) -> None:
    store.fill(500)
    reader = BatchReader(options(store))
    seen: set[int] = set()
    for task in reader.partitions():
        rows = places_in_order = [(r["partition"], r["offset"]) for r in read_all(reader, [task])]
        assert places_in_order == sorted(rows)
        assert not seen & {partition for partition, _ in rows}
        seen |= {partition for partition, _ in rows}
    assert seen == set(range(PARTITIONS))


def test_a_column_that_first_is_null_for_long_and_then_is_not(store: LogStore) -> None:
    """The driver of SQLite takes a column's type from its first rows."""
    store.fill(9_000, key=None, data=None, raw_headers=())
    store.fill(10, key="k", data=b"\xff\x00", raw_headers=(("h", b"v"),))
    rows = batch_rows(store)
    assert len(rows) == 9_010
    assert [r["value"] for r in rows if r["key"]] == [b"\xff\x00"] * 10
    assert [r["headers"] for r in rows if r["key"]] == [[{"key": "h", "value": b"v"}]] * 10


def test_null_and_empty_are_two_things(store: LogStore) -> None:
    store.fill(1, key=None, data=b"")
    store.fill(1, key="k", data=None)
    assert sorted((row["key"], row["value"]) for row in batch_rows(store) if row["key"]) == [(b"k", None)]
    assert [row["value"] for row in batch_rows(store) if not row["key"]] == [b""]


@pytest.mark.parametrize("columns", ["offset,partition", "value", "headers,type", "timestamp,topic,key"])
def test_only_the_columns_asked_for_come(store: LogStore, columns: str) -> None:
    store.fill(50)
    names = columns.split(",")
    reader = BatchReader(options(store, columns=columns))
    (first, *_) = reader.read(reader.partitions()[0])
    assert first.schema == arrow_schema(tuple(names))
    rows = batch_rows(store, columns=columns)
    assert sorted(map(repr, rows)) == sorted(repr({n: row[n] for n in names}) for row in expected(store))


def test_an_empty_topic_is_an_empty_batch(store: LogStore) -> None:
    assert batch_rows(store) == []


def test_ranges_are_given_by_offset(store: LogStore) -> None:
    store.fill(400)
    rows = batch_rows(
        store,
        startingOffsets=f'{{"{TOPIC}": {{"0": 3, "1": -1}}}}',
        endingOffsets=f'{{"{TOPIC}": {{"0": 7}}}}',
        numPartitions=3,
    )
    ends = store.ends()
    wanted = [(0, n) for n in range(3, 7)] + [(p, n) for p in range(2, PARTITIONS) for n in range(ends[p])]
    assert places(rows) == wanted


def test_a_star_names_all_other_partitions_also_those_that_come_later(sqlite_store: LogStore) -> None:
    sqlite_store.fill(400)
    ends = written_offsets(TOPIC, {0: 7, 2: -1})
    wanted = [(0, n) for n in range(7)] + [(2, n) for n in range(sqlite_store.ends()[2])]
    assert places(batch_rows(sqlite_store, endingOffsets=ends)) == wanted
    sqlite_store.outbox.log.grow(TOPIC, 2 * PARTITIONS)
    sqlite_store.fill(400)
    assert {partition for partition, _ in places(batch_rows(sqlite_store, endingOffsets=ends))} == {0, 2}


def test_ranges_are_given_by_time(store: LogStore) -> None:
    store.fill(400)
    moments = sorted(record.timestamp_ms for record in store.records().values())
    rows = batch_rows(store, startingTimestamp=moments[100], endingTimestamp=moments[300])
    assert sorted(row["timestamp"] // 1000 for row in rows) == moments[100:300]


@pytest.mark.parametrize("value", ['{"orders": {"99": 1}}', '{"orders": {"0": 1000000}}'])
def test_a_range_outside_of_the_topic_is_refused(store: LogStore, value: str) -> None:
    store.fill(10)
    with pytest.raises(InvalidOption, match="startingOffsets"):
        BatchReader(options(store, startingOffsets=value)).partitions()


def test_what_retention_removed_fails_with_the_missing_range(store: LogStore) -> None:
    store.fill(400)
    store.expire(2, before=5)
    wanted = f'{{"{TOPIC}": {{"2": 1}}}}'
    with pytest.raises(RecordsRemoved, match="partition 2: 1 to before 5"):
        BatchReader(options(store, startingOffsets=wanted)).partitions()


def test_erased_records_are_passed_over_and_no_loss(store: LogStore) -> None:
    """In a batch and in a stream, also where nothing else is left of a task."""
    store.fill(100)
    every = places(batch_rows(store))
    store.run("UPDATE penstock_log SET owner = 'me' WHERE partition IN (1, 3) OR \"offset\" = 2")
    with closing(open_database(store.url, Names())) as database:
        done = erase(database, "me")
    erased = [place for place in every if place[0] in (1, 3) or place[1] == 2]
    assert done.logged == len(erased) > 10
    assert places(batch_rows(store)) == [place for place in every if place not in erased]
    reader = StreamReader(options(store, startingOffsets="earliest"))
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert places(read_all(reader, reader.partitions(begin, end))) == places(batch_rows(store))


def test_going_on_without_the_removed_is_said(store: LogStore, caplog: pytest.LogCaptureFixture) -> None:
    store.fill(400)
    store.expire(2, before=5)
    wanted = f'{{"{TOPIC}": {{"2": 1}}}}'
    with caplog.at_level(logging.WARNING, "penstock.pipeline"):
        rows = batch_rows(store, startingOffsets=wanted, failOnDataLoss="false")
    assert places(rows) == sorted(store.records())
    assert "partition 2: 1 to before 5" in caplog.text


def test_what_retention_removes_between_planning_and_reading_fails_too(store: LogStore) -> None:
    store.fill(400)
    reader = BatchReader(options(store))
    tasks = reader.partitions()
    store.expire(4, before=3)
    with pytest.raises(RecordsRemoved, match="partition 4: 0 to before 3"):
        read_all(reader, tasks)


def test_a_hole_that_retention_did_not_make_is_skipped(store: LogStore) -> None:
    store.fill(400)
    store.run('DELETE FROM penstock_log WHERE partition = 4 AND "offset" = 3')
    assert places(batch_rows(store)) == sorted(store.records())


def stream(store: LogStore, **given: Any) -> StreamReader:
    return StreamReader(options(store, **given))


def test_a_stream_takes_up_where_its_last_batch_ended(store: LogStore) -> None:
    reader = stream(store)
    store.fill(100)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadAllAvailable())
    store.fill(50)
    second = reader.latestOffset(first, ReadAllAvailable())
    rows = [read_all(reader, reader.partitions(a, b)) for a, b in ((start, first), (first, second))]
    assert [len(each) for each in rows] == [100, 50]
    assert places(rows[0] + rows[1]) == sorted(store.records())
    assert reader.latestOffset(second, ReadAllAvailable()) == second


def counted_stores(monkeypatch: pytest.MonkeyPatch) -> list[Store]:
    """Return the stores that views open from now on."""
    opened = list[Store]()

    def counted(url: str, names: Names) -> Store:
        opened.append(open_store(url, names))
        return opened[-1]

    monkeypatch.setattr(view, "open_store", counted)
    return opened


def test_a_query_opens_its_store_once(sqlite_store: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = counted_stores(monkeypatch)
    reader = stream(sqlite_store)
    place = reader.initialOffset()
    for _ in range(3):
        sqlite_store.fill(10)
        before, place = place, reader.latestOffset(place, ReadAllAvailable())
        reader.reportLatestOffset()
        assert reader.partitions(before, place)
    reader.stop()
    assert len(opened) == 1


def test_a_file_that_is_locked_while_a_task_begins_is_waited_for(sqlite_store: LogStore) -> None:
    """By a process that lets go a second later; nobody else has it open then."""
    sqlite_store.fill(60)
    reader = stream(sqlite_store)
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    published = sorted(sqlite_store.records())
    reader.stop()
    sqlite_store.close()
    words = [sys.executable, "-c", HOLDER, sqlite_store.url.removeprefix("sqlite:///")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        let_go = Timer(1, holder.stdin.close)
        let_go.start()
        try:
            assert places(read_all(reader, tasks)) == published
            assert let_go.finished.is_set()
        finally:
            let_go.join()


def test_an_error_in_planning_leaves_no_store_open(sqlite_store: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = counted_stores(monkeypatch)
    reader = stream(sqlite_store)
    start = reader.initialOffset()

    def locked(view: TopicView) -> Heads:
        raise StoreLocked("shop.db")

    with monkeypatch.context() as patch:
        patch.setattr(TopicView, "heads", locked)
        with pytest.raises(StoreLocked):
            reader.latestOffset(start, ReadAllAvailable())
    sqlite_store.fill(10)
    assert reader.latestOffset(start, ReadAllAvailable()) != start
    reader.stop()
    assert len(opened) == 2


def test_a_batch_keeps_its_start_when_the_query_begins_again(store: LogStore) -> None:
    """Spark does not keep the start of the first batch, and asks for `latest` again, which has moved."""
    store.fill(20)
    reader = stream(store, startingOffsets="latest")
    start = reader.initialOffset()
    store.fill(30)
    first = reader.latestOffset(start, ReadAllAvailable())
    again = stream(store, startingOffsets="latest")
    assert len(read_all(again, again.partitions(again.initialOffset(), first))) == 30


def test_a_limit_bounds_each_batch_and_all_comes_in_the_end(store: LogStore) -> None:
    store.fill(100)
    reader = stream(store, maxRecordsPerBatch=30)
    assert reader.getDefaultReadLimit() == ReadMaxRows(30)
    place, sizes = reader.initialOffset(), []
    while (after := reader.latestOffset(place, reader.getDefaultReadLimit())) != place:
        sizes.append(len(read_all(reader, reader.partitions(place, after))))
        place = after
    assert sizes == [30, 30, 30, 10]


def test_available_now_ends_where_the_log_ended_when_it_began(store: LogStore) -> None:
    store.fill(100)
    reader = stream(store)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    store.fill(50)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert Range.from_json(end).count() == 100
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert sum(reader.reportLatestOffset()["ends"]) == 150


def test_one_look_at_the_log_serves_for_the_next_batch_and_for_the_lag(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark asks for both every second, also when nothing comes."""
    store.fill(10)
    looks, heads = list[Heads](), TopicView.heads

    def counted(view: TopicView) -> Heads:
        looks.append(heads(view))
        return looks[-1]

    monkeypatch.setattr(TopicView, "heads", counted)
    reader = stream(store)
    place = reader.initialOffset()
    for lag in (10, 25, 25):
        looks.clear()
        place = reader.latestOffset(place, ReadAllAvailable())
        assert (sum(reader.reportLatestOffset()["ends"]), len(looks)) == (lag, 1)
        if lag == 10:
            store.fill(15)
    assert sum(reader.reportLatestOffset()["ends"]) == 25, "asked alone, it looks"


def test_a_stream_that_retention_has_overtaken_fails_with_the_range(store: LogStore) -> None:
    store.fill(400)
    start = stream(store).initialOffset()
    store.expire(2, before=5)
    with pytest.raises(RecordsRemoved, match="partition 2: 0 to before 5"):
        stream(store).latestOffset(start, ReadAllAvailable())
    lossy = stream(store, failOnDataLoss="false")
    end = lossy.latestOffset(start, ReadAllAvailable())
    assert places(read_all(lossy, lossy.partitions(start, end))) == sorted(store.records())


@pytest.mark.parametrize("limit", [None, 30])
def test_a_stream_reads_new_partitions_after_what_came_before_the_topic_grew(
    store: LogStore, limit: int | None
) -> None:
    """And the values of each key come in the order they were written, batch by batch."""
    store.fill(100)
    reader = stream(store)
    place, batches = reader.initialOffset(), list[Rows]()
    at_most = ReadAllAvailable() if limit is None else ReadMaxRows(limit)
    for size in (16, 64):
        store.outbox.log.grow(TOPIC, size)
        store.fill(100)
    while (after := reader.latestOffset(place, at_most)) != place:
        batches.append(read_all(reader, reader.partitions(place, after)))
        place = after
    assert places([row for rows in batches for row in rows]) == sorted(store.records())
    last = dict[bytes, int]()
    for rows in batches:
        seen = [(row["key"], json.loads(row["value"])["n"]) for row in rows if row["key"] and row["value"]]
        assert all(last.get(key, -1) < n for key, n in seen)
        last |= {key: max(n for other, n in seen if other == key) for key, _ in seen}


def test_a_run_to_the_end_leaves_out_what_grew_after_it_began(store: LogStore) -> None:
    store.fill(100)
    reader = stream(store)
    reader.prepareForTriggerAvailableNow()
    place = reader.initialOffset()
    store.outbox.log.grow(TOPIC, 16)
    store.fill(50)
    end = reader.latestOffset(place, ReadAllAvailable())
    assert Range.from_json(end).count() == 100
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_the_checkpoint_of_a_deleted_topic_is_refused(store: LogStore) -> None:
    store.fill(10)
    start = stream(store).initialOffset()
    store.outbox.log.delete_topic(TOPIC)
    store.outbox.log.create_topic(TOPIC, partitions=PARTITIONS)
    with pytest.raises(AnotherLog, match="deleted and made anew"):
        stream(store).latestOffset(start, ReadAllAvailable())


def test_a_log_of_another_incarnation_stops_a_stream_with_the_ranges(store: LogStore) -> None:
    """100 of 150 records were missed in silence: they had the places of what the backup did not hold."""
    store.fill(40)
    reader = stream(store)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    restored(store.outbox)
    store.fill(40)
    with pytest.raises(HistoryTakenBack, match=r"partition 0: read up to \d+, the log ends at \d+"):
        stream(store).latestOffset(end, ReadAllAvailable())
    anew = stream(store)
    assert anew.latestOffset(anew.initialOffset(), ReadAllAvailable())


def test_a_log_that_ends_before_what_was_read_stops_a_stream(store: LogStore) -> None:
    store.fill(40)
    reader = stream(store)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    beyond = end | {"ends": [each + 1 for each in end["ends"]]}
    with pytest.raises(HistoryTakenBack):
        stream(store).latestOffset(beyond, ReadAllAvailable())


def test_a_checkpoint_that_knows_no_incarnation_goes_on(store: LogStore) -> None:
    """It is of the version before."""
    store.fill(40)
    reader = stream(store)
    place = reader.initialOffset()
    del place["incarnation"]
    end = reader.latestOffset(place, ReadAllAvailable())
    assert Range.from_json(end).incarnation == store.outbox.log.identity().incarnation


def test_tables_with_another_prefix_are_read(sqlite_store: LogStore) -> None:
    sqlite_store.run("ALTER TABLE penstock_topic RENAME TO ev_topic")
    for table in ("head", "log", "meta", "generation"):
        sqlite_store.run(f"ALTER TABLE penstock_{table} RENAME TO ev_{table}")
    assert batch_rows(sqlite_store, prefix="ev_") == []


def test_an_unknown_topic_and_an_unknown_file_say_so(sqlite_store: LogStore) -> None:
    with pytest.raises(UnknownTopic):
        BatchReader(read_options({"url": sqlite_store.url, "topic": "nope"})).partitions()
    reader = BatchReader(options(sqlite_store))
    sqlite_store.fill(5)
    tasks = reader.partitions()
    lost = BatchReader(read_options({"url": "sqlite:////nowhere/x.db", "topic": TOPIC}))
    with pytest.raises(StoreUnreachable):
        list(lost.read(tasks[0]))


def test_a_store_in_memory_cannot_be_reached_by_spark() -> None:
    with pytest.raises(StoreUnsupported):
        BatchReader(read_options({"url": "memory://x"})).partitions()


def test_each_range_walks_the_index_and_not_the_topic(sqlite_store: LogStore) -> None:
    """Left alone, SQLite walks the whole topic and looks up the ranges for each record: ten times as dear."""
    sqlite_store.fill(10)
    sql = statement("log", "sqlite", "arrow_fetch", Names())
    with closing(sqlite3.connect(sqlite_store.url.removeprefix("sqlite:///"))) as conn:
        steps = [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}", (1, "[[0, 0, 5]]", 1, 1, 1))]
    *_, ranges, records = steps
    assert ranges.startswith("SCAN w")
    assert "partition=? AND offset>? AND offset<?" in records


def test_an_unreachable_server_says_so() -> None:
    url = "postgresql://me:secret@127.0.0.1:1/x"
    from penstock.pipeline.source.fetch import open_fetcher

    with pytest.raises(StoreUnreachable) as refused:
        open_fetcher(url, read_options({"url": url}).names)
    assert "secret" not in str(refused.value)


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


def test_small_batches_keep_apart_and_the_first_after_a_pause_does_not_wait(
    sqlite_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Hand()
    monkeypatch.setattr("penstock.pipeline.source.stream.SYSTEM", clock)
    reader = stream(sqlite_store, minOffsetsPerTrigger=20, maxTriggerDelay="5s")
    place = reader.initialOffset()

    def taken() -> int:
        nonlocal place
        end = reader.latestOffset(place, ReadAllAvailable())
        many, place = (0 if end == place else Range.from_json(end).count()), end
        return many

    sqlite_store.fill(3)
    assert taken() == 3, "nothing came before it"
    sqlite_store.fill(3)
    assert taken() == 0
    sqlite_store.fill(17)
    assert taken() == 20, "enough of them"
    sqlite_store.fill(2)
    clock.seconds += 4.9
    assert taken() == 0
    clock.seconds += 0.2
    assert taken() == 2, "they have waited long enough"
    sqlite_store.fill(1)
    reader.prepareForTriggerAvailableNow()
    assert taken() == 1, "a query that runs once takes what there is"
