"""Transactions of a log in files whose markers are damaged, history that was taken back, silent producers."""

import errno
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import Damaged, InvalidTransaction, OutOfSequence, PartitionUnwritable
from penstock.log.batches import LogPlace, Write
from penstock.log.files.directory import TopicFiles
from penstock.log.files.disk import Disk, DiskFile
from penstock.log.files.open_files import OpenFiles
from penstock.log.files.partition import PartitionLog
from penstock.log.files.partition_view import PartitionReader
from penstock.log.files.producers import Producers, ProducerState, newest_snapshot, snapshot_offsets
from penstock.log.files.writer import PartitionWrite
from penstock.testing import FakeClock
from penstock.wire.kafka.record_batch import BatchHeader, Marker, encode_marker, read_header
from tests.unit.log.files.partitions import TOPIC, OpenPartition, open_partition
from tests.unit.log.files.test_batch_log import Opened, a_batch, file_log, transactional


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(tmp_path / "log")
    yield opened
    opened.store.close()


# -- markers that are damaged


def hurt(log: Opened, offset: int, byte: int) -> None:
    """Damage the batch at an offset, with nothing else left that says what was in it."""
    segment = file_log(log).view(log.topic, 0).segments[0]
    position = next(at for at, header in segment.headers() if header.base_offset == offset)
    path = segment.path
    log.store.close()
    for each in [*log.folder.rglob("*.snapshot"), *log.folder.rglob("*.index")]:
        each.unlink()
    content = bytearray(path.read_bytes())
    content[position + byte] ^= 1
    path.write_bytes(content)
    log.open()


@pytest.mark.parametrize("byte", [70, 5, 22], ids=["its records", "its offset", "its attributes"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_damaged_marker_holds_nobody_up_and_lets_nothing_undecided_through(
    log: Opened, committed: bool, byte: int
) -> None:
    log.send(b"before")
    id = log.add_transaction()
    transactional(log, id, b"in", 0)
    log.send(b"beside")
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=committed)
    transactional(log, id, b"of the next", 1)
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=not committed)
    log.send(b"after")
    hurt(log, 3, byte)
    for again in range(2):
        view = file_log(log).view(log.topic, 0)
        assert view.stable == view.end == 7, "nobody waits for a marker that nobody writes"
        assert [each.value for each in view.entries(0, 1)] == [b"before"]
        with pytest.raises(Damaged, match="the marker of a transaction from offset 1 on") as caught:
            list(view.entries(1, 100))
        assert caught.value.until == 4
        assert [each.value for each in view.entries(2, 3)] == [b"beside"]
        behind = [b"after"] if committed else [b"of the next", b"after"]
        assert [each.value for each in view.entries(4, 100)] == behind
        fetched = log.batches.fetch(log.topic, 0, 0, max_bytes=10_000, committed=True)
        assert sum(read_header(each).record_count for each in fetched.pieces) == 1
        with pytest.raises(Damaged, match="from offset 1 on"):
            log.batches.fetch(log.topic, 0, 1, max_bytes=10_000, committed=True)
        if not again:
            log.again()  # what is not known is in the snapshot, too


def test_a_transaction_that_is_open_behind_damage_is_ended_as_ever(log: Opened) -> None:
    log.send(b"damaged")
    id = log.add_transaction()
    transactional(log, id, b"in", 0)
    hurt(log, 0, 70)
    assert file_log(log).view(log.topic, 0).stable == 1
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=True)
    assert [each.value for each in file_log(log).view(log.topic, 0).entries(1, 9)] == [b"in"]


# -- transactions that were taken back


def a_header(producer_id: int, offset: int, *, control: bool) -> BatchHeader:
    if control:
        batch = encode_marker(
            Marker.ABORT, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
        )
    else:
        batch = a_batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    return read_header(batch)._replace(base_offset=offset)


def test_a_batch_beside_the_transaction_that_its_producer_has_open_is_refused() -> None:
    header, opened = a_header(7, 3, control=False), ProducerState(0, opened=2)
    assert Producers().repeated(header, opened) is None
    with pytest.raises(InvalidTransaction):
        Producers().repeated(header._replace(attributes=0), opened)


class _Counted(list):  # type: ignore[type-arg]
    looks = 0

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        self.looks += 1
        return super().__getitem__(at)


