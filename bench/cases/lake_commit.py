"""The commit of a batch into a table: the thousandth beside the tenth, with the ends of 256 partitions."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import pyarrow as pa

from bench import Case, Ratio, Run, Target, Variant
from penstock.pipeline.lake.commit import AppendFiles, TablePart, commit
from penstock.pipeline.lake.data_files import FileWriter
from penstock.pipeline.lake.identity import ByOffsets
from penstock.pipeline.lake.routing import OneTable
from penstock.pipeline.offsets import Range

_SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])
_PARTITIONS = 256


def put(table: Path, epoch: int) -> None:
    """Commit one batch: a row of each partition."""
    rows = pa.table({"partition": range(_PARTITIONS), "offset": [epoch] * _PARTITIONS}, schema=_SCHEMA)
    files = FileWriter(table, OneTable(_SCHEMA)).write(iter(rows.to_batches()))
    starts, ends = (dict.fromkeys(range(_PARTITIONS), n) for n in (epoch, epoch + 1))
    part = TablePart(table, _SCHEMA, tuple(files))
    assert commit(part, ByOffsets((Range("log", "rows", 1, starts, ends),)), AppendFiles())


@contextmanager
def grown(run: Run) -> Iterator[dict[int, Path]]:
    """Give a table with 10 and one with 1,000 commits, made once."""
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        table = Path(folder) / "growing"
        made: dict[int, Path] = {}
        for epoch in range(1_000):
            put(table, epoch)
            if epoch + 1 in (10, 1_000):
                made[epoch + 1] = Path(folder) / str(epoch + 1)
                copytree(table, made[epoch + 1])
        yield made


def aged(epochs: int) -> Callable[[Run], AbstractContextManager[tuple[Path, int]]]:
    """Return the setup that gives a table with so many commits."""

    @contextmanager
    def setup(run: Run) -> Iterator[tuple[Path, int]]:
        made = run.once(grown)
        with TemporaryDirectory(prefix="penstock-bench-") as folder:
            yield Path(copytree(made[epochs], Path(folder) / "table")), epochs

    return setup


def ten(run: Run, at: tuple[Path, int]) -> None:
    """Commit ten batches, so that one of them has the table's own checkpoint to write."""
    table, epochs = at
    for epoch in range(epochs, epochs + 10):
        put(table, epoch)


CASE = Case(
    name="lake_commit",
    about="ten commits into a table from the 1000th on beside those from the 10th on",
    records=10,
    variants=[Variant("from the 10th on", ten, setup=aged(10)), Variant("from the 1000th on", ten, setup=aged(1_000))],
    targets=[Target("flat", Ratio("from the 1000th on", "from the 10th on", "wall_us"), at_most=1.2)],
)
