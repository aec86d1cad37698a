"""The life of a closed segment: compacted, packed, and what becomes of it when something ends in between."""

import os
import random
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock import points
from penstock.database.migrations import migrate
from penstock.delivery.retention import Retention
from penstock.delivery.retention_rule import RetentionSettings
from penstock.errors import Damaged, StoreUnsupported
from penstock.log.contract import Batch, Compaction, Keep, OffsetRange, Producer, Topic
from penstock.log.entry import Entry, content_of
from penstock.log.files.log import FileLog
from penstock.log.files.settings import FilesSettings
from penstock.log.store import Store, open_batches, open_store
from penstock.operate import log_files
from penstock.testing import FakeClock
from penstock.wire.kafka.record_batch import batches_in
from tests.suites.records import a_record
from tests.suites.refusal import refusal

SETTINGS = {"segment_bytes": 4096, "durability": "os", "index_bytes": 512, "compress_seconds": 1}
DAY_MS = 86_400_000
State = dict[str, bytes | None]


class Tended:
    """A log in files with small segments, opened again at will."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.open()

    def open(self) -> None:
        self.store: Store = open_store(f"{self.folder}/", clock=self.clock)
        assert isinstance(self.store.log, FileLog)
        self.log = self.store.log
        self.log.directory.settings = FilesSettings.load(**SETTINGS)  # type: ignore[arg-type]
        self.log.directory.upkeep._settings = self.log.directory.settings
        migrate(self.store.database)
        self.topic: Topic = self.log.create_topic("t", partitions=1)
        self.log.compact(self.topic, Compaction(DAY_MS))

    def again(self) -> None:
        self.store.close()
        self.open()

    def put(self, *pairs: tuple[str | None, bytes | None]) -> None:
        self.log.append("t", [a_record(key=key, data=value) for key, value in pairs])

    def fill(self, seed: int = 1, turns: int = 60) -> None:
        rng = random.Random(seed)
        for _ in range(turns):
            some = [(f"k{rng.randrange(20)}", rng.randbytes(20).hex().encode()) for _ in range(5)]
            self.put(*((key, None if rng.random() < 0.15 else value) for key, value in some))

    def entries(self) -> list[Entry]:
        view = self.log.view(self.topic, 0)
        return list(view.entries(0, view.end))

    @property
    def end(self) -> int:
        return self.log.view(self.topic, 0).end

    def tend(self, *, below: int | None = None) -> None:
        end = self.end if below is None else below
        now_ms = self.clock.now_ms()
        while self.log.tend(self.topic, {0: end}, leaving=lambda ranges: None, now_ms=now_ms):
            pass

    def is_sound(self) -> bool:
        return log_files.verify(str(self.folder), log_files.log_folders(str(self.folder))).is_sound


@pytest.fixture
def tended(tmp_path: Path) -> Iterator[Tended]:
    """Give an empty log that is compacted."""
    made = Tended(tmp_path / "log")
    yield made
    made.store.close()


def lasts(entries: list[Entry], offset: int) -> dict[bytes, tuple[int, bytes | None]]:
    """Return the last record of each key from an offset on."""
    return {each.key: (each.offset, each.value) for each in entries if each.key and each.offset >= offset}


def test_from_every_offset_on_the_last_record_of_each_key_is_what_it_was(tended: Tended) -> None:
    for seed in range(3):
        tended.fill(seed)
        plain, end = tended.entries(), tended.end
        tended.tend()
        found = tended.entries()
        assert len(found) < len(plain) - 150
        by_offset = {each.offset: each for each in plain}
        assert all(by_offset[each.offset] == each for each in found)
        for offset in range(end):
            assert lasts(found, offset) == lasts(plain, offset)
        closed = tended.log.view(tended.topic, 0).segments[-1].base_offset
        keys = [each.key for each in found if each.offset < closed]
        assert len(keys) == len(set(keys))  # one of each key is left where all was compacted
    assert tended.is_sound()
    tended.again()
    assert (tended.entries(), tended.end) == (found, end)


def test_a_fetch_passes_over_segments_that_hold_nothing_any_more(tended: Tended) -> None:
    for _ in range(60):
        tended.put(("k", b"again" * 100))
    tended.tend()
    assert len(tended.log.view(tended.topic, 0).segments) > 5
    with closing(open_batches(tended.store, tended.clock, batch_bytes=1 << 20)) as batches:
        first = batches.fetch(tended.topic, 0, 0, max_bytes=1, committed=True)
        assert any(header.record_count for _, header in batches_in(bytes(first.pieces[0])))


def test_records_without_a_key_stay(tended: Tended) -> None:
    for _ in range(60):
        tended.put((None, b"alone" * 10), ("k", b"again" * 10))
    tended.tend()
    assert sum(each.key is None for each in tended.entries()) == 60


def test_nothing_goes_that_a_reader_has_yet_to_pass(tended: Tended) -> None:
    tended.fill()
    plain = tended.entries()
    tended.tend(below=0)
    assert tended.entries() == plain


def test_tombstones_stay_as_long_as_they_are_set_to_and_then_go(tended: Tended) -> None:
    tended.put(("gone", b"x" * 50))
    tended.put(("gone", None))
    tended.fill()
    tended.tend()
    assert [each.value for each in tended.entries() if each.key == b"gone"] == [None]
    tended.clock.advance(timedelta(hours=23))
    tended.tend()
    assert b"gone" in {each.key for each in tended.entries()}
    tended.clock.advance(timedelta(hours=2))
    tended.tend()
    assert b"gone" not in {each.key for each in tended.entries()}


def test_a_producer_is_known_by_its_last_batch_after_all_its_records_went(tended: Tended) -> None:
    producer = Producer("p", 0, 0)
    first = tended.log.append_all([Batch("t", [content_of(a_record(key="k0"))], producer=producer)])
    for _ in range(4):
        tended.fill()
    tended.tend()
    tended.again()
    again = tended.log.append_all([Batch("t", [content_of(a_record(key="k0"))], producer=producer)])
    assert again == first


def test_compressed_segments_are_smaller_and_read_the_same(tended: Tended) -> None:
    tended.log.compact(tended.topic, None)
    for number in range(100):
        tended.put(*((f"k{each}", b"%d " % number * 60) for each in range(5)))
    plain, before = tended.entries(), sizes(tended)
    tended.clock.advance(timedelta(seconds=5))
    tended.tend()
    assert sizes(tended) < before / 2
    assert tended.entries() == plain
    tended.again()
    tended.log.compact(tended.topic, None)
    assert tended.entries() == plain
    assert tended.is_sound()
    names = {path: path.stat().st_mtime_ns for path in tended.folder.rglob("*.log")}
    tended.tend()  # nothing more to gain
    assert {path: path.stat().st_mtime_ns for path in tended.folder.rglob("*.log")} == names


def test_a_segment_is_not_compressed_before_it_is_cold(tended: Tended) -> None:
    tended.log.compact(tended.topic, None)
    for number in range(20):
        tended.put(*((f"k{each}", b"%d " % number * 60) for each in range(5)))
    assert len(generations(tended)) > 2
    tended.clock.advance(timedelta(seconds=SETTINGS["compress_seconds"]))  # type: ignore[arg-type]
    tended.tend()
    assert set(generations(tended)) == {0}, "all were closed a second ago, and not more"
    tended.clock.advance(timedelta(milliseconds=1))
    tended.tend()
    *closed, last = generations(tended)
    assert (set(closed), last) == ({1}, 0)


def generations(tended: Tended) -> list[int]:
    return [each.header.generation for each in tended.log.view(tended.topic, 0).segments]


def sizes(tended: Tended) -> int:
    return sum(each.end_position for each in tended.log.view(tended.topic, 0).segments[:-1])


def test_a_reader_goes_on_under_a_rewrite_and_a_trim(tended: Tended) -> None:
    tended.fill()
    plain = {each.offset: each for each in tended.entries()}
    view = tended.log.view(tended.topic, 0)
    held = list(view.segments)
    walk = view.entries(0, view.end)
    seen = [next(walk)]
    tended.tend()
    seen += walk
    assert all(plain[each.offset] == each for each in seen)
    view.segments = held  # as one that looked them up a moment before the swap
    assert lasts(list(view.entries(0, view.end)), 0) == lasts(list(plain.values()), 0)


POINTS = [name for name in points.declared() if name.startswith(("compaction", "compression", "rewriting"))]


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_point_nothing_is_lost_or_changed(tended: Tended, point: str) -> None:
    if "compression" in point:
        tended.log.compact(tended.topic, None)
    tended.fill()
    tended.clock.advance(timedelta(seconds=5))
    plain = tended.entries()
    tended.store.close()
    pid = os.fork()
    if pid == 0:
        try:
            tended.open()
            if "compression" in point:
                tended.log.compact(tended.topic, None)
            points.arm(point, points.kill, visit=2 if point in VISITED_OFTEN else 1)
            tended.tend()
        finally:
            os._exit(1)  # the point was not reached
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9, point
    tended.open()
    found = tended.entries()
    assert all(plain[each.offset] == each for each in found)
    assert lasts(found, 0) == lasts(plain, 0)
    assert tended.is_sound()
    tended.tend()
    assert lasts(tended.entries(), 0) == lasts(plain, 0)


VISITED_OFTEN = {"compaction.segment", "rewriting.written", "rewriting.swapped"}


def test_a_damaged_segment_is_neither_compacted_nor_dropped(tended: Tended) -> None:
    tended.fill()
    tended.put(("end", b"x"))
    tended.store.close()
    path = sorted(tended.folder.rglob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    tended.open()
    tended.tend()
    assert path.read_bytes() == content
    assert not list(tended.folder.rglob("*.new"))
    refusal(Damaged, tended.entries)


def test_retention_by_age_and_size_removes_whole_segments(tended: Tended) -> None:
    tended.log.compact(tended.topic, None)
    settings = RetentionSettings.load(batch_size=10)
    for _ in range(40):
        records = [a_record(data=b"x" * 100, timestamp_ms=tended.clock.now_ms()) for _ in range(5)]
        tended.log.append("t", records)
        tended.clock.advance(timedelta(days=1))
    retention = Retention(tended.store, settings, tended.clock)
    before = len(list(tended.folder.rglob("*.log")))
    while retention.run().full:
        pass
    start = tended.log.bounds("t", 0).start
    assert 150 < start <= 170
    assert len(list(tended.folder.rglob("*.log"))) < before / 2
    tended.log.retain(tended.topic, Keep(-1, 2000, -1))
    retention = Retention(tended.store, settings, tended.clock)
    while retention.run().full:
        pass
    assert tended.log.sizes(tended.topic, [OffsetRange(0, 0, 1 << 40)])[0] <= 2000
    assert tended.is_sound()


@pytest.mark.parametrize("keep", [Keep(86_400_000, -1, -1), Keep(-1, 2000, -1)], ids=["age", "size"])
def test_retention_goes_on_in_the_others_where_one_partition_is_damaged(
    tended: Tended, keep: Keep, caplog: pytest.LogCaptureFixture
) -> None:
    topic = tended.log.create_topic("two", partitions=2)
    tended.log.retain(topic, keep)
    for _ in range(20):
        for number in range(2):
            records = [a_record(data=b"x" * 100, timestamp_ms=tended.clock.now_ms()) for _ in range(5)]
            tended.log.append("two", records, partition=number)
        tended.clock.advance(timedelta(days=1))
    path = tended.log.view(topic, 0).segments[0].path
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    retention = Retention(tended.store, RetentionSettings.load(), tended.clock)
    while retention.run("two").full:
        pass
    assert tended.log.bounds("two", 0).start == 0
    assert path.read_bytes() == content
    assert tended.log.bounds("two", 1).start > 50
    assert "nothing of two/0 is deleted by retention" in caplog.text
    assert path.name in caplog.text


def test_another_engine_refuses_to_compact(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/shop.db")
    migrate(store.database)
    topic = store.log.create_topic("t", partitions=1)
    refusal(StoreUnsupported, store.log.compact, topic, Compaction(1))
    store.close()