def test_what_was_taken_back_is_found_without_looking_through_all_of_it() -> None:
    producers, offset = Producers(), 0
    producers.aborted = looked_at = _Counted()
    producers.note(a_header(0, 0, control=False))  # it is open all the time
    for number in range(1, 2000):
        for header in (a_header(number % 7 + 1, offset := offset + 1, control=each) for each in (False, True)):
            producers.note(header, Marker.ABORT if header.is_control else None)
    producers.note(a_header(0, offset := offset + 1, control=True), Marker.ABORT)
    behind = offset
    for number in range(8, 1008):
        producers.note(a_header(number, offset := offset + 1, control=False))
        producers.note(a_header(number, offset := offset + 1, control=True), Marker.ABORT)
    assert looked_at is producers.aborted, "it is not copied for each"
    looked_at.looks = 0
    found = producers.aborted_in(offset - 3, offset + 1)
    assert [each.producer_id for each in found] == [1006, 1007]
    found = producers.aborted_in(behind + 1, behind + 5)
    assert [each.producer_id for each in found] == [8, 9]
    assert looked_at.looks < 80
    assert {each.producer_id for each in producers.aborted_in(5, 6)} == {0, 4}
    assert producers.is_aborted(a_header(4, 5, control=False))
    assert not producers.is_aborted(a_header(3, 5, control=False))
    producers.forget_before(7)
    assert not producers.is_aborted(a_header(4, 5, control=False))
    assert producers.is_aborted(a_header(0, 0, control=False))


# -- history that was taken back


class _FailingFile(DiskFile):
    fails = False

    def sync(self) -> None:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync()


class _FailingDisk(Disk):
    def create(self, path: Path) -> DiskFile:
        return _FailingFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        return _FailingFile(os.open(path, os.O_RDWR if write else os.O_RDONLY))


def send(opened: OpenPartition, value: bytes, marker: Marker | None = None, id: int = 7) -> int:
    if marker is None:
        batch = a_batch(value, producer_id=id, producer_epoch=0, base_sequence=NEXT.n, transactional=True)
        NEXT.n += 1
    else:
        batch = bytearray(encode_marker(marker, producer_id=id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0))
    (found,) = opened.write([PartitionWrite(opened.partition, batch, [(0, read_header(batch))], marker)])
    assert found.error is None
    return found.base_offset


NEXT = SimpleNamespace(n=0)


