"""`penstock reconcile` of a lake, values and all: the memory of the command, also at many times the size."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from bench import Case, Ratio, Run, Size, Target, Value, Variant, launcher
from bench.errors import NotMeasured
from bench.run import pick
from penstock import Outbox, Record
from tests.pipeline.stores import PARTITIONS, TOPIC
from tests.pipeline.test_continue import Driver

_CHUNK, _BATCH = 10_000, 100_000
_TIMES = Size(quick=3, full=10)
_MOST_MB = 250  # Python with Arrow and delta-rs, of which 130 MB before it looks at anything; some batches


@dataclass
class Filled:
    """A log, and a lake that holds all of it."""

    outbox: Outbox
    to: Path
    rows: int

    @property
    def url(self) -> str:
        """The address of the log."""
        return self.outbox.url


@contextmanager
def filled(run: Run, times: int | Size) -> Iterator[Filled]:
    """Give a log of 100-byte rows and its lake, written as Spark's tasks write it, without Spark."""
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        outbox = Outbox(f"sqlite:///{folder}/log.db")
        outbox.migrate()
        outbox.log.create_topic(TOPIC, partitions=PARTITIONS)
        made = Filled(outbox, Path(folder) / "lake", run.records * pick(times, run.full))
        driver, log = None, cast(Any, outbox)  # all that it asks for is the address
        for first in range(0, made.rows, _CHUNK):
            outbox.log.append(TOPIC, [_record(n) for n in range(first, min(first + _CHUNK, made.rows))])
            if first + _CHUNK >= made.rows or not (first + _CHUNK) % _BATCH:
                driver = driver or Driver(log, made.to, Path(folder) / "checkpoint")
                driver.step()
        yield made
        outbox.close()


def lake_of(times: int | Size) -> Callable[[Run], AbstractContextManager[Filled]]:
    """Return the setup of a lake so many times the size, made once."""

    def once(run: Run) -> AbstractContextManager[Filled]:
        return filled(run, times)

    @contextmanager
    def setup(run: Run) -> Iterator[Filled]:
        yield run.once(once)

    return setup


def reconciled(run: Run, at: Filled) -> dict[str, float]:
    """Run the command in a process of its own."""
    words = ["reconcile", "--url", at.url, "--topic", TOPIC, "--lake", str(at.to)]
    program = [sys.executable, "-c", "from penstock.cli import main; main()", *words]
    report = at.to.with_name("cost")
    start = [sys.executable, "-I", "-S", launcher.__file__, str(report), *program]
    done = subprocess.run(start, capture_output=True, text=True, check=True)
    if done.stdout != f"reconciled: logged={at.rows} table={at.rows}\n":
        raise NotMeasured(f"it said {done.stdout or done.stderr!r}")
    return {"records": at.rows, "command_peak_mb": json.loads(report.read_text())["rss_peak_mb"]}


def _record(number: int) -> Record:
    value = f'{{"order_id": {number}, "note": "{number:064}"}}'.encode()
    return Record(f"r-{number}", f"order-{number % 10_000}", value, "placed", (), 1_700_000_000_000 + number)


CASE = Case(
    name="lake_reconcile",
    about="reconcile a lake with its log, 1M and 10M rows (quick: 200k and 600k), the memory of the command",
    records=Size(quick=200_000, full=1_000_000),
    rounds=1,
    variants=[
        Variant("rows", reconciled, setup=lake_of(1)),
        Variant("many times the rows", reconciled, setup=lake_of(_TIMES)),
    ],
    targets=[
        Target("flat", Ratio("many times the rows", "rows", "command_peak_mb"), at_most=1.15),
        Target("memory", Value("many times the rows", "command_peak_mb"), at_most=_MOST_MB),
    ],
    warm_up=False,
)
