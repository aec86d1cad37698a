"""A batch merged into a table of upserts ten times its size: how long, and how much memory at most."""

import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import pyarrow as pa

from bench import Case, Resident, Run, Size, Target, Value, Variant
from penstock.pipeline.lake.commit import TablePart, commit
from penstock.pipeline.lake.data_files import OpenFile
from penstock.pipeline.lake.identity import ByOffsets
from penstock.pipeline.lake.upsert import BUCKETS, Upsert
from penstock.pipeline.offsets import Range

_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("deleted", pa.bool_()),
        ("bucket", pa.int32()),
    ]
)
_TIMES = 10  # as many rows are in the table
_CHUNK = 5_000
_MOST_MB = 600  # what the how-to page says: 64 MiB of the batch, and row groups that are read and written


def written(table: Path, first: int, keys: list[int]) -> TablePart:
    """Write a batch of 1 KB rows, half of each noise, as a task does."""
    rng = random.Random(first)
    file = OpenFile(table, _SCHEMA)
    for start in range(0, len(keys), _CHUNK):
        some = keys[start : start + _CHUNK]
        file.add(
            pa.record_batch(
                [
                    pa.array([f"order-{key}".encode() for key in some]),
                    pa.array([rng.randbytes(500) + b"x" * 500 for _ in some]),
                    pa.array([0] * len(some), pa.int32()),
                    pa.array(range(first + start, first + start + len(some)), pa.int64()),
                    pa.array([False] * len(some)),
                    pa.array([key % BUCKETS for key in some], pa.int32()),
                ],
                schema=_SCHEMA,
            )
        )
    return TablePart(table, _SCHEMA, (file.finish(),))


def merge(part: TablePart, first: int, many: int) -> None:
    """Merge a batch that was written."""
    batch = Range("log", "rows", 1, {0: first}, {0: first + many})
    assert commit(part, ByOffsets((batch,)), Upsert(("key",), (1,)))


def merge_alone(part: TablePart, first: int, many: int) -> dict[str, float]:
    """Merge in a process that has done nothing before; return how much more memory it needs for it."""
    with Resident() as memory:
        merge(part, first, many)
        return {"merge_peak_mb": memory.growth_mb()}


@contextmanager
def filled(run: Run) -> Iterator[Path]:
    """Give a table of ten times the rows, made once."""
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        table = Path(folder) / "table"
        for first in range(0, _TIMES * run.records, run.records):
            merge(written(table, first, list(range(first, first + run.records))), first, run.records)
        yield table


@contextmanager
def copied(run: Run) -> Iterator[TablePart]:
    """Give a copy of it, and a batch with keys from everywhere: every bucket is written anew."""
    made = run.once(filled)
    keys = random.Random(2).sample(range(_TIMES * run.records), run.records)
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        yield written(Path(copytree(made, Path(folder) / "table")), _TIMES * run.records, keys)


def random_keys(run: Run, part: TablePart) -> dict[str, float]:
    """Merge the batch in a process of its own, whose start is in the time, too."""
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        return alone.submit(merge_alone, part, _TIMES * run.records, run.records).result()


CASE = Case(
    name="lake_upsert",
    about="100k rows of 1 KB merged into 1M (quick: a fifth of both), keys from everywhere",
    records=Size(quick=20_000, full=100_000),
    rounds=Size(quick=3, full=3),
    variants=[Variant("random keys", random_keys, setup=copied)],
    targets=[Target("memory", Value("random keys", "merge_peak_mb"), at_most=_MOST_MB)],
)
