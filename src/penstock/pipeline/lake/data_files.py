"""The Parquet files of tables: reading them, writing them in tasks, and rewriting them without some rows.

Other writers store their own Arrow types in files: delta-rs views of strings and bytes, others large types. Arrow can
neither compare nor filter some of these, and a rewritten file would keep them: so rows get the types of tables.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from penstock.errors import Error, StorageAway

from .contract import DataFile, Table
from .routing import Partitioning, PartValues, Routing
from .statistics import Statistics
from .storage import Location, location, storage_of

_ROWS = 1 << 13


def file_schema(source: Any) -> pa.Schema:
    """Return the columns of an open Parquet file."""
    schema = source.schema_arrow
    return pa.schema([plain_field(each) for each in schema], schema.metadata)


def file_rows(source: Any, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open Parquet file, or some of their columns, in bounded batches."""
    schema = file_schema(source)
    for batch in source.iter_batches(_ROWS, columns=None if columns is None else list(columns)):
        yield batch.cast(pa.schema([schema.field(name) for name in batch.schema.names], schema.metadata))


def rows_of(files: Iterable[Location]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some Parquet files, in bounded batches."""
    for file in files:
        with storage_of(file).parquet(file) as source:
            yield from file_rows(source)


def plain_field(field: pa.Field, *, nullable: bool = False) -> pa.Field:
    """Return a field with the type that a table has; `nullable`, with all below, and without metadata, if asked."""
    kind = _plain(field.type, nullable)
    return pa.field(field.name, kind) if nullable else field.with_type(kind)


def _plain(kind: pa.DataType, nullable: bool) -> pa.DataType:
    if types.is_string_view(kind) or types.is_large_string(kind):
        return pa.string()
    if types.is_binary_view(kind) or types.is_large_binary(kind):
        return pa.binary()
    if types.is_dictionary(kind):
        return _plain(kind.value_type, nullable)
    if types.is_map(kind):
        return pa.map_(plain_field(kind.key_field), plain_field(kind.item_field, nullable=nullable), kind.keys_sorted)
    if any(is_kind(kind) for is_kind in _LISTS):
        return pa.list_(plain_field(kind.value_field, nullable=nullable))
    if types.is_struct(kind):
        return pa.struct([plain_field(kind.field(at), nullable=nullable) for at in range(kind.num_fields)])
    return kind


_LISTS = (types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view)
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
        self.held_bytes = self.rows = 0
        self._storage, self._path = storage_of(table), table / self._name
        self._sink = self._storage.begin(self._path)
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd")

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; they are written when there are enough for a row group."""
        self._held.append(batch)
        self.held_bytes += batch.nbytes
        self.rows += batch.num_rows
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
        return DataFile(str(self.table), self._name, self.rows, size, stats, dict(self._part))

    def abandon(self) -> None:
        """Remove the file."""
        # It may be the cause of the failure, or closed already.
        with suppress(OSError, ValueError, pa.ArrowException, Error):
            self._writer.close()
        self._storage.abandon(self._path, self._sink)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is not None:
            self.abandon()


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


Goes = Callable[[pa.RecordBatch], pa.Array]  # from rows to a mask of those to remove


@dataclass
class Rewritten:
    """The files to add to a table, and those to remove; `with` leaves no new files behind after a failure."""

    added: list[DataFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rows: int = 0  # how many rows are removed with them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is not None:
            remove(self.added)

    @contextmanager
    def committing(self, table: Table) -> Iterator[None]:
        """Remove the new files after a failed commit, unless it took effect after all, or may do so later."""
        try:
            yield
        except BaseException:
            if not table.settles_late:
                remove(self.added, type(table)(table.folder).file_names())
            raise


def remove(files: Iterable[DataFile], held: Collection[str] = ()) -> None:
    """Remove files but those that a table holds. A file that cannot be removed now is left to `vacuum`."""
    for each in files:
        if each.name not in held:
            with suppress(OSError, StorageAway):
                each.path.unlink()


def without(table: Table, columns: Sequence[str], goes: Goes, *, dry_run: bool = False) -> Rewritten:
    """Rewrite the files that hold rows to remove, found by some columns; no commit. A dry run only counts."""
    with Rewritten() as done:
        for each in table.files():
            count, made = _file(table.folder, each.name, columns, goes, dry_run)
            if count:
                done.rows += count
                done.removed.append(each.name)
                done.added += [replace(file, part=each.part) for file in made]
    return done


def cleaned(file: DataFile, columns: Sequence[str], goes: Goes, *, several: bool) -> list[DataFile]:
    """Return an uncommitted file without the rows to remove, found by some columns; none if all go.

    Uses the column `topic` where the file has one; with `several` topics, rows without it stay.
    """
    path = location(file.table)
    with storage_of(path).parquet(file.path) as source:
        names = source.schema_arrow.names
    if not set(columns) <= set(names) or (several and "topic" not in names):
        return [file]
    seen = [*columns, "topic"] if "topic" in names else columns
    count, made = _file(path, file.name, seen, goes, dry_run=False)
    if not count:
        return [file]
    file.path.unlink(missing_ok=True)
    return [replace(each, part=file.part) for each in made]


def _file(path: Location, name: str, columns: Sequence[str], goes: Goes, dry_run: bool) -> tuple[int, list[DataFile]]:
    """Return how many rows of a file are removed, and the file with the others, if there are any."""
    with storage_of(path).parquet(path / name) as source:
        count = sum(pc.sum(_mask(goes, batch)).as_py() or 0 for batch in file_rows(source, columns))
        if dry_run or count in (0, source.metadata.num_rows):
            return count, []
        with OpenFile(path, file_schema(source)) as file:
            for batch in file_rows(source):
                file.add(batch.filter(pc.invert(_mask(goes, batch.select(list(columns))))))
            return count, [file.finish()]


def _mask(goes: Goes, batch: pa.RecordBatch) -> pa.Array:
    return pc.fill_null(goes(batch), False)


def fitting(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of the table; missing columns are NULL."""
    for each in schema:
        if each.name not in rows.schema.names:
            rows = rows.append_column(each, pa.nulls(rows.num_rows, each.type))
    return rows.select(schema.names).cast(schema)
