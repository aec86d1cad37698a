"""Appends done in the thread that asks, and reads that find their bytes in memory."""

import random
from pathlib import Path
from threading import Event, Thread, get_ident

import pytest

from penstock.log.batches import WriteResult
from penstock.log.files.disk import Disk
from penstock.log.files.writer import PartitionWrite
from penstock.wire.kafka.record_batch import read_header
from penstock.wire.kafka.records import NewRecord, encode_records
from tests.unit.log.files.partitions import OpenPartition, open_partition


def a_write(opened: OpenPartition, value: bytes) -> PartitionWrite:
    batch = encode_records([NewRecord(0, 1000, None, value, [])])
    return PartitionWrite(opened.partition, batch, [(0, read_header(batch))])


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


def test_an_append_that_waits_for_the_disk_is_not(tmp_path: Path) -> None:
    with open_partition(tmp_path, durability="fsync") as opened:
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
                opened.writer.append([a_write(opened, b"v" * 50)], told, at_once=draw.random() < 0.5)

        threads = [Thread(target=run, args=(number,)) for number in range(writers)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert left.wait(30)
        assert opened.writer.waiting_bytes == 0
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
