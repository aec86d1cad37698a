"""A stream's reader for Spark 4.0 and 4.1, which do not say where a batch begins: it keeps the place itself.

Spark calls `partitions` for every batch, and once with an empty range when a query starts again: from there
the place is known. With `trigger(availableNow=True)` Spark asks for the end before that. Then all there is
becomes one batch, and its offset is marked as one whose start is a guess (`begins_unknown`): where a new
query would begin. Who reads it later takes the end of the batch before it, if there is one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.errors import MissingExtra

from .offset_forms import GUESSED, Form, begun_at
from .source import ReadWhole
from .versions import ReadAllAvailable

try:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc


class PlaceKeeping(DataSourceStreamReader):
    """The reader of one or of several topics, asked as Spark has asked since 4.2. Used by one thread."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._place: Form | None = None  # where the next batch begins
        self._kept: Form | None = None  # the same, as it is in the checkpoint

    def initialOffset(self) -> Form:  # noqa: N802 - Spark's name
        """Return where a new query begins."""
        self._place = self._kept = self._reader.initialOffset()
        return self._place

    def latestOffset(self) -> Form:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Return where the next batch ends."""
        if self._place is None or self._kept is None:
            guess: Form = self._reader.latestOffset(self._reader.initialOffset(), ReadWhole())
            return guess | {GUESSED: True}
        end: Form = self._reader.latestOffset(self._place, self._reader.getDefaultReadLimit())
        return self._kept if end == self._place else end

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch, and begin the next one behind it."""
        if self._place is None or GUESSED in end:
            self._reader.latestOffset(dict(start), ReadAllAvailable())  # it says if the log is another
        place = begun_at(dict(start), dict(end)) if GUESSED in end else dict(end)
        tasks: list[InputPartition] = [] if start == end else self._reader.partitions(start, place)
        self._place, self._kept = place, dict(end)
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        found: Iterator[pa.RecordBatch] = self._reader.read(partition)
        return found

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the checkpoint keeps the place."""
