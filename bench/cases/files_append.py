"""Batches appended to a log in files beside the bare calls: `writev`, and `writev` with `fdatasync`.

A request of 16 batches (1 MiB) is what bulk means: a Kafka client under load packs the batches of its
partitions into requests of that size, and the bare side gets the same bytes for each file in one call. With
one batch in each request (`one by one`) the cost of a request itself shows.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.memory import touch_page_cache
from bench.segments import (
    BATCH_RECORDS,
    PARTITIONS,
    RECORD_BYTES,
    REQUEST_BATCHES,
    Request,
    a_batch,
    append_all,
    folder,
    opened,
    requests,
)
from penstock.log.contract import Topic
from penstock.log.files.log import FileLog


@dataclass
class _Log:
    log: FileLog
    topic: Topic
    requests: list[Request]


@dataclass
class _Raw:
    fds: list[int]
    requests: list[Request]


def _requests(run: Run, partitions: int, request_batches: int) -> list[Request]:
    return requests(partitions, run.records // BATCH_RECORDS, a_batch(), request_batches)


def a_log(
    partitions: int, durability: str, request_batches: int = REQUEST_BATCHES
) -> Callable[[Run], AbstractContextManager[_Log]]:
    """Return the setup: a log whose partitions are there, and batches for it."""

    @contextmanager
    def setup(run: Run) -> Iterator[_Log]:
        with folder(run) as path, opened(path, durability) as (_, log):
            topic = log.create_topic("rows", partitions=partitions)
            append_all(log, topic, requests(partitions, partitions, a_batch(1)))
            made = _Log(log, topic, _requests(run, partitions, request_batches))
            touch_page_cache(run.records * RECORD_BYTES)
            yield made

    return setup


def raw_files(partitions: int, request_batches: int = REQUEST_BATCHES) -> Callable[[Run], AbstractContextManager[_Raw]]:
    """Return the setup: open files, and the same batches."""

    @contextmanager
    def setup(run: Run) -> Iterator[_Raw]:
        with folder(run) as path:
            fds = [_made(path / str(number)) for number in range(partitions)]
            try:
                made = _Raw(fds, _requests(run, partitions, request_batches))
                touch_page_cache(run.records * RECORD_BYTES)
                yield made
            finally:
                for fd in fds:
                    os.close(fd)

    return setup


def _made(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def append(run: Run, at: _Log) -> None:
    """Append all batches and wait until they are acknowledged."""
    append_all(at.log, at.topic, at.requests)


def writev(run: Run, at: _Raw) -> None:
    """Write all requests, one call for each file."""
    for request in at.requests:
        for number, batches in request:
            os.writev(at.fds[number], [batches])


def writev_and_sync(run: Run, at: _Raw) -> None:
    """Write all requests, and let the disk have each."""
    for request in at.requests:
        for number, batches in request:
            os.writev(at.fds[number], [batches])
            os.fdatasync(at.fds[number])


_BULK, _SYNCED = Size(quick=200_000, full=1_000_000), Size(quick=20_000, full=100_000)

_ROLLS = "each roll waits until the disk has 64 MiB; the bare side leaves that to the kernel, for later"
_EACH = "some 18 us of Python and 1 us of checksum a batch, beside 18 us for the bare write of its 64 KB"
_CAUSES = {count: _ROLLS if count < 256 else _EACH for count in PARTITIONS}

CASE = Case(
    name="files_append",
    about="requests of 16 batches and of one, 64 records of 1 KB each, to 1, 16, 256 partitions",
    rounds=Size(quick=3, full=5),
    variants=[
        variant
        for count in PARTITIONS
        for variant in (
            Variant(f"files, {count}", append, setup=a_log(count, "os"), records=_BULK),
            Variant(f"writev, {count}", writev, setup=raw_files(count), records=_BULK),
            Variant(f"files one by one, {count}", append, setup=a_log(count, "os", 1), records=_BULK),
            Variant(f"writev one by one, {count}", writev, setup=raw_files(count, 1), records=_BULK),
            Variant(f"files with fsync, {count}", append, setup=a_log(count, "fsync"), records=_SYNCED),
            Variant(f"writev + fdatasync, {count}", writev_and_sync, setup=raw_files(count), records=_SYNCED),
        )
    ],
    targets=[
        target
        for count in PARTITIONS
        for target in (
            Target(
                f"bulk_{count}",
                Ratio(f"files, {count}", f"writev, {count}", "wall_us"),
                at_most=2,
                cause=_CAUSES[count],
            ),
            Target(
                f"bulk_cpu_{count}",
                Ratio(f"files, {count}", f"writev, {count}", "cpu_us"),
                at_most=2,
                cause=_CAUSES[count],
            ),
            Target(
                f"single_cpu_{count}",
                Ratio(f"files one by one, {count}", f"writev one by one, {count}", "cpu_us"),
                at_most=2,
                cause=_EACH,
            ),
            Target(
                f"fsync_{count}",
                Ratio(f"files with fsync, {count}", f"writev + fdatasync, {count}", "wall_us"),
                at_most=2,
            ),
        )
    ],
)
