"""Rows that go from a table: the files that hold some are written anew without them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from penstock.errors import MissingExtra, StorageAway

from .contract import DataFile, PartOf, Table
from .file_rows import file_rows, file_schema
from .storage import Location, location, storage_of
from .writing import OpenFile

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

Goes = Callable[[pa.RecordBatch], pa.Array]  # for some rows, which of them go


@dataclass
class Rewritten:
    """Files of a table that come, and those that go; `rows`: how many rows go with them."""

    added: list[tuple[PartOf, DataFile]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rows: int = 0

    def put(self, table: Table) -> None:
        """Let the table point to the new files instead of the old ones. Raises CommitFailedError."""
        if self.removed:
            table.replace(self.added, self.removed, table.arrow_schema(), None, table.partition_columns())

    def abandon(self) -> None:
        """Remove what was written, before anyone was asked to point to it."""
        self._remove(set())

    def take_back(self, table: Table) -> None:
        """Remove what was written after a commit failed, unless it counts all the same, or may later."""
        if not table.settles_late:
            self._remove(type(table)(table.folder).file_names())

    def _remove(self, held: set[str]) -> None:
        for _, each in self.added:
            if each.name not in held:
                with suppress(OSError, StorageAway):
                    (location(each.table) / each.name).unlink()


def without(table: Table, columns: Sequence[str], goes: Goes, *, dry_run: bool = False) -> Rewritten:
    """Write the files of a table anew that hold rows which go, seen by some columns; a dry run only counts.

    Nothing is committed yet; if it fails, nothing is left behind.
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
    """Return a file that no table points to without the rows that go, seen by some columns; none if all go.

    With the column `topic` where it has one; with `several` topics rows cannot be told without it, and stay.
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
    """Return how many rows of a file go, and the file that has the others; none if there are none."""
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
    """Return rows in the columns of the table; one that they do not have is NULL."""
    if rows.schema.names == schema.names:
        return rows.cast(schema)
    columns = [
        rows.column(each.name).cast(each.type)
        if each.name in rows.schema.names
        else pa.nulls(rows.num_rows, each.type)
        for each in schema
    ]
    return pa.table(columns, schema=schema)
