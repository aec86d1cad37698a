"""A log in files read from its beginning to its end in whole, checked batches, beside bare `pread`."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from bench import Case, Extra, Ratio, Run, Size, Target, Value, Variant
from bench.segments import BATCH_RECORDS, MIB, PARTITIONS, a_batch, append_all, folder, opened, requests
from penstock.log.contract import Topic
from penstock.log.files.log import FileLog


@dataclass
class _Filled:
    log: FileLog
    topic: Topic
    partitions: int


def filled(partitions: int) -> Callable[[Run], AbstractContextManager[_Filled]]:
    """Return the setup: a log that holds all records."""

    @contextmanager
    def made(run: Run) -> Iterator[_Filled]:
        with folder(run) as path, opened(path) as (_, log):
            topic = log.create_topic("rows", partitions=partitions)
            append_all(log, topic, requests(partitions, run.records // BATCH_RECORDS, a_batch()))
            yield _Filled(log, topic, partitions)

    @contextmanager
    def setup(run: Run) -> Iterator[_Filled]:
        yield run.shared.get(("filled", partitions), lambda: made(run))

    return setup


def read(run: Run, at: _Filled) -> Extra:
    """Read every batch of every partition, and measure what its index takes in memory."""
    read_bytes = index_bytes = 0
    for number in range(at.partitions):
        view, offset = at.log.view(at.topic, number), 0
        while (piece := view.piece(offset, MIB, view.end)) is not None:
            read_bytes += len(piece.batches)
            offset = piece.next_offset
        index_bytes += sum(3 * 8 * len(each.index) for each in view.segments)
    return {"bytes": read_bytes, "index_bytes_per_gb": index_bytes / (read_bytes / 1e9)}


def pread(run: Run, at: _Filled) -> None:
    """Read the same bytes, a mebibyte at a time."""
    for number in range(at.partitions):
        for segment in at.log.view(at.topic, number).segments:
            fd, position = os.open(segment.path, os.O_RDONLY), 0
            while position < segment.end_position:
                position += len(os.pread(fd, min(MIB, segment.end_position - position), position))
            os.close(fd)


CASE = Case(
    name="files_read",
    about="all batches of a log in files, 1, 16 and 256 partitions, beside pread of a mebibyte each",
    records=Size(quick=200_000, full=1_000_000),
    rounds=Size(quick=3, full=5),
    variants=[
        variant
        for count in PARTITIONS
        for variant in (
            Variant(f"files, {count}", read, setup=filled(count)),
            Variant(f"pread, {count}", pread, setup=filled(count)),
        )
    ],
    targets=[
        *(
            Target(f"read_{count}", Ratio(f"files, {count}", f"pread, {count}", "cpu_us"), at_most=2)
            for count in PARTITIONS
        ),
        Target("index", Value("files, 1", "index_bytes_per_gb"), at_most=1e6),
    ],
)
