"""The source `format("penstock")`: a topic as a batch or a stream, with offsets per partition, all in Arrow.

There is no `pushFilters`: in Spark 4.2 and 4.3 a filter that one query pushes down leaks into the next query
on the same DataFrame (a test in `tests/pipeline` watches the leak). Ranges and columns are options. A loaded
DataFrame is frozen at the log's content at that moment: call `load()` once per query.
"""

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamReader

from ..columns import spark_schema
from ..versions import TELLS_START
from .batch import BatchReader
from .options import read_all
from .stream import PositionKeeper, SeveralTopics, StreamReader


class PenstockSource(DataSource):
    """Spark's entry point: a name, a schema, and the reader or writer for a batch or a stream."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock"

    def schema(self) -> str:
        """Return the requested columns."""
        return spark_schema(read_all(self.options)[0].columns)

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch query."""
        return BatchReader(*read_all(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        asked = read_all(self.options)
        reader: Any = SeveralTopics(asked) if self.options.get("subscribe") else StreamReader(*asked)
        return reader if TELLS_START else PositionKeeper(reader)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch query's rows to topics."""
        from ..writeback import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """Return the writer of a streaming query's rows to topics."""
        from ..writeback import stream_writer

        return stream_writer(self.options, schema, overwrite)
