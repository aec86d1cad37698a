"""The differences between Spark 4.0 and 4.3, in one place, detected by feature and not by version number.

| since | Python sources and sinks have                                                  |
|-------|--------------------------------------------------------------------------------|
| 4.1   | stream writers that take Arrow                                                 |
| 4.2   | `latestOffset(start, limit)`, `reportLatestOffset`, `trigger(availableNow=…)`   |
"""

import inspect
from typing import Any

from penstock.errors import MissingExtra

try:
    import pyarrow as pa
    from pyspark.sql import datasource
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    TELLS_START = True  # Spark passes the start of a batch, and its limit, to a stream's reader
except ImportError:
    from .read_limits import (  # type: ignore[assignment]
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    TELLS_START = False

__all__ = [
    "TELLS_START",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
    "arrow_schema_of",
]

StreamArrowWriter: Any
if hasattr(datasource, "DataSourceStreamArrowWriter"):
    StreamArrowWriter = datasource.DataSourceStreamArrowWriter
else:

    class _StreamArrowWriter(  # type: ignore[misc]  # `commit` is that of a stream
        datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter
    ):
        """A stream writer that gets Arrow: Spark 4.0 only checks for `DataSourceArrowWriter`."""

    StreamArrowWriter = _StreamArrowWriter

_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark hands to a sink, with times in UTC."""
    return to_arrow_schema(schema, **_IN_UTC)
