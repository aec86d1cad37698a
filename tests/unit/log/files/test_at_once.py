"""Appends done in the thread that asks, and reads that find their bytes in memory."""

import random
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread, get_ident

import pytest

from penstock.errors import PartitionUnwritable, StoreFull
from penstock.log.batches import WriteResult
from penstock.log.files.disk import Disk
from penstock.log.files.partition import PartitionLog
from penstock.log.files.writer import LogWriter, PartitionWrite
from penstock.testing import FakeClock
from penstock.wire.kafka.record_batch import read_header
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.crash.waiting import wait_until
from tests.unit.log.files.partitions import OpenPartition, open_partition
from tests.unit.log.files.test_faults import FailingDisk


def a_write(opened: OpenPartition, value: bytes) -> PartitionWrite:
    batch = encode_records([KafkaRecord(0, 1000, None, value, [])])
    return PartitionWrite(opened.partition, batch, [(0, read_header(batch))])


def one(opened: OpenPartition, write: PartitionWrite) -> WriteResult | None:
    """Append one batch in this thread, if that may be."""
    return opened.writer.append_one(opened.partition, memoryview(write.batches), write.headers[0][1])


def thread_of(opened: OpenPartition, *, at_once: bool = True) -> int:
    """Append something and return the thread that told of it."""
    threads, done = list[int](), Event()

    def told(results: list[WriteResult]) -> None:
        assert results[0].error is None
        threads.append(get_ident())
        done.set()

    opened.writer.append([a_write(opened, b"v")], told, at_once=at_once)
    assert done.wait(30)
    return threads[0]


@pytest.mark.parametrize("durability", ["os", "interval"])
def test_a_small_append_that_comes_alone_is_done_in_this_thread(tmp_path: Path, durability: str) -> None:
    with open_partition(tmp_path, durability=durability) as opened:
        assert thread_of(opened) != get_ident()  # the first makes a segment
        assert thread_of(opened) == get_ident()
        assert thread_of(opened, at_once=False) != get_ident()
        assert opened.partition.end == 3


@pytest.mark.parametrize("durability", ["os", "interval"])
def test_one_batch_is_appended_without_a_round(tmp_path: Path, durability: str) -> None:
    with open_partition(tmp_path, durability=durability) as opened:
        assert one(opened, a_write(opened, b"v")) is None  # there is no segment yet
        opened.append("a")
        assert one(opened, a_write(opened, b"v")) == WriteResult(1, 0)
        assert one(opened, a_write(opened, b"v")) == WriteResult(2, 0)
        assert opened.partition.head.end == 3
        assert opened.heads.get(0) == opened.partition.head, "readers in other processes are told"
        assert opened.append("b").base_offset == 3
        assert one(opened, a_write(opened, b"v" * 40_000)) is None
    with open_partition(tmp_path) as opened:
        assert (opened.partition.end, len(opened.ids())) == (4, 4)


def test_one_batch_does_not_overtake_what_is_about_to_be_written(tmp_path: Path) -> None:
    with open_partition(tmp_path, durability="os") as opened:
        opened.append("a")
        done = Event()
        with opened.writer._lock:  # so the writer's thread cannot take it yet
            opened.writer.append([a_write(opened, b"v")], lambda results: done.set())
            assert one(opened, a_write(opened, b"v")) is None
        assert done.wait(30)


def test_one_batch_is_not_appended_if_a_round_came_before_it_and_left_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_partition(tmp_path, durability="os") as opened:
        opened.append("a")
        partition, begin = opened.partition, LogWriter._begin_alone
        left = partition._reserved - partition.next_offset
        batch = encode_records([KafkaRecord(n, 1000, None, b"", []) for n in range(left)])
        whole = PartitionWrite(partition, batch, [(0, read_header(batch))])

        def late(self: LogWriter) -> bool:
            monkeypatch.undo()
            assert opened.write([whole])[0].error is None, "another round takes all that is reserved"
            return begin(self)

        monkeypatch.setattr(LogWriter, "_begin_alone", late)
        assert one(opened, a_write(opened, b"v")) is None
        assert partition.next_offset == partition.end == partition._reserved
        assert thread_of(opened) != get_ident(), "who writes it reserves more"


