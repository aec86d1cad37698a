"""Threads that meet in one log in files: neither loses what the other has written, nor waits for ever."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from penstock import points
from penstock.errors import Damaged
from penstock.log.files.disk import Disk
from penstock.log.files.heads import HeadsFile, PartitionHead
from penstock.log.files.log import FileLog
from penstock.log.files.rewriting import erase, write_beside
from penstock.log.files.writer import LogWriter
from penstock.wire.kafka import Buffer
from tests.suites.records import a_record
from tests.unit.log.files.partitions import open_partition

TURNS, THREADS = 100, 4


def test_threads_that_publish_the_first_heads_of_a_topic_at_once_lose_none(tmp_path: Path) -> None:
    failures = list[Exception]()

    def put(heads: HeadsFile, barrier: Barrier, number: int) -> None:
        barrier.wait()
        try:
            heads.put(number, PartitionHead(0, number))
        except Exception as exc:
            failures.append(exc)

    for turn in range(TURNS):
        heads, barrier = HeadsFile(Disk(), tmp_path / str(turn)), Barrier(THREADS)
        threads = [Thread(target=put, args=(heads, barrier, number)) for number in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failures == []
        assert len(heads.all()) == THREADS
        heads.close()


def test_an_erasure_and_upkeep_of_the_same_segment_do_not_share_a_file(tmp_path: Path) -> None:
    begun, go_on = Event(), Event()
    with open_partition(tmp_path) as opened:
        for number in range(60):
            opened.append(*(f"{number}-{each}" for each in "abc"))
        wanted, segment = opened.ids(), opened.partition.segments[0]

        def half_written() -> Iterator[Buffer]:
            for number, (_, _, batch) in enumerate(segment.batches()):
                if number == 1:
                    begun.set()
                    assert go_on.wait(10)
                yield batch

        def tend() -> None:
            with suppress(Damaged, OSError):
                write_beside(opened.partition, segment, half_written())

        upkeep = Thread(target=tend)

        def meanwhile() -> None:
            upkeep.start()
            assert begun.wait(10)

        points.arm("rewriting.written", meanwhile)
        try:
            opened.writer.call(lambda: erase(opened.partition, {1}, None))
        finally:
            points.disarm()
            go_on.set()
            upkeep.join()
        assert opened.ids() == wanted


def test_a_topic_that_is_deleted_while_the_writer_stops_holds_nobody_up(
    file_log: FileLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = file_log.create_topic("t", partitions=1)
    file_log.append("t", [a_record(key="k")])
    directory, files, writer = file_log.directory, file_log.files_of(topic), file_log.writer
    deleting, stopping, stop = Event(), Event(), LogWriter.stop

    def forget() -> None:
        deleting.set()
        assert stopping.wait(10)
        directory.forget(files)

    def stop_now(self: LogWriter) -> None:
        stopping.set()
        stop(self)

    monkeypatch.setattr(LogWriter, "stop", stop_now)
    threads = [
        Thread(target=lambda: writer.call(forget), daemon=True),
        Thread(target=directory.stop_writing, daemon=True),
    ]
    for each in threads:
        each.start()
        assert deleting.wait(10)
    for each in threads:
        each.join(30)
        assert not each.is_alive()
