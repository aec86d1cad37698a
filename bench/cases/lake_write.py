"""A topic into a Delta table, beside delta-spark's writer and Parquet, all as streams that run to the end.

With delta-spark among `PENSTOCK_BENCH_PACKAGES` (docs/how-to/benchmark.md) its writer takes the same rows
from Parquet files, which is the cheapest source there is.
"""

import os
from tempfile import TemporaryDirectory
from typing import Any

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.lakes import PACKAGES, TOPIC, Rows, rows
from bench.stores import postgres, sqlite


def into(frame: Any, form: str) -> None:
    """Write a stream to its end into a new folder."""
    with TemporaryDirectory(prefix="penstock-bench-") as to:
        writer = frame.writeStream.format(form).option("path", f"{to}/table").option("compression", "zstd")
        writer = writer.option("checkpointLocation", f"{to}/checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()


def parquet_to_parquet(run: Run, at: Rows) -> None:
    """Files to files, by Spark alone."""
    into(parquet(at), "parquet")


def parquet_to_delta(run: Run, at: Rows) -> None:
    """Files to a Delta table, by delta-spark."""
    into(parquet(at), "delta")


def parquet(at: Rows) -> Any:
    """Return the files as a stream."""
    schema = at.spark.read.parquet(str(at.parquet)).schema
    return at.spark.readStream.schema(schema).parquet(str(at.parquet))


def topic_to_delta(run: Run, at: Rows) -> None:
    """The log to a table, each batch once."""
    into(at.spark.readStream.format("penstock").options(url=at.url, topic=TOPIC).load(), "penstock-delta")


DELTA_SPARK = (
    [Variant("delta-spark", parquet_to_delta, setup=rows(sqlite))]
    if "delta-spark" in os.environ.get(PACKAGES, "")
    else []
)
TOPICS = {
    "sqlite": Variant("SQLite topic into Delta", topic_to_delta, setup=rows(sqlite)),
    "postgres": Variant("PostgreSQL topic into Delta", topic_to_delta, setup=rows(postgres)),
}

CASE = Case(
    name="lake_write",
    about="a topic of 1 KB rows into a Delta table beside delta-spark and Parquet, local[2]",
    records=Size(quick=300_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[
        Variant("Parquet into Parquet", parquet_to_parquet, setup=rows(sqlite)),
        *TOPICS.values(),
        *DELTA_SPARK,
    ],
    targets=[
        *[
            Target(name, Ratio("Parquet into Parquet", topic.name, "wall_us"), at_least=0.4)
            for name, topic in TOPICS.items()
        ],
        *[
            Target(f"delta_spark_{name}", Ratio(topic.name, each.name, "cpu_us"), at_most=0.6)
            for name, topic in TOPICS.items()
            for each in DELTA_SPARK
        ],
    ],
)
