"""On a real cluster: a master and two workers, executors and drivers killed, a folder that is not seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.errors import InvalidOption
from penstock.pipeline.paths import tables_in
from penstock.pipeline.reach import check_reach
from tests.crash.waiting import wait_until
from tests.pipeline.cluster import LOOPBACK, SparkCluster
from tests.pipeline.conftest import ROOT, WORKERS_PATH, Command, need_java
from tests.pipeline.shared_classes import SHORT_LIVED
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


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that one worker does not see."""
    return tmp_path_factory.mktemp("unseen")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, unseen: Path) -> Iterator[SparkCluster]:
    """Give a master and two workers."""
    need_java()
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.add_workers(one=None, two=unseen)
        yield cluster
    finally:
        cluster.stop()


def begin(cluster: SparkCluster, store: LogStore, to: Path) -> subprocess.Popen[str]:
    """Start the command as a user does, with the cluster's master."""
    conf = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executorEnv.PYTHONPATH": WORKERS_PATH,
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # nothing begins before both are there
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    where = ["--url", store.url, "--topic", TOPIC, "--to", str(to), "--master", cluster.url]
    words = ["pipeline", "lake", *where, "--once", "--batch-records", str(BATCH)]
    words += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli import main; main()", *words],
        env=os.environ | {"PYTHONPATH": WORKERS_PATH},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(command: subprocess.Popen[str]) -> tuple[int, str, str]:
    with command:
        out, err = command.communicate(timeout=300)
    return command.returncode, out, err


def kill_driver(command: subprocess.Popen[str]) -> None:
    root = psutil.Process(command.pid)
    for process in [*root.children(recursive=True), root]:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_executors_and_drivers_that_are_killed_lose_and_double_nothing(
    cluster: SparkCluster, postgres_url: str, tmp_path: Path
) -> None:
    store = LogStore(postgres_url)
    try:
        _kill_and_count(cluster, store, tmp_path / "lake")
    finally:
        store.close()


def _kill_and_count(cluster: SparkCluster, store: LogStore, to: Path) -> None:
    store.fill(RECORDS)
    command = begin(cluster, store, to)
    try:
        _wait(command, lambda: commits(to) >= 1)
        running = cluster.executors()
        assert len(running) == 2, "both workers run tasks"
        running[0].kill()
        before = commits(to)
        _wait(command, lambda: commits(to) > before)  # with what is left, and the one that comes for it
    finally:
        kill_driver(command)
        ended(command)
    assert len(places(to)) == len(set(places(to))) < RECORDS
    code, _, err = ended(begin(cluster, store, to))
    assert code == 0, err
    found = places(to)
    assert found == sorted(store.records())
    assert len(found) == len(set(found)) == RECORDS


def commits(to: Path) -> int:
    """Return how many commits a lake's tables have; to read them takes a core, and there are two."""
    return min((len(list(each.glob("_delta_log/*.json"))) for each in tables_in(to)), default=0)


def _wait(command: subprocess.Popen[str], met: Callable[[], bool]) -> None:
    """Wait for something that a command brings about."""
    wait_until(lambda: met() or command.poll() is not None, "the pipeline comes so far", seconds=500)
    assert command.poll() is None, command.communicate()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_that_does_not_see_the_folder_is_refused_before_anything_is_committed(
    cluster: SparkCluster, postgres_url: str, unseen: Path
) -> None:
    store = LogStore(postgres_url)
    try:
        store.fill(BATCH)
        code, _, err = ended(begin(cluster, store, unseen / "lake"))
    finally:
        store.close()
    assert code == 1
    assert "are not there for the driver" in err, err
    assert tables_in(unseen / "lake") == []
