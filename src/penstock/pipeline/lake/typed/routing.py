"""Routes typed rows to the table of their type, with the fields as columns; to `rejected` or a raw table."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption

from ..paths import folder_of
from ..routing import TableRows, fitted

TABLE, REASON, DELETED, REJECTED = "__table", "reason", "deleted", "rejected"
TOMBSTONE = "__tombstone"


class Layout(msgspec.Struct, frozen=True):
    """The columns of each typed table, each with its column in the rows, which types share."""

    tables: dict[str, dict[str, str]]


@dataclass(frozen=True)
class ByType:
    """One table for each type, with its own columns. `only`: rows of other tables are left out."""

    schema: pa.Schema
    layout: Layout
    only: tuple[str, ...] = ()
    several = True

    def parts(self, batch: pa.RecordBatch) -> Iterator[TableRows]:
        """Yield the rows of each table. Raises InvalidOption for rows without a type."""
        rows = fitted(batch, self.schema)
        names = rows.column(TABLE)
        for name in pc.unique(names).to_pylist():
            if not name:
                raise InvalidOption("tableBy", "type", "a column of strings that are not empty")
            table = name if name == f"~{REJECTED}" else folder_of(name)
            if not self.only or table in self.only:
                yield TableRows(table, self._columns(table, rows.filter(pc.equal(names, name))))

    def schema_of(self, table: str) -> pa.Schema:
        """Return the columns of a table."""
        if table in self.layout.tables:
            columns = self.layout.tables[table].items()
            typed = [pa.field(name, self.schema.field(shared).type) for name, shared in columns]
            return pa.schema([*self._without("value"), pa.field(DELETED, pa.bool_()), *typed])
        if table == REJECTED:
            return pa.schema([*self._without("bucket"), self.schema.field(REASON)])
        upserts = "bucket" in self.schema.names
        return pa.schema([*self._envelope, *([pa.field(DELETED, pa.bool_())] if upserts else [])])

    def _columns(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        schema = self.schema_of(table)
        if table not in self.layout.tables:
            arrays = [
                pc.is_null(rows.column("value")) if name == DELETED else rows.column(name)
                for name in schema.names
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)
        names = [field.name for field in self._without("value")]
        names += [TOMBSTONE, *self.layout.tables[table].values()]
        return pa.RecordBatch.from_arrays([rows.column(name) for name in names], schema=schema)

    @cached_property
    def _envelope(self) -> list[pa.Field]:
        shared = {name for columns in self.layout.tables.values() for name in columns.values()}
        ours = {TABLE, REASON, TOMBSTONE, *shared}
        return [field for field in self.schema if field.name not in ours]

    def _without(self, name: str) -> list[pa.Field]:
        return [field for field in self._envelope if field.name != name]


def by_type(option: str, schema: pa.Schema, only: tuple[str, ...]) -> ByType:
    """Return the routing that an option of the sink describes. Raises InvalidOption."""
    try:
        layout = msgspec.json.decode(option, type=Layout)
    except msgspec.MsgspecError as exc:
        raise InvalidOption("layout", option, "what a typed lake has made") from exc
    return ByType(schema, layout, only)
