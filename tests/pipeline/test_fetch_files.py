"""Fetching from a log in files: the columns say what the log says, also of odd records and odd batches."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from penstock.database.migrations import migrate
from penstock.database.naming import Names
from penstock.log.contract import Batch, Compaction, OffsetRange
from penstock.log.entry import Content, Entry
from penstock.log.files.log import FileLog
from penstock.log.files.settings import FilesSettings
from penstock.log.store import Store, open_store
from penstock.pipeline.offsets import Piece
from penstock.pipeline.source.fetch import open_fetcher
from penstock.pipeline.source.fetch.contract import Request
from penstock.wire.kafka.headers import encode_headers

ALL = ("key", "value", "type", "headers", "offset")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Give an empty log in files with small segments."""
    store = open_store(f"{tmp_path}/log/")
    assert isinstance(store.log, FileLog)
    store.log.directory.settings = FilesSettings.load(segment_bytes=20_000, durability="os")
    migrate(store.database)
    store.log.create_topic("t", partitions=2)
    yield store
    store.close()


def contents(rng: random.Random, count: int, *, odd: bool) -> Iterator[Content]:
    for number in range(count):
        headers = [None, encode_headers((("a", b"1"), ("b", None))), encode_headers((("", b""),))]
        if odd:
            headers += [b"no headers", encode_headers((("ce_type", b"x"),)), encode_headers((("ce_id", b""),))]
        yield Content(
            f"id-{number}",
            rng.choice([None, b"", b"key", rng.randbytes(rng.choice([3, 200, 20_000]))]),
            rng.choice([None, "order.placed", "größe"]),
            rng.choice([None, b"", rng.randbytes(rng.choice([3, 63, 64, 8192]))]),
            rng.choice(headers),
            rng.choice([0, 1_700_000_000_000 + number]),
            rng.choice([None, "ada"]),
        )


def fetched(store: Store, low: int, high: int, columns: tuple[str, ...] = ALL) -> list[tuple[object, ...]]:
    topic = store.log.topic("t")
    fetcher = open_fetcher(store.url, Names())
    rows = [
        tuple(row.values())
        for batch in fetcher.batches(Request(topic.id, [Piece(0, low, high)], columns))
        for row in batch.to_pylist()
    ]
    fetcher.close()
    return rows


def logged(store: Store, low: int, high: int) -> list[tuple[object, ...]]:
    found = store.log.read_ranges(store.log.topic("t"), [OffsetRange(0, low, high)], max_bytes=1 << 40)
    return [_row(each) for each in found.entries]


def _row(each: Entry) -> tuple[object, ...]:
    return each.partition, each.offset, each.type, each.timestamp_ms, each.key, each.value, each.headers


@pytest.mark.parametrize("odd", [False, True])
def test_columns_say_what_the_log_says(store: Store, odd: bool) -> None:
    rng = random.Random(7)
    for count in (1, 2, 50, 300):
        store.log.append_all([Batch("t", list(contents(rng, count, odd=odd)), 0)])
    assert fetched(store, 0, 353) == logged(store, 0, 353)
    for low, high in ((0, 1), (1, 3), (2, 340), (100, 101), (352, 353), (5, 5)):
        assert fetched(store, low, high) == logged(store, low, high)


def test_what_is_not_asked_for_is_null_and_costs_no_look_at_headers(store: Store) -> None:
    store.log.append_all([Batch("t", list(contents(random.Random(1), 10, odd=False)), 0)])
    rows = fetched(store, 0, 10, ("value",))
    assert {(row[2], row[6]) for row in rows} == {(None, None)}
    assert [row[5] for row in rows] == [row[5] for row in logged(store, 0, 10)]


def test_compacted_and_compressed_segments_are_fetched_as_they_are_read(store: Store) -> None:
    log = store.log
    assert isinstance(log, FileLog)
    log.directory.upkeep._settings = FilesSettings.load(compress_seconds=0.001)
    topic = log.topic("t")
    for turn in range(40):
        some = [Content(f"{turn}-{n}", b"k%d" % n, "t", b"v" * 200, None, turn) for n in range(20)]
        log.append_all([Batch("t", some, 0)])
    log.compact(topic, Compaction(1))
    log.tend(topic, {0: 800}, leaving=lambda ranges: None, now_ms=1 << 50)
    rows = fetched(store, 0, 800)
    assert 20 <= len(rows) < 400
    assert rows == logged(store, 0, 800)
