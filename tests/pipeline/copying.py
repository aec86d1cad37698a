"""A program that copies a topic into another with Spark, each record once: `python -m … URL FOLDER TASKS`.

What is copied says where it stood. Where to die is in the environment, as for `killing.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.pipeline.killing import DRIVER, RECORDS_PER_BATCH, KillingBack
from tests.pipeline.stores import TOPIC

COPIES = "copies"


def copy(spark: Any, url: str, checkpoint: Path, tasks: int, **others: str) -> Any:
    """Start the query that copies what there is, and ends."""
    source = spark.readStream.format("penstock").options(
        url=url, topic=TOPIC, maxRecordsPerBatch=str(RECORDS_PER_BATCH), numPartitions=str(tasks)
    )
    place = "concat(partition, '/', offset) AS value"
    writer = source.load().selectExpr("key", place, "type", "headers", "timestamp").writeStream
    options = {"url": url, "topic": COPIES, "checkpointLocation": str(checkpoint), **others}
    return writer.format("penstock").options(**options).trigger(availableNow=True).start()


def main(url: str, checkpoint: str, tasks: str) -> None:
    from penstock.pipeline.session import spark_session

    os.environ[DRIVER] = str(os.getpid())
    spark = spark_session("copying", master="local[2]")
    spark.dataSource.register(KillingBack)
    copy(spark, url, Path(checkpoint), int(tasks)).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
