"""What the cases about pipelines share: one Spark on two cores, the same rows as logs and as Parquet."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.errors import NotMeasured
from bench.java_packages import JavaPackages
from bench.run import Run
from bench.stores.contract import EngineOpener
from penstock import Outbox, Record
from penstock.pipeline.session import spark_session

TOPIC = "rows"
PARTITIONS = 64
_CHUNK = 5_000
_VALUE_BYTES = 1_000


@dataclass(frozen=True)
class Rows:
    """The same rows in two places: a log, and zstd Parquet files as Spark writes them."""

    spark: Any
    url: str
    parquet: Path

    def log(self, **options: str) -> Any:
        """Return the log as a DataFrame, planned anew."""
        return self.spark.read.format("penstock").options(url=self.url, topic=TOPIC, **options).load()


SessionOpener = Callable[[Run], AbstractContextManager[Any]]


def spark(run: Run) -> AbstractContextManager[Any]:
    """Give one Spark session on two cores."""
    return _spark(run, {})


def spark_with(packages: JavaPackages) -> SessionOpener:
    """Return the opener of a session that has some Java packages, if they can be had."""

    def opener(run: Run) -> AbstractContextManager[Any]:
        try:
            jars = ",".join(str(jar) for jar in packages.jars())
        except NotMeasured:  # the variant that needs them says so
            jars = ""
        return _spark(run, {"spark.jars": jars} if jars else {})

    return opener


def local_session(conf: Mapping[str, str]) -> Any:
    """Start Spark on two cores, with room for all that the cases do."""
    ours = {"spark.driver.memory": "4g", "spark.ui.showConsoleProgress": "false"}
    return spark_session("bench", master="local[2]", conf=ours | dict(conf))


@contextmanager
def _spark(run: Run, conf: Mapping[str, str]) -> Iterator[Any]:
    session = local_session(conf)
    run.note("spark", session.version)
    try:
        yield session
    finally:
        session.stop()


def watch(run: Run, session: Any) -> None:
    """Count the CPU of Spark: its Java process, and the Python workers below it."""
    run.watch("spark", java_pid(session))


def java_pid(session: Any) -> int:
    """Return the process of a session's Java."""
    return int(session._jvm.java.lang.ProcessHandle.current().pid())


@contextmanager
def folder(run: Run) -> Iterator[Path]:
    """Give a folder that goes with the case."""
    with TemporaryDirectory(prefix="penstock-bench-") as path:
        yield Path(path)


def rows(engine: EngineOpener, session: SessionOpener = spark) -> Callable[[Run], AbstractContextManager[Rows]]:
    """Return the setup that gives rows of 1 KB in a log of some engine and in Parquet, once per case."""

    def log(run: Run) -> AbstractContextManager[str]:
        return _log(run, engine)

    _ENGINES.setdefault(engine, log)

    @contextmanager
    def setup(run: Run) -> Iterator[Rows]:
        opened, home, url = run.once(session), run.once(folder), run.once(_ENGINES[engine])
        watch(run, opened)
        run.once(engine).watch(run)
        made = Rows(opened, url, home / "rows")
        if not made.parquet.exists():
            made.log().write.option("compression", "zstd").parquet(str(made.parquet))
        yield made

    return setup


def rows_in_files(session: SessionOpener = spark) -> Callable[[Run], AbstractContextManager[Rows]]:
    """Return the setup that gives the same rows in a log in files and in Parquet, once per case."""

    @contextmanager
    def setup(run: Run) -> Iterator[Rows]:
        opened, home, url = run.once(session), run.once(folder), run.once(_files_log)
        watch(run, opened)
        made = Rows(opened, url, home / "rows_of_files")
        if not made.parquet.exists():
            made.log().write.option("compression", "zstd").parquet(str(made.parquet))
        yield made

    return setup


_ENGINES: dict[EngineOpener, Callable[[Run], AbstractContextManager[str]]] = {}


@contextmanager
def _log(run: Run, engine: EngineOpener) -> Iterator[str]:
    store = run.once(engine).create()
    _fill(run, store.outbox)
    yield store.url


@contextmanager
def _files_log(run: Run) -> Iterator[str]:
    url = f"file://{run.once(folder)}/log"
    outbox = Outbox(url)
    outbox.migrate()
    _fill(run, outbox)
    yield url


def _fill(run: Run, outbox: Outbox) -> None:
    outbox.log.create_topic(TOPIC, partitions=PARTITIONS)
    rng = random.Random(1)
    for start in range(0, run.records, _CHUNK):
        numbers = range(start, min(start + _CHUNK, run.records))
        outbox.log.append(TOPIC, [_record(number, rng) for number in numbers])
    outbox.close()


def _record(number: int, rng: random.Random) -> Record:
    """Return a row of 1 KB, half of it noise: as much as zstd takes off real events."""
    noise = rng.randbytes(_VALUE_BYTES // 4).hex()
    value = f'{{"order_id": {number}, "noise": "{noise}", "note": "{"x" * (_VALUE_BYTES // 2 - 48)}"}}'
    return Record(
        f"r-{number}", f"order-{number % 10_000}", value.encode(), "order.placed", (), 1_700_000_000_000 + number
    )
