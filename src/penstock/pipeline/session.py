"""A Spark session for pipelines: quiet, with the right Java and Python, and with our formats registered.

The output of Java and Spark goes to a file. An error is reported as one sentence that names the file, so a
Java stack trace is never the first thing that a user sees.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from penstock.errors import MissingExtra, SparkNotStarted

from . import register
from .address import is_connect, said_of, without_token
from .java import find_java
from .settings import PipelineSettings

try:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_ARROW_BYTES = 64 << 20
_LOGGING = Path(__file__).with_name("log4j2.properties")


def spark_session(
    name: str = "penstock",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """Return the process's Spark session, started if necessary, with our formats registered.

    `master` None takes the setting `pipeline.master`; `sc://host:port` is a server of Spark Connect. `conf`
    is Spark's own and wins over ours. Raises NoJava, SparkNotStarted.
    """
    running, master = SparkSession.getActiveSession(), master or PipelineSettings.load().master
    begin = _connect if is_connect(master) else _start
    spark = running or begin(name, master, conf or {}, log_file)
    register(spark)
    return spark


@contextmanager
def session(name: str, *, master: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a Spark session; stop it at the end unless it ran before. Raises NoJava, SparkNotStarted."""
    ran = SparkSession.getActiveSession() is not None
    spark = spark_session(name, master=master, conf=conf)
    try:
        yield spark
    finally:
        if not ran:
            with suppress(Py4JError, OSError):  # its Java process may have ended before it
                spark.stop()


def _start(name: str, master: str, conf: Mapping[str, str], log_file: Path | None) -> SparkSession:
    os.environ["JAVA_HOME"] = str(find_java())
    # Spark itself reads the setting only in spark-submit; here the environment counts.
    wanted = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ["PYSPARK_PYTHON"] = wanted
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    log_file = log_file or Path(tempfile.gettempdir()) / f"penstock-spark-{os.getpid()}.log"
    settings = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
    for key, value in (_ours(master) | dict(conf)).items():
        settings.set(key, value)
    with log_file.open("ab") as said:
        try:
            gateway = launch_gateway(settings, popen_kwargs={"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=settings, gateway=gateway)
            end_quietly(context._accumulatorServer)
            return SparkSession(context)
        except (PySparkException, Py4JError, OSError) as exc:
            raise SparkNotStarted(_reason(log_file) or str(exc).partition("\n")[0], str(log_file)) from exc


def end_quietly(server: BaseServer) -> None:
    """Make PySpark's accumulator thread ignore the end of Java, and print no traceback between our last lines."""
    said = server.handle_error

    def handle(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            said(request, client_address)

    server.handle_error = handle  # type: ignore[method-assign]


def _connect(name: str, server: str, conf: Mapping[str, str], log_file: Path | None) -> SparkSession:
    builder = SparkSession.builder.remote(server).appName(name)
    try:
        return builder.config(map=dict(conf)).getOrCreate()
    except PySparkException as exc:
        said = said_of(server, str(exc).partition("\n")[0])
        raise SparkNotStarted(said, f"the log of {without_token(server)}") from None  # the text may show a token


def _ours(master: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",  # five times a second, into Spark's log file
        "spark.sql.session.timeZone": "UTC",
        # Between Java and Python, 10,000 rows at a time by default: too much for rows of a mebibyte.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(_ARROW_BYTES),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }
    if not master.startswith("local"):
        return settings
    return settings | {
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(_cores(master)),  # 200 by default: half a second of nothing
    }


def _cores(master: str) -> int:
    wanted = master.removeprefix("local").strip("[]").partition(",")[0]
    if wanted == "":
        return 1
    return int(wanted) if wanted.isdigit() else os.cpu_count() or 1


def _reason(log_file: Path) -> str:
    """Return the line of Java's output that names the error."""
    lines = [line.strip() for line in log_file.read_text("utf-8", "replace").splitlines()]
    telling = [line for line in lines if "Exception" in line or line.startswith(("Error", "Caused by"))]
    return telling[-1] if telling else ""
