"""Writing back on a real Spark, killed before and after the release: every record is copied once.

Without the look whether a batch was released, records are doubled.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.errors import StreamingQueryException

from penstock.pipeline import register
from tests.crash.waiting import wait_until
from tests.pipeline.conftest import ROOT, WORKERS_PATH, need_java
from tests.pipeline.copying import COPIES, copy
from tests.pipeline.killing import RECORDS_PER_BATCH, WHERE, KillingBack
from tests.pipeline.stores import PARTITIONS, LogStore
from tests.services.budget import Budget

BEFORE, AFTER = "log.before_release", "log.after_release"
BATCHES = 3
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture
def killing(spark: Any) -> Iterator[Any]:
    """Give the process's Spark with writers that can be killed."""
    spark.dataSource.register(KillingBack)
    yield spark
    register(spark)  # other tests have the same session


def copied(store: LogStore) -> list[str]:
    """Return where the copied records stood."""
    log = store.outbox.log
    return sorted(
        (each.data or b"").decode()
        for partition in range(PARTITIONS)
        for each in log.read(COPIES, partition, 0, 1_000_000, max_bytes=1 << 40)
    )


def wanted(store: LogStore) -> list[str]:
    return sorted(f"{partition}/{offset}" for partition, offset in store.records())


def begin(store: LogStore, checkpoint: Path, where: str = "") -> subprocess.Popen[bytes]:
    """Start a driver of its own, to be killed."""
    need_java()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.copying", store.url, str(checkpoint), "3"],
        env=os.environ | {"PYTHONPATH": WORKERS_PATH, WHERE: where},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def die(store: LogStore, checkpoint: Path, where: str) -> None:
    with begin(store, checkpoint, where) as driver:
        _, said = driver.communicate(timeout=300)
    assert driver.returncode == -signal.SIGKILL, said.decode()[-2000:]


def die_at_random(store: LogStore, checkpoint: Path, rng: random.Random) -> bool:
    """Kill a driver some time after it has begun; return whether it had not come to its end before."""
    with begin(store, checkpoint) as driver:
        wait_until(lambda: (checkpoint / "offsets").exists() or driver.poll() is not None, "it works", seconds=300)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(rng.uniform(0, 3))
        killed = driver.poll() is None
        if killed:
            root = psutil.Process(driver.pid)
            for process in [*root.children(recursive=True), root]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        driver.communicate()
    return killed


def test_a_killed_write_back_loses_and_doubles_nothing_and_without_the_check_it_does(
    sqlite_store: LogStore, killing: Any, tmp_path: Path, budget: Budget
) -> None:
    store, kills = sqlite_store, 0
    store.fill(RECORDS_PER_BATCH * BATCHES)
    log = store.outbox.log
    for each in budget("pipeline.write_back_kill"):
        if each.number > 1:
            log.delete_topic(COPIES)
        log.create_topic(COPIES, partitions=PARTITIONS)
        checkpoint = tmp_path / f"checkpoint-{each.number}"
        if each.number == 1:
            # With three tasks, then two: rows change their tasks.
            with pytest.raises(StreamingQueryException):
                copy(killing, store.url, checkpoint, 3, kill=f"{BEFORE} 1").awaitTermination()
            assert len(copied(store)) == RECORDS_PER_BATCH
            die(store, checkpoint, f"{AFTER} 1")
            assert len(copied(store)) == 2 * RECORDS_PER_BATCH
            kills += 2
            shutil.copytree(checkpoint, tmp_path / "control")
            with (
                closing(sqlite3.connect(tmp_path / "shop.db")) as db,
                closing(sqlite3.connect(tmp_path / "control.db")) as other,
            ):
                db.backup(other)
        else:
            rng = random.Random(each.seed)
            for _ in range(rng.randint(1, 2)):
                kills += die_at_random(store, checkpoint, rng)
        copy(killing, store.url, checkpoint, 2).awaitTermination()
        assert copied(store) == wanted(store)
    assert kills > each.number

    control = LogStore(f"sqlite:///{tmp_path}/control.db")
    try:
        copy(killing, control.url, tmp_path / "control", 2, unchecked="true").awaitTermination()
        found = copied(control)
    finally:
        control.close()
    assert len(found) == len(set(found)) + RECORDS_PER_BATCH
    assert sorted(set(found)) == wanted(store)


def test_a_batch_query_and_a_window_are_written_back(sqlite_store: LogStore, spark: Any, tmp_path: Path) -> None:
    store = sqlite_store
    store.fill(200)
    store.outbox.log.create_topic(COPIES, partitions=PARTITIONS)
    frame = spark.read.format("penstock").options(url=store.url, topic="orders").load()
    counts = frame.groupBy("type").count()
    rows = counts.selectExpr("type AS key", "to_json(struct(type, count)) AS value", "'counted' AS type")
    for _ in range(2):
        writer = rows.write.format("penstock").mode("append").options(url=store.url, topic=COPIES)
        writer.option("txnAppId", "counts").option("txnVersion", "1").save()
    assert len(copied(store)) == 3

    events = spark.readStream.format("penstock").options(url=store.url, topic="orders").load()
    windows = (events.withWatermark("timestamp", "10 seconds").groupBy("type", _minute()).count()).selectExpr(
        "type AS key", "CAST(count AS STRING) AS value"
    )
    writer = windows.writeStream.format("penstock").outputMode("append").trigger(availableNow=True)
    options = {"url": store.url, "topic": COPIES, "checkpointLocation": str(tmp_path / "windows")}
    writer.options(**options).start().awaitTermination()
    found = [value for value in copied(store) if value.isdigit()]
    assert found
    assert sum(map(int, found)) <= 200
    writer.options(**options).start().awaitTermination()
    assert [value for value in copied(store) if value.isdigit()] == found


def _minute() -> Any:
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

    return F.window("timestamp", "1 minute")
