"""Spark 4.0 to 4.2, each with the smoke program in a process of its own; 4.3 is what all other tests run on.

Each version is 450 MB to fetch: long only, but for the part of the program that no other test has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.maven import jars
from tests.pipeline.conftest import ROOT, WORKERS_PATH, need_java
from tests.pipeline.shared_classes import without_home
from tests.pipeline.stores import LogStore
from tests.pipeline.version_smoke import several
from tests.services import missing
from tests.services.budget import level_from_environment

VERSIONS = ["4.0", "4.1", "4.2"] if level_from_environment() == "long" else []
DELTA_SPARK = {
    version: f"io.delta:delta-spark_2.13:{built}"
    for version, built in (("4.0", "4.0.1"), ("4.1", "4.3.1"), ("4.2", "4.4.0"))
}
pytestmark = pytest.mark.slow


def installed(version: str, folder: Path) -> Path:
    """Install a pyspark beside the environment's own, in a folder that is found first."""
    words = ["install", "--quiet", "--target", str(folder), f"pyspark=={version}.*"]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=900)
    if done.returncode:
        missing(f"pyspark {version}", done.stderr.strip().splitlines()[-1])
    return folder


def smoke(pyspark: Path, folder: Path, delta_spark: Path) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    return subprocess.run(
        [sys.executable, "-m", "tests.pipeline.version_smoke", str(folder), str(delta_spark)],
        env=without_home() | {"PYTHONPATH": f"{pyspark}{os.pathsep}{WORKERS_PATH}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_several_topics_are_one_stream(sqlite_store: LogStore, spark: Any, tmp_path: Path) -> None:
    several(spark, sqlite_store, tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_spark_does_the_same_and_delta_spark_reads_it(version: str, tmp_path: Path) -> None:
    need_java()
    delta_spark = jars(f"delta-spark-{version}", DELTA_SPARK[version], with_scala=False)
    done = smoke(installed(version, tmp_path / "pyspark"), tmp_path / "work", delta_spark)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"all right on Spark {version}" in done.stdout
    assert "delta-spark has read" in done.stdout
