"""The lake of the demo: the shop's events in Delta tables, and its revenue per minute."""

from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, functions

from penstock.pipeline.declared import Pipeline
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.reconcile.figures import account
from penstock.pipeline.query import Job, Running, begin
from penstock.pipeline.session import spark_session

_ORDER = "cents BIGINT, placed_at TIMESTAMP"


class DemoLake:
    """A Spark session and the folder it fills. Raises NoJava, SparkNotStarted."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder.absolute()
        self._spark = spark_session("penstock demo")

    def fill(self) -> int:
        """Copy the log into one table per type; return how many distinct records they hold."""
        to = self._folder / "events"
        _wait(begin(self._spark, Job(url=self._url, topic="events", to=to, once=True)))
        held = [account(to, each).held for each in Lake(to).sources()]
        return sum(end - start for runs in held for _, start, end in runs)

    def revenue(self) -> list[tuple[str, int]]:
        """Aggregate the log in windows of a minute; return the table's rows, in order."""
        to = self._folder / "revenue"
        job = Job(url=self._url, topic="events", to=to, once=True)
        _wait(begin(self._spark, job, Pipeline(function=revenue)))
        rows = DeltaTable(str(to)).to_pyarrow_table().to_pylist()
        return sorted((f"{row['minute']:%H:%M}", row["cents"]) for row in rows)

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()


def revenue(events: DataFrame) -> DataFrame:
    """Return the revenue per minute, by the time in the order."""
    order = functions.from_json(functions.col("value").cast("string"), _ORDER).alias("order")
    orders = events.where("type = 'order.placed'").select(order).select("order.*")
    minutes = orders.withWatermark("placed_at", "1 minute").groupBy(
        functions.window("placed_at", "1 minute").alias("w")
    )
    return minutes.agg(functions.sum("cents").alias("cents")).select(functions.col("w.start").alias("minute"), "cents")


def _wait(running: Running) -> None:
    running.wait()
    running.check()
