"""Classes that every Java of Spark would load anew, kept for all: a third of its start is loading them.

To make the archive takes 41 s of CPU, once in a new clone; a command of its own then takes 14 s instead of
20 s, and `--slow` starts more than ten.

Java writes what it has loaded into an archive when it ends, and another one maps the archive (class data
sharing). It belongs to the environment; one that does not fit is passed over by Java itself. Run as a
program, this is the Spark whose classes are kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from penstock.pipeline.java import find_java
from tests.pipeline.stores import TOPIC, LogStore
from tests.services.run_folder import exclusive

ROOT = Path(__file__).resolve().parents[2]
# Each Java of these tests lives for seconds: what it would spend on compiling well never comes back.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_READERS = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
_MOST_SECONDS = 300


def share_classes() -> None:
    """Let the Javas that this process starts map the archive, which is made first if there is none."""
    if os.environ.get(_READERS[0]) != SHORT_LIVED:
        return  # it was done, or somebody wants something else
    archive = _archive()
    if not archive.exists():
        with exclusive(archive.with_suffix(".lock")):
            if not archive.exists():
                _make(archive)
    if archive.exists():
        for name in _READERS:
            os.environ[name] = f"{SHORT_LIVED} -XX:SharedArchiveFile={archive} -Xlog:disable"


def _archive() -> Path:
    contents = f"{find_java().home}\n{pyspark.__file__}\n{pyspark.__version__}"
    return Path(sys.prefix) / f"spark-classes-{sha256(contents.encode()).hexdigest()[:12]}.jsa"


def _make(archive: Path) -> None:
    """Run the program; without an archive all goes on as before, only slower."""
    made = archive.with_suffix(".new")
    env = os.environ | {"SPARK_SUBMIT_OPTS": f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={made} -Xlog:disable"}
    command = [sys.executable, "-m", "tests.pipeline.shared_classes"]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=_MOST_SECONDS)
        if done.returncode == 0 and made.exists():
            made.rename(archive)


def main() -> None:
    """Put a topic into a lake, then wait until Java has ended."""
    from penstock.cli import main as penstock
    from penstock.pipeline.session import spark_session

    spark = spark_session("classes", master="local[2]")
    with TemporaryDirectory() as folder:
        store = LogStore(f"sqlite:///{folder}/shop.db")
        store.fill(20)
        with suppress(SystemExit):
            where = ["--url", store.url, "--topic", TOPIC, "--to", f"{folder}/lake"]
            penstock(["pipeline", "lake", *where, "--once"])
        store.close()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    spark.stop()
    gateway.shutdown()
    java.stdin.close()
    java.wait(_MOST_SECONDS)


if __name__ == "__main__":
    main()
