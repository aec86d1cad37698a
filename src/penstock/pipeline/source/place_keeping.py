"""A stream reader for Spark 4.0 and 4.1, which do not pass the start of a batch: it keeps the position.

Spark calls `partitions` for every batch, and once with an empty range when a query restarts, before anything
else. So a reader that gets `latestOffset` before any `partitions` belongs to a new query.
`trigger(availableNow=True)` calls `latestOffset` once, before `initialOffset`: it reads one batch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ..offset_forms import Form


class PlaceKeeping(DataSourceStreamReader):
    """Calls a reader of one or several topics in the way Spark does since 4.2. Used by one thread."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._place: Form | None = None  # where the next batch begins

    def initialOffset(self) -> Form:  # noqa: N802 - Spark's name
        """Return where a new query begins: the same position in every call."""
        if self._place is None:
            self._place = self._reader.initialOffset()
        return self._place

    def latestOffset(self) -> Form:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Return where the next batch ends."""
        end: Form = self._reader.latestOffset(self.initialOffset(), self._reader.getDefaultReadLimit())
        return end

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch, and let the next one begin at its end."""
        tasks: list[InputPartition] = [] if start == end else self._reader.partitions(start, end)
        self._place = dict(end)
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        found: Iterator[pa.RecordBatch] = self._reader.read(partition)
        return found

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the checkpoint keeps the position."""
