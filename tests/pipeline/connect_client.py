"""A program of a user who has Spark Connect: no Java here, and nothing of Penstock but its formats.

Arguments: the server, the store, a folder. Prints one line of JSON: what a batch query has read, and how far
the lake is behind; it may be killed before.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline import register, source_metrics
from tests.pipeline.stores import TOPIC

BATCH = 1_000
COPIED = "copied"


def main() -> None:
    """Read the topic, put it into a lake, and copy it to another topic."""
    server, url, folder = sys.argv[1:]
    spark = SparkSession.builder.remote(server).getOrCreate()
    register(spark)
    reader: Any = spark.read.format("penstock").options(url=url, topic=TOPIC)
    read = [list(each) for each in reader.load().select("partition", "offset", "type").collect()]

    def streamed(form: str, to: str, *columns: str, batch: int, **options: str) -> Any:
        source: Any = spark.readStream.format("penstock").options(url=url, topic=TOPIC)
        frame = source.option("maxRecordsPerBatch", str(batch)).load().select(*columns)
        writer = frame.writeStream.format(form).options(**options).outputMode("append")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint-{to}")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query.lastProgress

    lake = {"path": f"{folder}/lake", "tableBy": "type"}
    progress = streamed("penstock-delta", "lake", "*", batch=BATCH, **lake)
    streamed("penstock", "copied", "key", "value", "type", batch=3 * BATCH, url=url, topic=COPIED)
    lag = [each.lag for each in source_metrics(progress)] if progress else []
    print(json.dumps({"read": read, "lag": lag}))


if __name__ == "__main__":
    main()
