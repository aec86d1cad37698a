"""Writes the batches of a stream one by one, as batch queries with the identity of the stream's batches.

For output modes that Spark does not offer to sinks written in Python: `update` and `complete`.
"""

from collections.abc import Mapping

from penstock.errors import MissingExtra

from .lake.modes import COMPLETE, Mode

try:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc


def batch_by_batch(
    frame: DataFrame, mode: Mode, sink: str, options: Mapping[str, str], checkpoint: str
) -> DataStreamWriter:
    """Return a writer that hands each batch to the sink."""

    def write(batch: DataFrame, number: int) -> None:
        writer = batch.write.format(sink).mode("append").options(**options)
        writer.option("checkpointLocation", checkpoint).option("batchNumber", str(number)).save()

    kind = "complete" if mode.name == COMPLETE else "update"
    return frame.writeStream.outputMode(kind).foreachBatch(write)
