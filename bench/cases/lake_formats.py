"""The commit of a batch into an Iceberg table beside that into a Delta one, of 256 partitions."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import Case, Ratio, Run, Target, Variant
from bench.cases.lake_commit import put
from penstock.pipeline.lake.iceberg.catalog import begin

_BEFORE, _COMMITS = 120, 10  # as many snapshots as a table keeps, and some


def made(iceberg: bool) -> Callable[[Run], AbstractContextManager[Path]]:
    """Return the setup that gives a table with some commits."""

    @contextmanager
    def setup(run: Run) -> Iterator[Path]:
        with TemporaryDirectory(prefix="penstock-bench-") as folder:
            if iceberg:
                begin(Path(folder), None, None)
            table = Path(folder) / "table"
            for epoch in range(_BEFORE):
                put(table, epoch)
            yield table

    return setup


def commits(run: Run, table: Path) -> None:
    """Commit ten batches."""
    for epoch in range(_BEFORE, _BEFORE + _COMMITS):
        put(table, epoch)


CASE = Case(
    name="lake_formats",
    about="ten commits into an Iceberg table beside a Delta table",
    records=_COMMITS,
    variants=[
        Variant("Delta", commits, setup=made(iceberg=False)),
        Variant("Iceberg", commits, setup=made(iceberg=True)),
    ],
    targets=[
        Target("iceberg", Ratio("Iceberg", "Delta", "cpu_us"), at_most=8),
        Target("iceberg_wall", Ratio("Iceberg", "Delta", "wall_us"), at_most=8),
    ],
)
