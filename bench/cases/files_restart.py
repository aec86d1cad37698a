"""A log in files of 10 GB starts again after its writer was killed: all is open, one append acknowledged.

Its closed segments hold holes in place of batches (a sparse file each), under headers, indexes and snapshots
as the writer makes them: a start reads no batch of them. The segments that are written are real, and are
written when the process is killed.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import Case, Extra, Run, Size, Target, Value, Variant
from bench.segments import MIB, TOPIC, folder, opened
from penstock.log.files.disk import Disk, write_whole
from penstock.log.files.index import SegmentEnd, SparseIndex
from penstock.log.files.producers import Producers
from penstock.log.files.segment_header import HEADER_BYTES, SegmentHeader
from penstock.log.files.snapshots import write_snapshot
from penstock.log.topics import topic_uuid

PARTITIONS, SEGMENTS, SEGMENT_BYTES = 16, 10, 64 * MIB  # 10.7 GB
_SEGMENT_RECORDS, _INDEX_BYTES = 60_000, 32 * 1024


def _made(path: Path) -> None:
    """Make the log with its closed segments."""
    with opened(path) as (_, log):
        topic = log.create_topic(TOPIC, partitions=PARTITIONS)
        log.claim()
        uuid = topic_uuid(log.identity().id, topic.id)
    disk = Disk()
    for partition in range(PARTITIONS):
        home = path / "topics" / str(uuid) / str(partition)
        disk.make_folder(home)
        before = (-1, 0, 0)
        for number in range(SEGMENTS + 1):
            base = number * _SEGMENT_RECORDS
            header = SegmentHeader(uuid, partition, base, 0, 0, 1, *before)
            file = disk.create(home / f"{base:020}.log")
            file.write(0, [header.encode()])
            if number < SEGMENTS:
                file.truncate(SEGMENT_BYTES)
                end = SegmentEnd(base, 0, SEGMENT_BYTES, base + _SEGMENT_RECORDS)
                write_whole(disk, home / f"{base:020}.index", _index(end).encode(end))
            file.sync()
            file.close()
            before = (base, SEGMENT_BYTES, base + _SEGMENT_RECORDS)
        producers = Producers()
        producers.offset = SEGMENTS * _SEGMENT_RECORDS
        write_snapshot(disk, home, producers)


def _index(end: SegmentEnd) -> SparseIndex:
    index = SparseIndex(_INDEX_BYTES)
    for at in range(HEADER_BYTES, SEGMENT_BYTES, _INDEX_BYTES):
        index.note(end.base_offset + at // 1100, at, 1)
    return index


def _start(name: str, path: Path) -> subprocess.Popen[str]:
    """Start a program with its bytecode at hand, as what is installed has it: the first one writes it."""
    command = [sys.executable, "-m", "bench.file_programs", name, str(path), str(PARTITIONS)]
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(path / "bytecode")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


@contextmanager
def killed(run: Run) -> Iterator[Path]:
    """Give a log whose writer was killed while it appended."""
    path = run.shared.get("log", lambda: _log(run))
    writer = _start("load", path)
    assert writer.stdout is not None
    for _ in range(20):
        assert writer.stdout.readline()
    writer.kill()
    writer.communicate()
    yield path


@contextmanager
def killed_without_heads(run: Run) -> Iterator[Path]:
    """Give the same without what the writer has published: the segments that are written are read whole."""
    with killed(run) as path:
        for each in path.rglob("heads"):
            each.unlink()
        yield path


@contextmanager
def _log(run: Run) -> Iterator[Path]:
    with folder(run) as path:
        _made(path)
        yield path


def restart(run: Run, path: Path) -> Extra:
    """Start a process that opens the log and appends; its whole life is `process_seconds`."""
    size = sum(each.stat().st_size for each in path.rglob("*.log"))
    begun = time.perf_counter()
    process = _start("restart", path)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return {**json.loads(output), "process_seconds": time.perf_counter() - begun, "log_gb": size / 1e9}


CASE = Case(
    name="files_restart",
    about="restart of a log in files of 10 GB, sparse, after kill -9 of its writer, 16 partitions",
    rounds=Size(quick=1, full=5),
    warm_up=False,
    variants=[
        Variant("killed", restart, setup=killed),
        Variant("killed, heads lost", restart, setup=killed_without_heads),
    ],
    targets=[
        Target("restart", Value("killed", "process_seconds"), at_most=2),
        Target("heads_lost", Value("killed, heads lost", "process_seconds"), at_most=2),
    ],
)
