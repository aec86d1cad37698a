"""kill -9 of the driver around the table's commit: nothing lost, nothing doubled; unchecked it doubles."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from penstock.pipeline.tables import vacuum
from tests.crash.waiting import wait_until
from tests.pipeline.conftest import ROOT, WORKERS_PATH, need_java
from tests.pipeline.killing import RECORDS_PER_BATCH, KillingSink, start
from tests.pipeline.stores import LogStore
from tests.services.budget import Budget

BEFORE, AFTER = "pipeline.before_table_commit", "pipeline.after_table_commit"
BATCHES = 3
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def die(store: LogStore, folder: Path, point: str, batch: int) -> None:
    """Run a driver of its own until it is killed at a point of a batch."""
    need_java()
    arguments = [store.url, str(folder / "table"), str(folder / "checkpoint"), point, str(batch)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.killing", *arguments],
        env=os.environ | {"PYTHONPATH": WORKERS_PATH},
        cwd=ROOT,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]


def die_at_random(store: LogStore, folder: Path, rng: random.Random) -> None:
    """Run a driver of its own and kill it, with all its processes, some time after it has begun to write.

    It may have come to the end before.
    """
    need_java()
    arguments = [store.url, str(folder / "table"), str(folder / "checkpoint"), BEFORE, "never"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.killing", *arguments],
        env=os.environ | {"PYTHONPATH": WORKERS_PATH},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: (folder / "table").exists() or driver.poll() is not None, "it writes", seconds=300)
    with suppress(subprocess.TimeoutExpired):
        driver.wait(rng.uniform(0, 4))
    if driver.poll() is None:
        root = psutil.Process(driver.pid)
        for process in [*root.children(recursive=True), root]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        driver.wait()


def finish(spark: Any, store: LogStore, folder: Path, **options: str) -> None:
    """Go on from the same checkpoint, in this process, to the end of the log."""
    spark.dataSource.register(KillingSink)
    start(spark, store.url, str(folder / "table"), str(folder / "checkpoint"), **options).awaitTermination()


def places(table: Path) -> list[tuple[int, int]]:
    found = DeltaTable(table).to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in found)


def check_whole(store: LogStore, table: Path) -> None:
    """Find every record once; then remove what the kills left, and find the same."""
    assert places(table) == sorted(store.records())
    for file in table.glob("*.parquet"):
        os.utime(file, (1_000, 1_000))
    vacuum(table, older_than_hours=1, dry_run=False)
    kept = {Path(uri).name for uri in DeltaTable(table).file_uris()}
    assert {file.name for file in table.glob("*.parquet")} == kept
    assert places(table) == sorted(store.records())


def test_a_killed_driver_loses_and_doubles_nothing_and_without_the_check_it_does(
    sqlite_store: LogStore, spark: Any, tmp_path: Path, budget: Budget
) -> None:
    sqlite_store.fill(RECORDS_PER_BATCH * BATCHES)
    for each in budget("pipeline.kill"):
        folder = tmp_path / str(each.number)
        if each.number == 1:
            die(sqlite_store, folder, BEFORE, 1)
            assert len(list((folder / "table").glob("*.parquet"))) > len(
                DeltaTable(folder / "table").file_uris()
            )
            die(sqlite_store, folder, AFTER, 1)
            shutil.copytree(folder, tmp_path / "control")
        else:
            rng = random.Random(each.seed)
            for _ in range(rng.randint(1, 2)):
                die_at_random(sqlite_store, folder, rng)
        finish(spark, sqlite_store, folder)
        check_whole(sqlite_store, folder / "table")

    finish(spark, sqlite_store, tmp_path / "control", unchecked="true")
    found = places(tmp_path / "control" / "table")
    assert len(found) == len(sqlite_store.records()) + RECORDS_PER_BATCH
    assert len(set(found)) == len(sqlite_store.records())
