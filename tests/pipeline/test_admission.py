"""Admission by bytes: a batch has no more than the bound, or one record, and every record comes once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.errors import InvalidOption
from penstock.log.contract import OffsetRange
from penstock.log.entry import content_of
from penstock.log.files.log import FileLog
from penstock.log.sql.log import SqlLog
from penstock.pipeline.offsets import Ends, Piece, Range
from penstock.pipeline.source.options import read_all as read_topics
from penstock.pipeline.source.options import read_options
from penstock.pipeline.source.stream import SeveralTopics, StreamReader
from penstock.pipeline.source.view import AdmittedPiece, admit_bytes
from tests.kafka.served import Served
from tests.pipeline.stores import PARTITIONS, TOPIC, LogStore
from tests.pipeline.test_source import places, read_all
from tests.suites.records import a_record

Sizes = dict[int, list[int]]  # partition → the bytes of its records


def fits(sizes: Sizes) -> Callable[[Sequence[Piece], int | None], dict[int, AdmittedPiece]]:
    """Measure pieces of a log that is a list of sizes."""

    def fit(pieces: Sequence[Piece], share: int | None) -> dict[int, AdmittedPiece]:
        found = {}
        for partition, start, end in pieces:
            at, used = start, 0
            while at < end and (share is None or used + sizes[partition][at] <= share):
                used, at = used + sizes[partition][at], at + 1
                if share is None:
                    break
            found[partition] = AdmittedPiece(at, used)
        return found

    return fit


def batches(sizes: Sizes, at_most: int) -> Iterator[list[int]]:
    """Read all of a log, batch by batch; yield the sizes of each."""
    ends = {partition: len(each) for partition, each in sizes.items()}
    starts: Ends = dict.fromkeys(sizes, 0)
    while starts != ends:
        admitted = admit_bytes(starts, ends, at_most, fits(sizes))
        assert all(starts[p] <= admitted[p] <= ends[p] for p in ends)
        yield [size for p in sizes for size in sizes[p][starts[p] : admitted[p]]]
        starts = admitted


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_has_the_bound_or_one_record_and_all_come_once(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {
        p: [rng.choice([1, 10, 100, 1_000]) for _ in range(rng.randint(0, 60))] for p in range(rng.choice([1, 3, 16]))
    }
    at_most = rng.choice([5, 50, 500, 5_000])
    found = list(batches(sizes, at_most))
    assert all(each for each in found), "every batch moves on"
    assert all(sum(each) <= at_most or len(each) == 1 for each in found)
    assert sorted(size for each in found for size in each) == sorted(size for each in sizes.values() for size in each)


def test_batches_are_not_much_smaller_than_they_may_be() -> None:
    """Also where a record is larger than an equal share of each partition."""
    found = list(batches({p: [10] * 20 for p in range(64)}, 100))
    assert min(sum(each) for each in found[:100]) >= 90


def test_a_record_that_fits_no_share_is_not_passed_over_for_ever() -> None:
    sizes: Sizes = {0: [1] * 10_000, 1: [90], 2: [1] * 10_000}
    starts, ends = dict.fromkeys(sizes, 0), {p: len(each) for p, each in sizes.items()}
    for _ in range(3):
        starts = admit_bytes(starts, ends, 100, fits(sizes))
    assert starts[1] == 1


def test_the_bound_is_a_number_and_topics_share_it() -> None:
    url = "sqlite:///shop.db"
    assert read_options({"url": url}).max_bytes is None
    shared = read_topics({"url": url, "subscribe": "a,b,c", "maxBytesPerTrigger": "1000"})
    assert [each.max_bytes for each in shared] == [333] * 3
    with pytest.raises(InvalidOption, match="maxBytesPerTrigger"):
        read_options({"url": url, "maxBytesPerTrigger": "0"})


class BoundedTopic:
    """A topic of one kind of store with records of many sizes, and the size of each by its place."""

    def __init__(self, url: str, log: Any) -> None:
        self.url, self._log = url, log
        rng = random.Random(7)
        bodies = [b"x" * rng.choice([0, 10, 300, 4_000, 20_000]) for _ in range(400)]
        records = [a_record(f"k-{n % 60}", body, type="t") for n, body in enumerate(bodies)]
        placed = log.append(TOPIC, records)
        self.sizes = {tuple(place): content_of(each).size for place, each in zip(placed, records, strict=True)}

    def reader(self, **given: str) -> StreamReader:
        return StreamReader(read_options({"url": self.url, "topic": TOPIC, **given}))


@pytest.fixture(params=["sqlite", "postgres", "directory", "kafka"])
def bounded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BoundedTopic]:
    if request.param == "kafka":
        with Served(f"file://{tmp_path}/log") as served:
            served.topic(TOPIC, PARTITIONS)
            yield BoundedTopic(f"kafka://{served.address}", served.store.log)
        return
    urls = {"sqlite": f"sqlite:///{tmp_path}/shop.db", "directory": f"file://{tmp_path}/log"}
    store = LogStore(urls.get(request.param) or request.getfixturevalue("postgres_url"))
    yield BoundedTopic(store.url, store.outbox.log)
    store.close()


@pytest.mark.parametrize(
    ("most", "limit"), [(50_000, ReadAllAvailable()), pytest.param(9_000, ReadMaxRows(25), marks=pytest.mark.slow)]
)
def test_every_kind_of_store_keeps_the_bound(bounded: BoundedTopic, most: int, limit: Any) -> None:
    reader = bounded.reader(maxBytesPerTrigger=str(most))
    place, found = reader.initialOffset(), list[tuple[int, int]]()
    large = 0
    while (end := reader.latestOffset(place, limit)) != place:
        rows = places(read_all(reader, reader.partitions(place, end)))
        size = sum(bounded.sizes[each] for each in rows)
        assert size <= most or len(rows) == 1, (size, rows)
        large += size > most
        assert not isinstance(limit, ReadMaxRows) or len(rows) <= limit.max_rows
        place, found = end, found + rows
    assert sorted(found) == sorted(bounded.sizes)
    assert (large > 0) == (most < 20_000)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give how many offsets each question about bytes had the log walk."""
    counts = list[int]()

    def counting(ask: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: Any, topic: Any, ranges: Sequence[OffsetRange], *others: Any) -> Any:
            counts.append(sum(each.high - each.low for each in ranges))
            return ask(self, topic, ranges, *others)

        return counted

    for kind in (SqlLog, FileLog):
        for name in ("reach", "sizes"):
            monkeypatch.setattr(kind, name, counting(getattr(kind, name)))
    return counts


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "directory"])
def test_planning_a_batch_costs_the_batch_and_not_the_backlog(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, looked_at: list[int]
) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path}/shop.db", "directory": f"file://{tmp_path}/log"}
    store = LogStore(urls.get(engine) or request.getfixturevalue("postgres_url"))
    given = {"url": store.url, "topic": TOPIC, "maxBytesPerTrigger": "100000"}
    walked, taken = list[int](), list[int]()
    for many in (4_000, 36_000):  # a backlog, and one of ten times that
        store.fill(many, key=None, data=b"x" * 36, raw_headers=())
        reader = StreamReader(read_options(given))
        looked_at.clear()
        batch = Range.from_json(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))
        walked.append(sum(looked_at))
        taken.append(batch.count())
    store.close()
    assert 900 < taken[0] == taken[1] <= 1_000
    assert 0 < walked[0] == walked[1] < 10 * taken[0]


