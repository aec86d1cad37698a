"""Registers our formats with a Spark session."""

from typing import Any

from .lake.sink import DeltaSink, IcebergSink
from .source.data_source import PenstockSource


def register(spark: Any) -> None:
    """Register the formats `penstock`, `penstock-delta` and `penstock-iceberg` with a session.

    It needs no Java. Spark Connect sessions work, too: they get the names of these classes, so the server's
    Python must have the same Penstock.
    """
    for each in (PenstockSource, DeltaSink, IcebergSink):
        spark.dataSource.register(each)
