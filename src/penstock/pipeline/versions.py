"""Spark as it is: what its versions 4.0 to 4.3 lack, and its Python workers.

Differences are detected by feature and not by version number.

| since | Python sources and sinks have                                                  |
|-------|--------------------------------------------------------------------------------|
| 4.1   | stream writers that take Arrow                                                 |
| 4.2   | `latestOffset(start, limit)`, `reportLatestOffset`, `trigger(availableNow=…)`   |

Workers are reused from task to task, and Spark's daemon collects garbage after every task. The modules that a worker
has imported by then are some hundred thousand permanent objects, and scanning them is most of the cost of a task in a
small batch. So they are frozen once: the collector skips them, and still finds the garbage of tasks.
"""

import gc
import inspect
import sys
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    TELLS_START = True  # Spark passes the start of a batch, and its limit, to a stream's reader
except ImportError:  # Spark asks for the latest offset without a limit, and the reader keeps its own

    class ReadLimit:  # type: ignore[no-redef]
        """The limit of a batch."""

    @dataclass(frozen=True)
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """No limit: all available records."""

    @dataclass(frozen=True)
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """At most `max_rows` rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A source that can be told to end at its current end."""

    TELLS_START = False

__all__ = [
    "TELLS_START",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
    "arrow_schema_of",
    "freeze_modules",
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

_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark hands to a sink, with times in UTC."""
    return to_arrow_schema(schema, **_IN_UTC)


_DAEMON = "pyspark.daemon"
_frozen = False


def freeze_modules() -> None:
    """Freeze the loaded objects, once, in a worker of Spark; elsewhere do nothing."""
    global _frozen
    if not _frozen and getattr(sys.modules["__main__"].__spec__, "name", None) == _DAEMON:
        gc.collect()
        gc.freeze()
        _frozen = True