def test_records_that_are_not_there_any_more_do_not_make_batches_small(sqlite_store: LogStore) -> None:
    """As in a topic that is compacted: most offsets of a partition have no record."""
    sqlite_store.fill(20_000, data=b"x" * 36, key="k-1", raw_headers=())
    sqlite_store.run('DELETE FROM penstock_log WHERE "offset" % 100 <> 7')
    given = {"url": sqlite_store.url, "topic": TOPIC, "maxBytesPerTrigger": "10000"}
    reader = StreamReader(read_options(given))
    place, rows = reader.initialOffset(), list[int]()
    while (end := reader.latestOffset(place, ReadAllAvailable())) != place:
        rows.append(len(read_all(reader, reader.partitions(place, end))))
        place = end
    assert sum(rows) == 200
    assert len(rows) <= 4


def test_a_large_batch_does_not_wait_for_more(sqlite_store: LogStore) -> None:
    """Fifty records of some kilobytes are few, and yet as many as a batch may have."""
    sqlite_store.fill(50, data=b"x" * 5_000)
    given = {"maxBytesPerTrigger": "30000", "minOffsetsPerTrigger": "1000", "maxTriggerDelay": "1h"}
    reader = StreamReader(read_options({"url": sqlite_store.url, "topic": TOPIC, **given}))
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    second = reader.latestOffset(first, ReadAllAvailable())
    assert second != first
    assert 0 < Range.from_json(second).count() <= 5


def test_several_topics_share_the_bound(sqlite_store: LogStore) -> None:
    log = sqlite_store.outbox.log
    log.create_topic("other", partitions=2)
    for topic in (TOPIC, "other"):
        log.append(topic, [a_record(f"k-{n}", b"x" * 936) for n in range(50)])
    given = {"url": sqlite_store.url, "subscribe": f"{TOPIC},other", "maxBytesPerTrigger": "20000"}
    reader = SeveralTopics(read_topics(given))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert [0 < Range.from_json(each).count() <= 10 for each in end["topics"]] == [True, True]


def test_a_stream_ends_where_it_is_told_to(sqlite_store: LogStore) -> None:
    sqlite_store.fill(100)
    last = json.dumps({TOPIC: {"0": 2, "1": 1, **{str(p): -2 for p in range(2, PARTITIONS)}}})
    reader = StreamReader(read_options({"url": sqlite_store.url, "topic": TOPIC, "endingOffsets": last}))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert Range.from_json(end).pieces() == [Piece(0, 0, 2), Piece(1, 0, 1)]
    sqlite_store.fill(100)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
