"""A disk that is full or fails: that partition refuses, reads go on, and writing goes on by itself."""

import errno
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import points
from penstock.database.migrations import migrate
from penstock.errors import PartitionUnwritable, StoreFull
from penstock.log.entry import Content
from penstock.log.files.disk import Disk, DiskFile
from penstock.log.files.log import FileLog
from penstock.log.files.rewriting import erase
from penstock.log.files.segment import HEADER_BYTES
from penstock.log.files.writer import PartitionWrite
from penstock.log.kafka_form import encode_contents
from penstock.log.store import open_store
from penstock.testing import FakeClock
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import read_header
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.unit.log.files.partitions import open_partition


class FailingFile(DiskFile):
    def __init__(self, fd: int, disk: "FailingDisk", path: Path) -> None:
        super().__init__(fd)
        self._disk, self._path, self._has_batches = disk, path, False

    def write(self, position: int, pieces: Sequence[Buffer]) -> int:
        if self._disk.is_full:
            super().write(position, [b"".join(pieces)[: self._disk.written_bytes]])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._has_batches = position >= HEADER_BYTES
        return super().write(position, pieces)

    def sync(self) -> None:
        self._disk.synced.append(self._path.name)
        if self._disk.keeps_headers_only and self._has_batches:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self._disk.failing_syncs:
            self._disk.failing_syncs -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync()

    def allocate(self, size: int) -> None:
        if self._disk.is_full or self._disk.has_no_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(size)


class FailingDisk(Disk):
    """The real disk, which refuses on demand and writes down what is synced."""

    def __init__(self) -> None:
        self.is_full, self.failing_syncs, self.synced = False, 0, list[str]()
        self.has_no_room = self.keeps_headers_only = False
        self.written_bytes = 10  # by a write that finds no room for more

    def create(self, path: Path) -> DiskFile:
        return FailingFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), self, path)

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        return FailingFile(os.open(path, os.O_RDWR if write else os.O_RDONLY), self, path)


def test_a_failed_sync_refuses_the_batch_and_that_file_is_never_synced_again(tmp_path: Path) -> None:
    disk, clock = FailingDisk(), FakeClock()
    with open_partition(tmp_path, disk=disk, clock=clock) as opened:
        assert opened.append("a").base_offset == 0
        disk.failing_syncs, disk.synced = 1, []
        error = opened.append("b", "c").error
        assert isinstance(error, PartitionUnwritable)
        assert "Input/output error" in str(error)
        assert opened.ids() == {0: "a"}, "reads go on"
        for _ in range(3):
            assert opened.append("d").error is error, "at once, and without asking the disk"
        assert disk.synced == [f"{0:020}.log"]
        clock.advance(timedelta(seconds=1))
        assert opened.append("e").base_offset == 3, "offsets of the refused batch are not given again"
        assert disk.synced.count(f"{0:020}.log") == 1
        assert opened.ids() == {0: "a", 3: "e"}
        header = opened.partition.last.header
        assert (header.base_offset, header.before_base, header.before_offset) == (3, 0, 1)
    with open_partition(tmp_path) as opened:
        assert opened.ids() == {0: "a", 3: "e"}


def test_a_sync_that_failed_is_not_made_good_by_a_second_one(tmp_path: Path) -> None:
    """The system may have dropped the bytes, and would say that all is well."""
    disk = FailingDisk()
    with open_partition(tmp_path, disk=disk, durability="interval", interval_seconds=3600.0) as opened:
        opened.append("a")
        disk.failing_syncs, disk.synced = 1, []
        with pytest.raises(OSError, match="Input/output error") as failure:
            opened.partition.sync()
        opened.partition.fail(failure.value)
        assert disk.synced == [f"{0:020}.log"]
        assert opened.ids() == {}


def test_a_full_disk_refuses_keeps_reading_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk, clock = FailingDisk(), FakeClock()
    with open_partition(tmp_path, disk=disk, clock=clock) as opened:
        opened.append("a")
        disk.is_full = True
        for _ in range(3):
            error = opened.append("b").error
            assert isinstance(error, StoreFull)
            assert error.retryable
            clock.advance(timedelta(seconds=1))
            assert opened.ids() == {0: "a"}
        disk.is_full = False
        base = opened.append("c").base_offset
        assert opened.ids() == {0: "a", base: "c"}
        assert opened.append("d").base_offset == base + 1
    assert not list(tmp_path.rglob("*.new"))
    with open_partition(tmp_path) as opened:
        assert opened.ids() == {0: "a", base: "c", base + 1: "d"}


