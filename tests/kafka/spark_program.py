"""Spark's own Kafka connector, in batch and streaming; run by the Python of an environment that has it.

Arguments: the broker's address, a folder for the checkpoint, the connector's jars with commas between them;
`batch`, if nothing is to be streamed. Prints one JSON object.
"""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Write and read in batch; between the two writes and after them copy the topic as a stream."""
    address, folder, jars, *rest = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.jars.ivy", f"{folder}/ivy")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    kafka = {"kafka.bootstrap.servers": address}

    def read(topic: str, **options: str) -> list[list[object]]:
        frame = spark.read.format("kafka").options(**kafka, subscribe=topic, **options).load()
        return [list(row) for row in frame.selectExpr("string(key)", "string(value)", "offset").collect()]

    def write(first: int, count: int) -> None:
        some = spark.range(first, first + count).selectExpr("string(id % 5) key", "concat('v', id) value")
        some.write.format("kafka").options(**kafka, topic="from_spark").save()

    def copy() -> None:
        source = spark.readStream.format("kafka").options(**kafka, subscribe="from_spark")
        stream = source.option("startingOffsets", "earliest").load().selectExpr("key", "value")
        query = (
            stream.writeStream.format("kafka")
            .options(**kafka, topic="copied", checkpointLocation=f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    if rest == ["batch"]:
        write(0, 60)
    else:
        write(0, 40)
        copy()
        write(40, 20)
        copy()
    bounded = read("from_spark", endingOffsets=json.dumps({"from_spark": {"0": 3, "1": 0}}))
    copied = [] if rest == ["batch"] else read("copied")
    print(json.dumps({"bounded": bounded, "written": read("from_spark"), "copied": copied}))
    spark.stop()


if __name__ == "__main__":
    main()