def test_a_reader_elsewhere_forgets_what_was_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledged early, seen by a reader, and lost: also the marker that had ended a transaction."""
    NEXT.n = 0
    clock = FakeClock()
    options = {"durability": "interval", "interval_seconds": 5.0, "disk": _FailingDisk(), "clock": clock}
    with open_partition(tmp_path, clean=False, **options) as opened:
        send(opened, b"a")
        opened.writer.call(opened.partition.sync)
        opened.writer.call(opened.partition.synced)
        send(opened, b"", Marker.ABORT)
        topic = TopicFiles(Disk(), opened.folder, TOPIC, 1)
        reader = PartitionReader(OpenFiles(Disk(), 4), topic.folder(0), topic.heads, 400, topic.id, lambda: 0)
        reader.refresh(reader._heads.get(0))
        assert reader.producers.aborted
        assert reader.end == 2
        monkeypatch.setattr(_FailingFile, "fails", True)
        opened.writer.call(lambda: opened.partition.fail(OSError(errno.EIO, "no")))
        monkeypatch.setattr(_FailingFile, "fails", False)
        reader.refresh(reader._heads.get(0))
        assert reader.end == 1
        assert not reader.producers.aborted
        assert reader.stable == 0
        clock.advance(timedelta(seconds=9))
        assert send(opened, b"", Marker.COMMIT) == 2
        reader.refresh(reader._heads.get(0))
        assert [each.value for each in reader.entries(0, 9)] == [b"a"]


# -- producers that are silent


def test_a_silent_producer_is_forgotten_also_by_the_snapshot(tmp_path: Path) -> None:
    NEXT.n = 0
    clock = FakeClock()
    options = {"clock": clock, "segment_bytes": 4096, "producer_seconds": 86_400.0}

    def plain(opened: OpenPartition, id: int, sequence: int) -> object:
        batch = a_batch(b"x", producer_id=id, producer_epoch=0, base_sequence=sequence)
        (found,) = opened.write([PartitionWrite(opened.partition, batch, [(0, read_header(batch))])])
        return found.error

    with open_partition(tmp_path, clean=True, **options) as opened:
        send(opened, b"open", id=5)
        for id in range(100, 200):
            assert plain(opened, id, 0) is None
            assert isinstance(plain(opened, id, 7), OutOfSequence)
        clock.advance(timedelta(hours=20))
        assert plain(opened, 100, 1) is None
        assert len(opened.partition.producers.states) == 101
        clock.advance(timedelta(hours=5))
        assert plain(opened, 1, 0) is None
        assert sorted(opened.partition.producers.states) == [1, 5, 100]
        assert plain(opened, 150, 7) is None, "nothing is known of it: it says where it is"
        clock.advance(timedelta(hours=23))
    with open_partition(tmp_path, clean=False, **options) as opened:
        assert sorted(opened.partition.producers.states) == [1, 5, 150]
        folder = opened.partition.folder.path
        assert sorted(newest_snapshot(Disk(), folder, 1 << 60).states) == [1, 5, 150]
        assert snapshot_offsets(Disk(), folder)


def test_of_very_many_producers_those_are_known_that_were_heard_of_last(tmp_path: Path) -> None:
    """A client may name itself anew with each batch: memory stays bounded all the same."""
    NEXT.n = 0
    clock = FakeClock()
    with open_partition(tmp_path, clock=clock, producers=100) as opened:
        send(opened, b"open", id=7)
        most = 0
        for id in range(1_000, 2_000):
            clock.advance(timedelta(seconds=1))
            batch = a_batch(b"x", producer_id=id, producer_epoch=0, base_sequence=0)
            opened.write([PartitionWrite(opened.partition, batch, [(0, read_header(batch))])])
            most = max(most, len(opened.partition.producers.states))
        states = opened.partition.producers.states
        assert most <= 101
        assert {7, *range(1_930, 2_000)} <= states.keys()
        assert opened.partition.has_open(7)


def test_which_producers_were_heard_of_last_is_told_by_the_log_not_by_the_clock(tmp_path: Path) -> None:
    """A clock that is set back makes the latest seem the oldest; after a crash all seem of one moment."""
    clock, options = FakeClock(), dict[str, Any](producers=100)

    def plain(opened: OpenPartition, id: int) -> None:
        batch = a_batch(b"x", producer_id=id, producer_epoch=0, base_sequence=0)
        (found,) = opened.write([PartitionWrite(opened.partition, batch, [(0, read_header(batch))])])
        assert found.error is None

    with open_partition(tmp_path, clean=False, clock=clock, **options) as opened:
        for id in range(2_000, 2_060):
            plain(opened, id)
        clock._now_ms -= 3_600_000
        for id in range(1_000, 1_041):  # the last of them is one too many
            plain(opened, id)
        assert sorted(opened.partition.producers.states) == [*range(1_000, 1_041), *range(2_026, 2_060)]
    with open_partition(tmp_path, clock=clock, **options) as opened:
        for id in range(500, 526):
            plain(opened, id)
        assert {*range(500, 526), *range(1_000, 1_041)} <= opened.partition.producers.states.keys()


def test_a_reader_elsewhere_keeps_no_producers_but_those_with_something_open(tmp_path: Path) -> None:
    NEXT.n = 0
    with open_partition(tmp_path, clean=False) as opened:
        for id in range(20):
            send(opened, b"x", id=id)
            NEXT.n = 0
            if id:
                send(opened, b"", Marker.ABORT, id)
        topic = TopicFiles(Disk(), opened.folder, TOPIC, 1)
        reader = PartitionReader(OpenFiles(Disk(), 4), topic.folder(0), topic.heads, 400, topic.id, lambda: 0)
        reader.refresh(reader._heads.get(0))
        assert list(reader.producers.states) == [0]
        assert len(reader.producers.aborted) == 19
        assert reader.stable == 0


# -- a partition that cannot be opened


def test_a_partition_that_cannot_be_opened_refuses_and_the_others_take_their_batches(
    log: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover = PartitionLog.recover

    def failing(self: PartitionLog, start: int, passed: int = 0) -> None:
        if self.folder.partition == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        recover(self, start, passed)

    monkeypatch.setattr(PartitionLog, "recover", failing)
    first, second = log.write([Write(log.topic, each, a_batch(b"x")) for each in (0, 1)])
    assert isinstance(first.error, PartitionUnwritable)
    assert second.base_offset == 0
