"""A batch merged into a table of upserts ten times its size: how long, and how much memory at most."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import pyarrow as pa

from bench import Case, Resident, Run, Size, Target, Value, Variant
from penstock.pipeline.committing import TablePart, commit
from penstock.pipeline.identity import ByOffsets
from penstock.pipeline.offsets import Range
from penstock.pipeline.upsert import BUCKETS
from penstock.pipeline.upsert.merging import Upsert
from penstock.pipeline.writing import OpenFile

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


def merge(table: Path, first: int, keys: list[int]) -> None:
    """Merge a batch of 1 KB rows, half of each noise."""
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
    part = TablePart(table, _SCHEMA, (file.finish(),))
    batch = Range("log", "rows", 1, {0: first}, {0: first + len(keys)})
    assert commit(part, ByOffsets((batch,)), Upsert(("key",), (1,)))


@contextmanager
def filled(run: Run) -> Iterator[Path]:
    """Give a table of ten times the rows, made once."""
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        table = Path(folder) / "table"
        for number in range(_TIMES):
            merge(table, number * run.records, list(range(number * run.records, (number + 1) * run.records)))
        yield table


@contextmanager
def copied(run: Run) -> Iterator[Path]:
    """Give a copy of it."""
    made = run.once(filled)
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        yield Path(copytree(made, Path(folder) / "table"))


def random_keys(run: Run, table: Path) -> dict[str, float]:
    """Merge keys from everywhere: every bucket is written anew."""
    keys = random.Random(2).sample(range(_TIMES * run.records), run.records)
    with Resident() as memory:
        before = memory.now_mb()
        merge(table, _TIMES * run.records, keys)
        return {"merge_peak_mb": memory.peak_mb() - before}


CASE = Case(
    name="lake_upsert",
    about="100k rows of 1 KB merged into 1M (quick: a fifth of both), keys from everywhere",
    records=Size(quick=20_000, full=100_000),
    rounds=Size(quick=3, full=3),
    variants=[Variant("random keys", random_keys, setup=copied)],
    targets=[Target("memory", Value("random keys", "merge_peak_mb"), at_most=_MOST_MB)],
)
