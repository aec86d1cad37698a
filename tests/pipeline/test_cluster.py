"""On a real cluster: a master and two workers, executors and drivers killed, a folder that is not seen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.errors import InvalidOption
from penstock.pipeline.address import check_reach
from penstock.pipeline.lake.paths import tables_in
from tests.crash.waiting import wait_until
from tests.pipeline import commands
from tests.pipeline.cluster import LOOPBACK, SparkCluster, java_options
from tests.pipeline.conftest import WORKERS_PATH, Command, need_java
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_continue import places

BATCH = 2_100  # two tasks in a batch, so that both workers have work
RECORDS = 4 * BATCH  # one before an executor is killed, one before the driver is, and some that are left


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
@pytest.mark.parametrize("url", ["sqlite:///shop.db", "file:///var/log/shop"])
def test_a_store_in_files_is_refused_on_a_cluster(penstock: Command, url: str, master: str) -> None:
    done = penstock("pipeline", "lake", "--url", url, "--to", "lake", "--master", master)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert f"a database that every executor of {master} reaches" in done.err
    assert not Path("lake").exists()


def test_a_database_is_taken_there_and_a_file_here() -> None:
    check_reach("postgresql://host/shop", "spark://host:7077")
    for master in ("local", "local[*]", "local[2]"):
        check_reach("sqlite:///shop.db", master)
    with pytest.raises(InvalidOption):
        check_reach("sqlite:///shop.db", "local-cluster[2,1,1024]")


@pytest.fixture
def unseen(tmp_path: Path) -> Path:
    """Give a folder that one worker does not see."""
    folder = tmp_path / "unseen"
    folder.mkdir()
    return folder


@pytest.fixture
def cluster(tmp_path: Path, unseen: Path) -> Iterator[SparkCluster]:
    """Give a master and two workers."""
    need_java()
    cluster = SparkCluster(tmp_path / "cluster")
    try:
        cluster.add_workers(one=None, two=unseen)
        yield cluster
    finally:
        cluster.stop()


def begin(cluster: SparkCluster, store: LogStore, said: Path, *folders: Path) -> subprocess.Popen[bytes]:
    """Start a driver as a user does, with the cluster's master; it fills one lake after the other."""
    conf = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": java_options(),
        "spark.executorEnv.PYTHONPATH": WORKERS_PATH,
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # nothing begins before both are there
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    line = ["pipeline", "lake", "--url", store.url, "--topic", TOPIC]
    line += ["--once", "--batch-records", str(BATCH)]
    return commands.begin(cluster.url, conf, [[*line, "--to", str(to)] for to in folders], said)


def kill_driver(driver: subprocess.Popen[bytes]) -> None:
    root = psutil.Process(driver.pid)
    for process in [*root.children(recursive=True), root]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    driver.wait()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_killed_executors_and_drivers_lose_and_double_nothing_and_a_folder_not_seen_by_all_is_refused(
    cluster: SparkCluster, postgres_url: str, tmp_path: Path, unseen: Path
) -> None:
    """In one test: each driver with its executors takes a core for half a minute."""
    store = LogStore(postgres_url)
    try:
        store.fill(RECORDS)
        _refuse_kill_and_count(cluster, store, tmp_path, unseen / "lake")
    finally:
        store.close()


def _refuse_kill_and_count(cluster: SparkCluster, store: LogStore, folder: Path, unseen: Path) -> None:
    to, said = folder / "lake", folder / "said"
    driver = begin(cluster, store, said, unseen, to)
    try:
        _wait(driver, lambda: commits(to) >= 1, said)
        running = cluster.executors()
        assert len(running) == 2, "both workers run tasks"
        running[0].kill()
        before = commits(to)
        # With what is left, and the one that comes for it.
        _wait(driver, lambda: commits(to) > before, said)
    finally:
        kill_driver(driver)
    assert said.read_text().count(commands.ended(1)) == 1
    assert "the driver does not see" in said.read_text()
    assert tables_in(unseen) == []

    assert len(places(to)) == len(set(places(to))) < RECORDS
    driver = begin(cluster, store, said, to)
    assert driver.wait(300) == 0, said.read_text()
    assert said.read_text().endswith(commands.ended(0))
    found = places(to)
    assert found == sorted(store.records())
    assert len(found) == len(set(found)) == RECORDS


def commits(to: Path) -> int:
    """Return how many commits a lake's tables have; to read them takes a core, and there are two."""
    return min((len(list(each.glob("_delta_log/*.json"))) for each in tables_in(to)), default=0)


def _wait(driver: subprocess.Popen[bytes], met: Callable[[], bool], said: Path) -> None:
    """Wait for something that a driver brings about."""
    wait_until(lambda: met() or driver.poll() is not None, "the pipeline comes so far", seconds=500)
    assert driver.poll() is None, said.read_text()
