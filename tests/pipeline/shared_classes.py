"""What every Java and Python of Spark would load anew, kept for all: most of their start is loading it.

Each takes five seconds of CPU off a lake of three batches in a process of its own, which needed twenty.

- Classes. Java writes what it has loaded into an archive when it ends, and another one maps the archive
  (class data sharing). One that does not fit is passed over by Java itself. To make it takes 41 s of CPU,
  once in a new clone. Run as a program, this is the Spark whose classes are kept.
- Modules. Spark has its workers import PySpark from a zip, of which Python keeps nothing compiled: each of
  the ten processes of a lake would compile it anew. The home that Java gets here has no zip, so they import
  the same PySpark from the environment.

Both belong to the environment.
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

from penstock.pipeline.session import find_java
from tests.pipeline.stores import TOPIC, LogStore
from tests.services.run_folder import exclusive

ROOT = Path(__file__).resolve().parents[2]
# Each Java of these tests lives for seconds: what it would spend on compiling well never comes back.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_INSTALLED = Path(pyspark.__file__).parent
_READERS = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
_HOME = "SPARK_HOME"
_MOST_SECONDS = 300


def share_classes() -> None:
    """Let the Javas that this process starts map the archive, which is made first if there is none."""
    if os.environ.get(_READERS[0]) != SHORT_LIVED:
        return  # it was done, or somebody wants something else
    archive, home = _kept("classes.jsa"), _kept("home")
    if not archive.exists():
        with exclusive(archive.with_suffix(".lock")):
            if not home.exists():
                _make_home(home)
            if not archive.exists():
                _make(archive, home)
    os.environ[_HOME] = str(home)
    if archive.exists():
        for name in _READERS:
            os.environ[name] = f"{SHORT_LIVED} -XX:SharedArchiveFile={archive} -Xlog:disable"


def spark_home() -> Path:
    """Return where Spark's programs are: the home without a zip, once there is one."""
    return Path(os.environ.get(_HOME, _INSTALLED))


def without_home() -> dict[str, str]:
    """Return the environment for a Spark of another place."""
    return {name: value for name, value in os.environ.items() if name != _HOME}


def _kept(name: str) -> Path:
    contents = f"{find_java()}\n{pyspark.__file__}\n{pyspark.__version__}"
    return Path(sys.prefix) / f"spark-{sha256(contents.encode()).hexdigest()[:12]}-{name}"


def _make_home(home: Path) -> None:
    """Link what Java and the scripts need; the zip is in `python`."""
    new = home.with_name(f"{home.name}.new")
    new.mkdir(exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        with suppress(FileExistsError):  # of a run that was killed
            (new / name).symlink_to(_INSTALLED / name)
    new.rename(home)


def _make(archive: Path, home: Path) -> None:
    """Run the program; without an archive all goes on as before, only slower."""
    made = archive.with_suffix(".new")
    env = os.environ | {
        "SPARK_SUBMIT_OPTS": f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={made} -Xlog:disable",
        _HOME: str(home),
    }
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
