"""Registers our formats with Spark. This module needs no Java: a Spark Connect client has none."""

from typing import Any

from .lake.sink import DeltaSink, IcebergSink
from .source.data_source import PenstockSource


def register(spark: Any) -> None:
    """Register the formats `penstock`, `penstock-delta` and `penstock-iceberg` with a session.

    Spark Connect sessions work, too: they get the names of these classes, so the server's Python must have
    the same Penstock.
    """
    for each in (PenstockSource, DeltaSink, IcebergSink):
        spark.dataSource.register(each)
