"""Writes Arrow batches to Parquet files of tables, in the tasks of the sink."""

from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import Error

from .contract import DataFile
from .partitioning import Partitioning, PartValues
from .routing import Routing
from .statistics import Statistics
from .storage import Location, storage_of

_GROUP_BYTES = 32 << 20  # rows gathered for one row group of a file
_HELD_BYTES = 128 << 20  # rows gathered for all files of a task
NO_PARTS = Partitioning()


class OpenFile:
    """One Parquet file of one table, while it is written."""

    def __init__(self, table: Location, schema: pa.Schema, part: PartValues = ()) -> None:
        self.table, self._schema, self._part = table, schema, part
        self._statistics = Statistics(schema)
        self._name = f"part-{uuid4()}.zstd.parquet"
        self._held: list[pa.RecordBatch] = []
        self.held_bytes = self._rows = 0
        self._storage, self._path = storage_of(table), table / self._name
        self._sink = self._storage.begin(self._path)
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd")

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; they are written when there are enough for a row group."""
        self._held.append(batch)
        self.held_bytes += batch.nbytes
        self._rows += batch.num_rows
        self._statistics.add(batch)
        if self.held_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the rows gathered so far as a row group."""
        if self._held:
            rows = pa.Table.from_batches(self._held, self._schema)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._held, self.held_bytes = [], 0

    def finish(self) -> DataFile:
        """Close the file, sync it and return its description."""
        self.flush()
        self._writer.close()
        self._sink.close()
        self._storage.bring_to_disk(self._path)
        stats, size = self._statistics.encode(), self._path.stat().st_size
        return DataFile(str(self.table), self._name, self._rows, size, stats, dict(self._part))

    def abandon(self) -> None:
        """Remove the file."""
        with suppress(
            OSError, ValueError, pa.ArrowException, Error
        ):  # it may be the cause of the failure, or closed already
            self._writer.close()
        self._storage.abandon(self._path, self._sink)


class FileWriter:
    """The files of one task: one for each table and partition that its rows go to."""

    def __init__(self, root: Location, routing: Routing, partitioning: Partitioning = NO_PARTS) -> None:
        self._root, self._routing, self._partitioning = root, routing, partitioning
        self._open: dict[tuple[str, PartValues], OpenFile] = {}

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """Write all batches; on an error nothing is left behind."""
        try:
            for batch in batches:
                for table, whole in self._routing.parts(batch) if batch.num_rows else ():
                    for part, rows in self._partitioning.parts(whole):
                        self._file(table, part).add(rows)
                if sum(each.held_bytes for each in self._open.values()) > _HELD_BYTES:
                    for each in self._open.values():
                        each.flush()
            return [each.finish() for each in self._open.values()]
        except BaseException:
            for each in self._open.values():
                each.abandon()
            raise

    def _file(self, table: str, part: PartValues) -> OpenFile:
        if (table, part) not in self._open:
            self._open[table, part] = OpenFile(self._root / table, self._routing.schema_of(table), part)
        return self._open[table, part]
