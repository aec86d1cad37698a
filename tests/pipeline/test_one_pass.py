"""What Spark's own pages show of a pipeline: one job for a batch, whatever its types, and whose it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.state import reader_name
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore

TABLES = 12
ROWS = 20 * TABLES
OF_A_BATCH = re.compile(r"(?P<query>.+)\nid = .+\nrunId = .+\nbatch = (?P<batch>\d+)")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


class JobsPage:
    """The descriptions of Spark's jobs since it was opened."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._before = {number for number, _ in self._all()}

    def descriptions(self) -> list[str]:
        """Return them in the order of the jobs."""
        return [said for number, said in sorted(self._all()) if number not in self._before]

    def _all(self) -> list[tuple[int, str]]:
        self._context.listenerBus().waitUntilEmpty()
        jobs = self._context.statusStore().jobsList(None)
        listed = [jobs.apply(place) for place in range(jobs.size())]
        return [(each.jobId(), _said(each.description())) for each in listed]


def _said(description: Any) -> str:
    return description.get() if description.isDefined() else ""


@pytest.fixture
def jobs(spark: Any) -> JobsPage:
    return JobsPage(spark)


def lake_words(store: LogStore, to: Path) -> list[str]:
    return ["pipeline", "lake", "--url", store.url, "--topic", TOPIC, "--to", str(to), "--once"]


def fill(store: LogStore) -> None:
    for number in range(TABLES):
        store.fill(ROWS // TABLES, type=f"type-{number}", key=f"k-{number}", data=b"{}")


@pytest.mark.parametrize(
    "more",
    [[], ["--mode", "upsert"], ["--types", "tests.pipeline.typed_shop:outbox"]],
    ids=["append", "upsert", "typed"],
)
def test_a_batch_of_many_types_is_one_job_that_reads_each_record_once(
    sqlite_store: LogStore, command: Command, tmp_path: Path, jobs: JobsPage, more: list[str]
) -> None:
    to = tmp_path / "lake"
    fill(sqlite_store)
    done = command(*lake_words(sqlite_store, to), "--batch-records", str(ROWS // 2), *more)
    # Spark counts the rows that a job has read: a second pass would count them again.
    assert (done.code, done.out) == (0, f"done: {ROWS} rows in 2 batches\n"), done.err
    found = [OF_A_BATCH.fullmatch(said) for said in jobs.descriptions()]
    assert [each and each["batch"] for each in found] == ["0", "1"], jobs.descriptions()
    assert {each and each["query"] for each in found} == {reader_name(to)}
    assert len(tables_in(to)) >= TABLES


def test_the_job_that_makes_a_table_again_says_so(
    sqlite_store: LogStore, command: Command, tmp_path: Path, spark: Any
) -> None:
    to = tmp_path / "lake"
    fill(sqlite_store)
    assert command(*lake_words(sqlite_store, to)).code == 0
    again = [word for name in ("type-1", "type-2") for word in ("--table", name)]
    assert command("pipeline", "reset", str(to), "--rebuild", *again, "--yes").code == 0
    sqlite_store.fill(10)
    jobs = JobsPage(spark)
    done = command(*lake_words(sqlite_store, to))
    assert done.code == 0, done.err
    first, *others = jobs.descriptions()
    assert first == f"{reader_name(to)}: type-1, type-2 again from the log"
    assert [OF_A_BATCH.fullmatch(said) is not None for said in others] == [True]
