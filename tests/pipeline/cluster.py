"""A cluster of Spark's own kind from the pip package: a master and workers, each a process with a directory.

A worker may be kept from seeing a folder, as one on another machine is: it gets a file system of its own
mounted over it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from penstock.pipeline.session import find_java
from tests.crash.waiting import wait_until
from tests.pipeline.shared_classes import SHORT_LIVED, spark_home

LOOPBACK = "127.0.0.1"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_EXECUTOR = "CoarseGrainedExecutorBackend"


def java_options() -> str:
    """Return how the Javas of a cluster start fast: as those of the drivers do."""
    return os.environ.get("SPARK_SUBMIT_OPTS", SHORT_LIVED)


class SparkCluster:
    """One master and its workers. `stop` ends them, and what they have started."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._started = folder, list[subprocess.Popen[bytes]]()
        self.workers: list[subprocess.Popen[bytes]] = []
        log = self._start("master", "master.Master", "--host", LOOPBACK, "--port", "0")
        wait_until(lambda: _MASTER.search(log.read_text()), "the master listens", seconds=120)
        found = _MASTER.search(log.read_text())
        assert found is not None
        self.url = found[1]
        self._log = log

    def add_workers(self, **unseen: Path | None) -> None:
        """Start workers with one core each, by their names; what is in the folder of each it does not see."""
        for name, folder in unseen.items():
            where = ["--host", LOOPBACK, "--port", "0", "-c", "1", "-m", "512m"]
            work = ["--work-dir", str(self._folder / name / "work"), self.url]
            self._start(name, "worker.Worker", *where, *work, unseen=folder)
            self.workers.append(self._started[-1])
        wait_until(
            lambda: self._log.read_text().count("Registering worker") == len(self.workers),
            "the workers are there",
            seconds=120,
        )

    def executors(self) -> list[psutil.Process]:
        """Return the processes that run tasks."""
        found = []
        for worker in self.workers:
            with suppress(psutil.NoSuchProcess):
                for process in psutil.Process(worker.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        if any(_EXECUTOR in word for word in process.cmdline()):
                            found.append(process)
        return found

    def stop(self) -> None:
        """End all of it."""
        for process in self._started:
            with suppress(psutil.NoSuchProcess):
                for each in psutil.Process(process.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
            process.kill()
            process.wait()

    def _start(self, name: str, kind: str, *words: str, unseen: Path | None = None) -> Path:
        own = self._folder / name
        own.mkdir(parents=True)
        log = own / "said"
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--webui-port", "0"]
        command += words
        if unseen is not None:
            hidden = f"mount -t tmpfs tmpfs {shlex.quote(str(unseen))} && exec {shlex.join(command)}"
            command = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m", "bash", "-c", hidden]
        env: dict[str, Any] = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(find_java()),
            "SPARK_LOCAL_DIRS": str(own / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
            "SPARK_LOCAL_IP": LOOPBACK,
        }
        with log.open("wb") as said:
            started = subprocess.Popen(command, cwd=own, env=env, stdout=said, stderr=said)
        self._started.append(started)
        return log
