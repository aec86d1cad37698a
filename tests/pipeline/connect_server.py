"""A server of Spark Connect from the pip package, in a process of its own that can be killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from penstock.pipeline.session import find_java
from tests.crash.waiting import wait_until
from tests.pipeline.cluster import LOOPBACK
from tests.pipeline.conftest import WORKERS_PATH
from tests.pipeline.shared_classes import spark_home

_STARTED = re.compile(r"Spark Connect server started at: \S*:(\d+)")
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """One server, between `with` and its end."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        conf = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        }
        words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        env = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(find_java()),
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": WORKERS_PATH,  # the server's Python has Penstock, as it must
        }
        log = folder / "said"
        command = [str(spark_home() / "bin" / "spark-submit"), "--class", _CLASS, "--master", "local[2]", *words]
        with log.open("wb") as said:
            self._process = subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said)
        try:
            wait_until(lambda: _STARTED.search(log.read_text()), "the server listens", seconds=120)
        except BaseException:
            self.kill()
            raise
        found = _STARTED.search(log.read_text())
        assert found is not None
        self.url = f"sc://{LOOPBACK}:{found[1]}"

    def kill(self) -> None:
        """End it without a word, and all that it has started."""
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._process.pid)
            for each in [*root.children(recursive=True), root]:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
