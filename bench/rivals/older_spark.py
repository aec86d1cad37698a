"""A Spark that delta-spark has a build for, with it: a process of its own, whose program is `streams_script`.

Its Python is ours, with the older pyspark found first: Penstock is the same on both.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.java_packages import JavaPackages
from bench.peer_process import PeerTalk, start
from bench.peers import Peer
from bench.run import Run

VERSION = "4.2"
PYSPARK = Peer(name="pyspark", requirements=(f"pyspark=={VERSION}.*",))
DELTA_SPARK = JavaPackages(name="delta-spark", artifacts=("io.delta:delta-spark_2.13:4.4.0",))
_SCRIPT = Path(__file__).with_name("streams_script.py")


@contextmanager
def older_spark(run: Run) -> Iterator[PeerTalk]:
    """Start it. Raises NotMeasured where a part of it cannot be had."""
    PYSPARK.ensure()
    packages = next(PYSPARK.folder.glob("lib/python*/site-packages"))
    jars = ",".join(str(jar) for jar in DELTA_SPARK.jars())
    with start(Path(sys.executable), _SCRIPT, [str(packages), jars]) as talk:
        run.note("older spark", talk.ask({})["spark"])
        run.note("delta-spark", DELTA_SPARK.artifacts[0].rpartition(":")[2])
        yield talk
