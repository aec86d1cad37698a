"""The names under which Spark knows what is here. Java is not needed here: a client of Connect has none."""

from typing import Any

from .sink import DeltaSink, IcebergSink
from .source import PenstockSource


def register(spark: Any) -> None:
    """Make the formats `penstock`, `penstock-delta` and `penstock-iceberg` known to a session.

    To one of Spark Connect, too: what is sent there are the names of these classes, so the server's Python
    must have the same Penstock.
    """
    for each in (PenstockSource, DeltaSink, IcebergSink):
        spark.dataSource.register(each)
