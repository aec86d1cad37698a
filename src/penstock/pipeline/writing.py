"""Writing Arrow batches as Parquet files of tables: what a task of the sink does."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec

from penstock.errors import InvalidOption, MissingExtra

from .paths import folder_of
from .table import DataFile

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_GROUP_BYTES = 32 << 20  # rows gathered for one row group of a file
_HELD_BYTES = 128 << 20  # rows gathered for all files of a task


class OpenFile:
    """One Parquet file of one table, while it is written."""

    def __init__(self, table: Path, schema: pa.Schema) -> None:
        self.table, self._schema = table, schema
        self._name = f"part-{uuid4()}.zstd.parquet"
        self._held: list[pa.RecordBatch] = []
        self.held_bytes = self._rows = 0
        table.mkdir(parents=True, exist_ok=True)
        self._sink = (table / self._name).open("wb")
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd")

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; they are written when there are enough for a row group."""
        self._held.append(batch)
        self.held_bytes += batch.nbytes
        self._rows += batch.num_rows
        if self.held_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the rows gathered so far as a row group."""
        if self._held:
            rows = pa.Table.from_batches(self._held, self._schema)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._held, self.held_bytes = [], 0

    def finish(self) -> DataFile:
        """Close the file, bring it to the disk and return what it is."""
        self.flush()
        self._writer.close()
        self._sink.flush()
        os.fsync(self._sink.fileno())
        self._sink.close()
        path = self.table / self._name
        return DataFile(str(self.table), self._name, self._rows, path.stat().st_size, _stats(self._rows))

    def abandon(self) -> None:
        """Remove the file."""
        with suppress(OSError, ValueError, pa.ArrowException):  # it may be what failed, or closed already
            self._writer.close()
        self._sink.close()
        (self.table / self._name).unlink(missing_ok=True)


class FileWriter:
    """The files of one task: one, or one for each value of a column (`by`) in a folder of that value.

    `only`: rows that belong into other folders are left out.
    """

    def __init__(self, root: Path, schema: pa.Schema, by: str | None, only: tuple[str, ...] = ()) -> None:
        self._root, self._schema, self._by, self._only = root, schema, by, only
        self._open: dict[str, OpenFile] = {}

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """Write all batches; on an error nothing is left behind."""
        try:
            for batch in batches:
                for folder, rows in self._parts(batch):
                    self._file(folder).add(rows)
                if sum(each.held_bytes for each in self._open.values()) > _HELD_BYTES:
                    for each in self._open.values():
                        each.flush()
            return [each.finish() for each in self._open.values()]
        except BaseException:
            for each in self._open.values():
                each.abandon()
            raise

    def _file(self, folder: str) -> OpenFile:
        if folder not in self._open:
            self._open[folder] = OpenFile(self._root / folder if folder else self._root, self._schema)
        return self._open[folder]

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if batch.num_rows == 0:
            return
        rows = batch if batch.schema == self._schema else batch.cast(self._schema)
        if self._by is None:
            yield "", rows
            return
        column = rows.column(self._by)
        for value in pc.unique(column).to_pylist():
            if not isinstance(value, str) or not value:
                raise InvalidOption("tableBy", self._by, "a column of strings that are not empty")
            folder = folder_of(value)
            if not self._only or folder in self._only:
                yield folder, rows.filter(pc.equal(column, value))


def _stats(rows: int) -> str:
    """Return Delta's statistics of a file: its rows, and no bounds.

    Readers (delta-rs 1.6) take a column without bounds, beside columns with some, for one that holds nothing,
    and leave the file out; and a column of nulls has no bounds.
    """
    return msgspec.json.encode({"numRecords": rows}).decode()
