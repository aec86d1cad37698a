"""A log in files with many partitions, all written and read: descriptors and memory stay bounded."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import Case, Extra, Run, Size, Target, Value, Variant
from bench.segments import folder

PARTITIONS = 4_000


@contextmanager
def empty(run: Run) -> Iterator[Path]:
    """Give an empty folder."""
    with folder(run) as path:
        yield path / "log"


def write_and_read(run: Run, path: Path) -> Extra:
    """Append to all partitions and read them in a process of its own."""
    command = [sys.executable, "-m", "bench.file_programs", "partitions", str(path), str(run.records)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return {**found, "memory_kb_per_partition": found["memory_mb"] * 1e3 / run.records}


CASE = Case(
    name="files_partitions",
    about="4 000 partitions of a log in files, each appended to and read: descriptors and memory",
    rounds=Size(quick=1, full=3),
    warm_up=False,
    variants=[
        Variant("400", write_and_read, setup=empty, records=400),
        Variant("4000", write_and_read, setup=empty, records=PARTITIONS),
    ],
    targets=[
        Target("descriptors", Value("4000", "descriptors"), at_most=600),
        Target("memory", Value("4000", "memory_mb"), at_most=128),
    ],
)
