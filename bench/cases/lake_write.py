"""A topic into a Delta table, beside delta-spark's writer and Parquet, all as streams that run to the end.

delta-spark's writer takes the same rows from Parquet files, which is the cheapest source there is. It has no
build for the newest Spark, so it and a topic run once more on an older one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.lakes import TOPIC, Rows, rows
from bench.peer_process import PeerTalk
from bench.rivals.older_spark import PYSPARK, VERSION, older_spark
from bench.stores import postgres, sqlite
from bench.stores.contract import EngineOpener


def into(frame: Any, form: str) -> None:
    """Write a stream to its end into a new folder."""
    with TemporaryDirectory(prefix="penstock-bench-") as to:
        writer = frame.writeStream.format(form).option("path", f"{to}/table").option("compression", "zstd")
        writer = writer.option("checkpointLocation", f"{to}/checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()


def parquet(spark: Any, folder: str) -> Any:
    """Return files as a stream."""
    return spark.readStream.schema(spark.read.parquet(folder).schema).parquet(folder)


def topic(spark: Any, url: str) -> Any:
    """Return the log as a stream."""
    return spark.readStream.format("penstock").options(url=url, topic=TOPIC).load()


def parquet_to_parquet(run: Run, at: Rows) -> None:
    """Files to files, by Spark alone."""
    into(parquet(at.spark, str(at.parquet)), "parquet")


def topic_to_delta(run: Run, at: Rows) -> None:
    """The log to a table, each batch once."""
    into(topic(at.spark, at.url), "penstock-delta")


@dataclass(frozen=True)
class Older:
    """The same rows, and the older Spark."""

    talk: PeerTalk
    rows: Rows


def on_older(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[Older]]:
    """Return the setup that gives the rows to the older Spark, whose CPU counts."""

    @contextmanager
    def setup(run: Run) -> Iterator[Older]:
        with rows(engine)(run) as made:
            talk = run.once(older_spark)
            run.watch("older_spark", talk.pid)
            yield Older(talk, made)

    return setup


def older_parquet_to_delta(run: Run, at: Older) -> None:
    """Files to a Delta table, by delta-spark."""
    at.talk.ask({"parquet": str(at.rows.parquet)})


def older_topic_to_delta(run: Run, at: Older) -> None:
    """The log to a table, each batch once."""
    at.talk.ask({"url": at.rows.url})


ENGINES: dict[str, tuple[str, EngineOpener]] = {
    "sqlite": ("SQLite topic", sqlite),
    "postgres": ("PostgreSQL topic", postgres),
}

CASE = Case(
    name="lake_write",
    about="a topic of 1 KB rows into a Delta table beside delta-spark and Parquet, local[2]",
    records=Size(quick=300_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[
        Variant("Parquet into Parquet", parquet_to_parquet, setup=rows(sqlite)),
        *[Variant(f"{name} into Delta", topic_to_delta, setup=rows(engine)) for name, engine in ENGINES.values()],
        Variant("delta-spark", older_parquet_to_delta, setup=on_older(sqlite), peer=PYSPARK),
        *[
            Variant(f"{name}, Spark {VERSION}", older_topic_to_delta, setup=on_older(engine), peer=PYSPARK)
            for name, engine in ENGINES.values()
        ],
    ],
    targets=[
        *[
            Target(short, Ratio("Parquet into Parquet", f"{name} into Delta", "wall_us"), at_least=0.4)
            for short, (name, _) in ENGINES.items()
        ],
        *[
            Target(
                f"delta_spark_{short}",
                Ratio(f"{name}, Spark {VERSION}", "delta-spark", "cpu_us"),
                at_most=0.6,
                cause="reading a topic takes 2.5 times the CPU of reading Parquet, which the other side does",
            )
            for short, (name, _) in ENGINES.items()
        ],
    ],
)
