"""Spark's own Kafka connector, unmodified, in batch and streaming: in the long set, with a Spark of its own.

The connector is built for Spark 4.0, and does not run in the release that the rest of the tests use.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.maven import cache, jars
from tests.kafka.served import Served
from tests.services.budget import level_from_environment

pytestmark = pytest.mark.slow

SPARK = "4.0.0"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}"
_OWN = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")  # the rest is in Spark
SECONDS = 300


def _spark() -> Path:
    """Return the Python of an environment with that Spark; skips where there is none to be had."""
    home = cache(f"spark-{SPARK}")
    python = home / "bin" / "python"
    if not (home / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, timeout=SECONDS)
        install = [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={SPARK}"]
        if subprocess.run(install, capture_output=True, timeout=SECONDS).returncode:
            pytest.skip(f"pyspark {SPARK} cannot be had here")
        (home / "done").touch()
    return python


def test_sparks_own_connector_writes_reads_and_streams(served: Served, tmp_path: Path) -> None:
    if level_from_environment() != "long":
        pytest.skip("Spark's own connector is run in the long set (./scripts/test --long)")
    found = jars(f"spark-kafka-{SPARK}", CONNECTOR)
    named = ",".join(str(each) for each in sorted(found.glob("*.jar")) if each.name.startswith(_OWN))
    python = _spark()
    served.topic("from_spark", 2)
    served.topic("copied", 2)
    program = Path(__file__).parent / "spark_program.py"
    done = subprocess.run(
        [str(python), str(program), served.address, str(tmp_path), named],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    wanted = sorted(f"v{number}" for number in range(60))
    assert len(said["bounded"]) == 3
    assert sorted(value for _, value, _ in said["written"]) == wanted
    assert sorted(value for _, value, _ in said["copied"]) == wanted
