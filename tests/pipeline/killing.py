"""A sink that dies at a point of a batch's commit, and one that has lost its check: for the crash tests.

Run as a program it is a driver of its own: `python -m tests.pipeline.killing URL TABLE CHECKPOINT POINT N`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psutil

from penstock import points
from penstock.pipeline.identity import ByOffsets
from penstock.pipeline.sink import DeltaSink, DeltaStreamWriter, Target
from tests.pipeline.stores import TOPIC

RECORDS_PER_BATCH = 100


class KillingSink(DeltaSink):
    """The sink, with options to die (`killAt`, `killBatch`, `driver`) and to check nothing (`unchecked`)."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: Any, overwrite: bool) -> KillingWriter:
        inner: Any = super().streamWriter(schema, overwrite)
        return KillingWriter(inner._target, self.options)


class KillingWriter(DeltaStreamWriter):
    def __init__(self, target: Target, options: Mapping[str, str]) -> None:
        super().__init__(target, options)
        self._options = dict(options)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        if self._options.get("unchecked"):
            ByOffsets.is_in = lambda self, table: False  # type: ignore[method-assign]
        if str(batchId) == self._options.get("killbatch"):
            points.arm(self._options["killat"], lambda: kill_tree(int(self._options["driver"])))
        super().commit(messages, batchId)


def kill_tree(driver: int) -> None:
    """End the driver and all its processes as `kill -9` does, this one last."""
    found = [psutil.Process(driver), *psutil.Process(driver).children(recursive=True)]
    for process in found:
        if process.pid != os.getpid():
            with suppress(psutil.NoSuchProcess):  # it may have gone with the one before
                process.kill()
    points.kill()


def start(spark: Any, url: str, table: str, checkpoint: str, **options: str) -> Any:
    """Start the query of these tests: a topic in small batches into one table."""
    events = spark.readStream.format("penstock").option("url", url).option("topic", TOPIC)
    events = events.option("maxRecordsPerBatch", RECORDS_PER_BATCH).option("continueFrom", table)
    writer = events.load().writeStream.format("killing").options(**options)
    writer = writer.option("path", table).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


def main(url: str, table: str, checkpoint: str, point: str, batch: str) -> None:
    from penstock.pipeline.session import spark_session

    spark = spark_session("killed", master="local[2]")
    spark.dataSource.register(KillingSink)
    how = {"killAt": point, "killBatch": batch, "driver": str(os.getpid())}
    start(spark, url, table, checkpoint, **how).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