def test_one_batch_is_synced_when_its_time_has_come(tmp_path: Path) -> None:
    disk = FailingDisk()
    with open_partition(tmp_path, disk=disk, durability="interval", interval_seconds=0.01) as opened:
        opened.append("a")
        for _ in range(2):
            # None while the thread that syncs is at work, which it may be just now.
            wait_until(lambda: one(opened, a_write(opened, b"v")) is not None, "it is taken at once")
            wait_until(lambda: opened.partition.synced_offset == opened.partition.end, "the disk has it")
        assert opened.partition.end == 3


@pytest.mark.parametrize("is_touched", [True, False])
def test_one_batch_that_the_disk_refuses_does_not_come_back(tmp_path: Path, is_touched: bool) -> None:
    disk, clock = FailingDisk(), FakeClock()
    with open_partition(tmp_path, disk=disk, clock=clock, durability="os") as opened:
        opened.append("a")
        assert one(opened, a_write(opened, b"b")) == WriteResult(1, 0)
        disk.is_full, disk.written_bytes = True, 70 if is_touched else 0
        result = one(opened, a_write(opened, b"c"))
        assert result is not None
        assert isinstance(result.error, StoreFull)
        assert one(opened, a_write(opened, b"d")) is None, "it is told by the writer's thread from now on"
        disk.is_full = False
        clock.advance(timedelta(seconds=1))
        following = opened.append("e").base_offset
        assert following == 3, "the offset of the refused batch is not given again"
        assert opened.partition.end == following + 1
        kept = opened.ids()
        assert list(kept) == [0, 1, following]
    with open_partition(tmp_path) as opened:
        assert opened.ids() == kept


def test_one_batch_that_fails_unexpectedly_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_partition(tmp_path, durability="os") as opened:
        opened.append("a")
        with monkeypatch.context() as patch:
            patch.setattr(PartitionLog, "commit", lambda self, *, synced: 1 / 0)
            result = one(opened, a_write(opened, b"b"))
        assert result is not None
        assert isinstance(result.error, PartitionUnwritable)
        assert opened.partition.refusal is not None
        assert not opened.writer._busy
        assert list(opened.ids()) == [0]


def test_an_append_that_waits_for_the_disk_is_not(tmp_path: Path) -> None:
    with open_partition(tmp_path, durability="fsync") as opened:
        opened.append("a")
        assert one(opened, a_write(opened, b"v")) is None
        assert {thread_of(opened) for _ in range(3)}.isdisjoint({get_ident()})


def test_nothing_overtakes_what_was_handed_over(tmp_path: Path) -> None:
    """Several threads append at once and not, at random: each finds its own records in its order."""
    count, writers = 300, 3
    offsets: dict[int, list[int]] = {number: [] for number in range(writers)}
    with open_partition(tmp_path, durability="os", segment_bytes=20_000) as opened:
        left = Event()

        def run(number: int) -> None:
            draw = random.Random(number)

            def told(results: list[WriteResult]) -> None:
                assert results[0].error is None
                offsets[number].append(results[0].base_offset)
                if sum(map(len, offsets.values())) == count * writers:
                    left.set()

            for _ in range(count):
                write, way = a_write(opened, b"v" * 50), draw.random()
                result = one(opened, write) if way < 0.4 else None
                if result is not None:
                    told([result])
                else:
                    opened.writer.append([write], told, at_once=way < 0.7)

        threads = [Thread(target=run, args=(number,)) for number in range(writers)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert left.wait(30)
        assert opened.writer._waiting_bytes == 0
    assert sorted(offset for some in offsets.values() for offset in some) == list(range(count * writers))
    assert all(some == sorted(some) for some in offsets.values())


def test_bytes_are_in_memory_once_written_and_never_behind_the_end(tmp_path: Path) -> None:
    disk = Disk()
    file = disk.create(tmp_path / "some")
    file.write(0, [b"x" * 700_000])
    known = file.is_cached(0, 700_000)  # False where the system does not say
    assert not file.is_cached(0, 700_001)
    assert not file.is_cached(800_000, 1)
    assert known == file.is_cached(699_999, 1)
    file.close()
