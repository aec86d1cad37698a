"""Removes rows from a table: rewrites the files that hold some without them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import StorageAway

from .contract import DataFile, PartOf, Table
from .data_files import OpenFile
from .file_rows import file_rows, file_schema
from .storage import Location, location, storage_of

Goes = Callable[[pa.RecordBatch], pa.Array]  # from rows to a mask of those to remove


@dataclass
class Rewritten:
    """The files to add to a table, and those to remove; `rows`: how many rows are removed with them."""

    added: list[tuple[PartOf, DataFile]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rows: int = 0

    def put(self, table: Table) -> None:
        """Commit the new files in place of the old ones. Raises CommitFailedError."""
        if self.removed:
            table.replace(self.added, self.removed, table.arrow_schema(), None, table.partition_columns())

    def abandon(self) -> None:
        """Remove the new files, before any commit was tried."""
        self._remove(set())

    def take_back(self, table: Table) -> None:
        """Remove the new files after a failed commit, unless it took effect after all, or may do so later."""
        if not table.settles_late:
            self._remove(type(table)(table.folder).file_names())

    def _remove(self, held: set[str]) -> None:
        for _, each in self.added:
            if each.name not in held:
                with suppress(OSError, StorageAway):
                    (location(each.table) / each.name).unlink()


def without(table: Table, columns: Sequence[str], goes: Goes, *, dry_run: bool = False) -> Rewritten:
    """Rewrite the files of a table that hold rows to remove, found by some columns; a dry run only counts.

    Nothing is committed yet; if it fails, no files are left behind.
    """
    done = Rewritten()
    try:
        for part, name in table.files():
            count, made = _file(table.folder, name, columns, goes, dry_run)
            if count:
                done.rows += count
                done.removed.append(name)
                done.added += [(part, each) for each in made]
    except BaseException:
        done.abandon()
        raise
    return done


def cleaned(file: DataFile, columns: Sequence[str], goes: Goes, *, several: bool) -> list[DataFile]:
    """Return an uncommitted file without the rows to remove, found by some columns; none if all go.

    Uses the column `topic` where the file has one; with `several` topics, rows without it stay.
    """
    path = location(file.table)
    with storage_of(path).parquet(path / file.name) as source:
        names = source.schema_arrow.names
    if not set(columns) <= set(names) or (several and "topic" not in names):
        return [file]
    seen = [*columns, "topic"] if "topic" in names else columns
    count, made = _file(path, file.name, seen, goes, dry_run=False)
    if not count:
        return [file]
    (path / file.name).unlink(missing_ok=True)
    return [replace(each, part=file.part) for each in made]


def _file(
    path: Location, name: str, columns: Sequence[str], goes: Goes, dry_run: bool
) -> tuple[int, list[DataFile]]:
    """Return how many rows of a file are removed, and the file with the others, if there are any."""
    with storage_of(path).parquet(path / name) as source:
        count = sum(pc.sum(_mask(goes, batch)).as_py() or 0 for batch in file_rows(source, columns))
        if dry_run or count in (0, source.metadata.num_rows):
            return count, []
        file = OpenFile(path, file_schema(source))
        try:
            for batch in file_rows(source):
                file.add(batch.filter(pc.invert(_mask(goes, batch.select(list(columns))))))
            return count, [file.finish()]
        except BaseException:
            file.abandon()
            raise


def _mask(goes: Goes, batch: pa.RecordBatch) -> pa.Array:
    return pc.fill_null(goes(batch), False)


def fitting(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of the table; missing columns are NULL."""
    if rows.schema.names == schema.names:
        return rows.cast(schema)
    columns = [
        rows.column(each.name).cast(each.type)
        if each.name in rows.schema.names
        else pa.nulls(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.table(columns, schema=schema)
