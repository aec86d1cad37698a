"""Spark reads a log, a row a record, beside the same rows in zstd Parquet; nothing is done with them."""

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.lakes import Rows, rows, rows_in_files
from bench.stores import postgres, sqlite


def read_parquet(run: Run, at: Rows) -> None:
    """Read all columns of the Parquet files."""
    at.spark.read.parquet(str(at.parquet)).write.format("noop").mode("overwrite").save()


def read_log(run: Run, at: Rows) -> None:
    """Read all columns of the log."""
    at.log().write.format("noop").mode("overwrite").save()


CASE = Case(
    name="lake_read",
    about="Spark reads a log of 1 KB rows beside the same rows in Parquet, local[2]",
    records=Size(quick=300_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[
        Variant("Parquet", read_parquet, setup=rows(sqlite)),
        Variant("SQLite log", read_log, setup=rows(sqlite)),
        Variant("PostgreSQL log", read_log, setup=rows(postgres)),
        Variant("log in files", read_log, setup=rows_in_files),
        Variant("Parquet of files", read_parquet, setup=rows_in_files),
    ],
    targets=[
        Target("sqlite", Ratio("SQLite log", "Parquet", "wall_us"), at_most=4),
        Target("postgres", Ratio("PostgreSQL log", "Parquet", "wall_us"), at_most=5),
        Target("files", Ratio("log in files", "Parquet of files", "cpu_us"), at_most=2),
    ],
)
