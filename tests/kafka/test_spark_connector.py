"""Spark's own Kafka connector, unmodified, in batch and streaming, with a Spark of its own.

The connector is built for Spark 4.0, and does not run in the release that the rest of the tests use. The long
set fetches that Spark once and runs all; where it is there, the slow set runs a smoke in batch.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.maven import cache, jars
from tests.kafka.served import Served
from tests.services.budget import level_from_environment

pytestmark = [pytest.mark.slow, pytest.mark.spark]

SPARK = "4.0.0"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}"
_OWN = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")  # the rest is in Spark
SECONDS = 300
WANTED = sorted(f"v{number}" for number in range(60))


def _spark() -> Path:
    """Return the Python of an environment with that Spark; skips where there is none to be had."""
    home = cache(f"spark-{SPARK}")
    python = home / "bin" / "python"
    if not (home / "done").exists():
        if level_from_environment() != "long":
            pytest.skip(f"Spark {SPARK} is fetched by the long set (./scripts/test --long): it is 400 MB")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, timeout=SECONDS)
        install = [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={SPARK}"]
        if subprocess.run(install, capture_output=True, timeout=SECONDS).returncode:
            pytest.skip(f"pyspark {SPARK} cannot be had here")
        (home / "done").touch()
    return python


def _run(served: Served, folder: Path, *arguments: str) -> dict[str, list[list[Any]]]:
    """Run the program and return what it found."""
    python = _spark()
    found = jars(f"spark-kafka-{SPARK}", CONNECTOR)
    named = ",".join(str(each) for each in sorted(found.glob("*.jar")) if each.name.startswith(_OWN))
    served.topic("from_spark", 2)
    served.topic("copied", 2)
    program = Path(__file__).parent / "spark_program.py"
    # A home that other tests have set is that of another Spark.
    env = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [str(python), str(program), served.address, str(folder), named, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**env, "PYSPARK_PYTHON": str(python)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, list[list[Any]]] = json.loads(done.stdout.splitlines()[-1])
    return said


def _values(rows: list[list[Any]]) -> list[str]:
    return sorted(value for _, value, _ in rows)


def test_sparks_own_connector_writes_and_reads(tmp_path: Path) -> None:
    with Served(f"file://{tmp_path}/log") as served:
        said = _run(served, tmp_path, "batch")
    assert len(said["bounded"]) == 3
    assert _values(said["written"]) == WANTED


def test_sparks_own_connector_writes_reads_and_streams(served: Served, tmp_path: Path) -> None:
    if level_from_environment() != "long":
        pytest.skip("streams are run in the long set (./scripts/test --long)")
    said = _run(served, tmp_path)
    assert len(said["bounded"]) == 3
    assert _values(said["written"]) == _values(said["copied"]) == WANTED
