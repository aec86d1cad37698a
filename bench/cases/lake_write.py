"""A topic into a Delta table beside Parquet files into Parquet files, both as streams that run to the end."""

from tempfile import TemporaryDirectory
from typing import Any

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.lakes import TOPIC, Rows, rows
from bench.stores import postgres, sqlite


def into(frame: Any, form: str) -> None:
    """Write a stream to its end into a new folder."""
    with TemporaryDirectory(prefix="penstock-bench-") as to:
        writer = frame.writeStream.format(form).option("path", f"{to}/table").option("compression", "zstd")
        writer = writer.option("checkpointLocation", f"{to}/checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()


def parquet_to_parquet(run: Run, at: Rows) -> None:
    """Files to files, by Spark alone."""
    schema = at.spark.read.parquet(str(at.parquet)).schema
    into(at.spark.readStream.schema(schema).parquet(str(at.parquet)), "parquet")


def topic_to_delta(run: Run, at: Rows) -> None:
    """The log to a table, each batch once."""
    into(at.spark.readStream.format("penstock").options(url=at.url, topic=TOPIC).load(), "penstock-delta")


CASE = Case(
    name="lake_write",
    about="a topic of 1 KB rows into a Delta table beside Parquet into Parquet, local[2]",
    records=Size(quick=300_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[
        Variant("Parquet into Parquet", parquet_to_parquet, setup=rows(sqlite)),
        Variant("SQLite topic into Delta", topic_to_delta, setup=rows(sqlite)),
        Variant("PostgreSQL topic into Delta", topic_to_delta, setup=rows(postgres)),
    ],
    targets=[
        Target("sqlite", Ratio("Parquet into Parquet", "SQLite topic into Delta", "wall_us"), at_least=0.4),
        Target(
            "postgres", Ratio("Parquet into Parquet", "PostgreSQL topic into Delta", "wall_us"), at_least=0.4
        ),
    ],
)