@pytest.mark.parametrize("before", ["an append", "a failed sync"])
def test_tries_on_a_full_disk_cost_no_offsets_and_leave_no_files(tmp_path: Path, before: str) -> None:
    disk, clock = FailingDisk(), FakeClock()
    with open_partition(tmp_path, clean=False, disk=disk, clock=clock, segment_bytes=1 << 20) as opened:
        opened.append("a")
        if before == "a failed sync":
            disk.failing_syncs = 1
            assert opened.append("void").error is not None
            clock.advance(timedelta(seconds=10))
        given, files = opened.partition.next_offset, len(list(tmp_path.rglob("*.log")))
        disk.is_full = True
        for number in range(40):
            assert isinstance(opened.append(f"{number}" * 20_000, "and more").error, StoreFull)
            clock.advance(timedelta(seconds=10))
        assert (opened.partition.next_offset, len(list(tmp_path.rglob("*.log")))) == (given, files)
        disk.is_full = False
        assert opened.append("b", "c").base_offset == given
        assert opened.ids() == {0: "a", given: "b", given + 1: "c"}
    with open_partition(tmp_path) as opened:
        assert opened.ids() == {0: "a", given: "b", given + 1: "c"}


def test_of_a_round_that_has_no_room_for_its_end_the_beginning_counts(tmp_path: Path) -> None:
    """What was written before there was no room is acknowledged; the rest may be sent again at its offset."""
    disk, clock = FailingDisk(), FakeClock()
    with open_partition(tmp_path, clean=False, disk=disk, clock=clock) as opened:
        writes = []
        for number in range(4):
            batch = encode_contents([Content(f"{number}", b"k", "t", b"." * 3000, None, 1000, "o")])
            writes.append(PartitionWrite(opened.partition, batch, [(0, read_header(batch))]))
        opened.append("a")
        disk.has_no_room = True  # one of them has its place in room that was taken before
        first, *others = opened.write(writes)
        assert first.base_offset == 1
        assert all(isinstance(each.error, StoreFull) for each in others)
        assert opened.ids() == {0: "a", 1: "0"}
        disk.has_no_room = False
        clock.advance(timedelta(seconds=1))
        assert opened.append("b").base_offset == 2


def test_batches_of_a_write_that_was_cut_short_do_not_come_back_behind_others(tmp_path: Path) -> None:
    """Two of them are whole in the file; what follows them in time must not stand before them."""
    disk, clock = FailingDisk(), FakeClock()
    with open_partition(tmp_path, clean=False, disk=disk, clock=clock) as opened:
        opened.append("a")
        writes = []
        for number in range(3):
            batch = encode_contents([Content(f"{number}", b"k", "t", b".", None, 1000, "o")])
            writes.append(PartitionWrite(opened.partition, batch, [(0, read_header(batch))]))
        disk.is_full, disk.written_bytes = True, 2 * len(writes[0].batches) + 10
        assert all(isinstance(each.error, StoreFull) for each in opened.write(writes))
        disk.is_full = False
        clock.advance(timedelta(seconds=1))
        batch = encode_contents([Content("n", b"k", "t", b".", None, 1000, "o")])
        assert len(batch) == len(writes[0].batches)
        (written,) = opened.write([PartitionWrite(opened.partition, batch, [(0, read_header(batch))])])
        assert written.base_offset == 4
    with open_partition(tmp_path) as opened:
        assert opened.ids() == {0: "a", 4: "n"}


def test_a_disk_that_goes_on_failing_is_asked_less_and_less_often(tmp_path: Path) -> None:
    disk, clock = FailingDisk(), FakeClock()
    with open_partition(tmp_path, clean=False, disk=disk, clock=clock) as opened:
        opened.append("a")
        disk.keeps_headers_only = True  # so that each try costs a segment
        for _ in range(600):  # a minute
            assert opened.append("b").error is not None
            clock.advance(timedelta(seconds=0.1))
        assert len(list(tmp_path.rglob("*.log"))) < 20
        disk.keeps_headers_only = False
        clock.advance(timedelta(seconds=5))
        base = opened.append("c").base_offset
        assert opened.ids() == {0: "a", base: "c"}


def test_a_refused_batch_does_not_come_back_after_a_crash(tmp_path: Path) -> None:
    """It is whole in the old segment, but a new one was begun, whose header says where the old one ends."""
    disk, clock = FailingDisk(), FakeClock()
    with open_partition(tmp_path, clean=False, disk=disk, clock=clock) as opened:
        opened.append("a")
        disk.failing_syncs = 1
        opened.append("b")
        clock.advance(timedelta(seconds=1))
        opened.append("c")
    (tmp_path / opened.folder.name / "heads").unlink()
    with open_partition(tmp_path) as opened:
        assert opened.ids() == {0: "a", 2: "c"}


@pytest.mark.parametrize("durability", ["interval", "os"])
def test_what_was_seen_too_early_is_not_given_again_after_an_unclean_stop(tmp_path: Path, durability: str) -> None:
    """The disk loses what readers have seen; numbering goes on at the reservation, in another epoch."""
    with open_partition(tmp_path, clean=False, durability=durability, interval_seconds=100.0) as opened:
        for number in range(5):
            opened.append(f"{number}")
        assert len(opened.ids()) == 5
        position = opened.partition.last.header.base_offset
        assert position == 0
    (segment,) = tmp_path.rglob("*.log")
    content = segment.read_bytes()
    segment.write_bytes(content[:128] + bytes(len(content) - 128))  # power cut: only what was synced
    next(tmp_path.rglob("heads")).unlink()
    with open_partition(tmp_path, durability=durability) as opened:
        assert opened.ids() == {}
        base = opened.append("new").base_offset
        assert base > 5
        assert opened.partition.last.header.leader_epoch == 1
        assert opened.ids() == {base: "new"}
    with open_partition(tmp_path, durability=durability) as opened:
        assert opened.append("next").base_offset == base + 1, "after a clean stop nothing is left out"


def test_everything_is_for_its_owner_only(tmp_path: Path) -> None:
    with open_partition(tmp_path / "data") as opened:
        opened.append("a")
    for path in (tmp_path / "data").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_one_round_is_split_over_segments_that_keep_to_their_size(tmp_path: Path) -> None:
    with open_partition(tmp_path) as opened:
        for _ in range(60):
            assert opened.append("x" * 50, "y" * 50).error is None
        sizes = [each.end_position for each in opened.partition.segments]
        assert len(sizes) > 5
        assert max(sizes) <= 4096
        assert len(opened.ids()) == 120
        assert len(opened.files._opened) <= 64


def test_a_segment_is_closed_when_it_is_old(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_partition(tmp_path, clock=clock, segment_seconds=60.0) as opened:
        opened.append("a")
        clock.advance(timedelta(seconds=59))
        opened.append("b")
        clock.advance(timedelta(seconds=2))
        opened.append("c")
        assert [each.base_offset for each in opened.partition.segments] == [0, 2]


def test_a_round_that_fails_unexpectedly_leaves_no_offset_that_is_given_and_not_written(tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("nobody expects this")

    clock = FakeClock()
    with open_partition(tmp_path, clock=clock) as opened:
        opened.append("a")
        batches = [
            encode_records([KafkaRecord(0, 1000, b"k", b"v", [])], producer_id=id, producer_epoch=0, base_sequence=0)
            for id in (7, 8)
        ]
        good, bad = (PartitionWrite(opened.partition, each, [(0, read_header(each))]) for each in batches)
        assert all(each.error for each in opened.write([good, bad._replace(verify=fail)]))
        clock.advance(timedelta(seconds=1))
        assert opened.write([good])[0].error is None  # written now, and not taken for one sent again
        opened.append("b")
        values = [each.value for each in opened.partition.entries(0, 1 << 60)]
        assert values == [b"aaaaa", b"v", b"bbbbb"]


def test_before_an_erasure_closes_a_segment_the_disk_has_what_was_acknowledged(tmp_path: Path) -> None:
    disk, seen = FailingDisk(), list[bool]()
    with open_partition(tmp_path, disk=disk, durability="interval", interval_seconds=1000) as opened:
        opened.append("a")
        disk.synced = []
        name = opened.partition.last.path.name
        points.arm("partition.roll_made", lambda: seen.append(name in disk.synced))
        try:
            opened.writer.call(lambda: erase(opened.partition, {0}, None))
        finally:
            points.disarm()
    assert seen == [True]


def test_a_refusal_names_the_topic(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its folder bears an id, which nobody knows it by."""
    store = open_store(f"{tmp_path}/log/")
    try:
        migrate(store.database)
        assert isinstance(store.log, FileLog)
        partition = store.log.partition(store.log.create_topic("orders", partitions=2), 1)
        refusal = store.log.writer.call(lambda: partition.fail(OSError(errno.ENOSPC, "No space left")))
        store.log.writer.call(partition.recovered)
    finally:
        store.close()
    assert str(refusal).startswith("no space left for partition 1 of topic orders; free some")
    said = [each.message for each in caplog.records if each.name == "penstock.files"]
    assert said[0].startswith("partition 1 of topic orders refuses writes: No space left (")
    assert said[1] == "partition 1 of topic orders accepts writes again"
