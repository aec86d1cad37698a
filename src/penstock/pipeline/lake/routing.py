"""Routes rows to tables and their columns, in tasks, for each batch of rows.

One routing serves a whole query: several tables are filled in one pass over its rows. To send rows elsewhere,
or with other columns, implement `Routing` and let `routing_of` choose it by an option of the sink.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption

from .paths import folder_of

ITSELF = "."  # the target folder is the one table
BROKEN = "__broken"  # a column of rows: the rule of their table that they break, or NULL


class TableRows(NamedTuple):
    """Rows for one table, in the columns of that table. `table`: its folder below the target folder."""

    table: str
    rows: pa.RecordBatch


class Routing(Protocol):
    """Chooses the table of each row. It is sent to tasks, so it must be picklable, and it keeps no state."""

    @property
    def several(self) -> bool:
        """Whether there are several tables in folders, a lake; else the folder itself is the one table."""

    def parts(self, batch: pa.RecordBatch) -> Iterator[TableRows]:
        """Yield the rows of a batch by table; the order of rows within a table is kept."""

    def schema_of(self, table: str) -> pa.Schema:
        """Return the columns of a table that `parts` has yielded."""


@dataclass(frozen=True)
class OneTable:
    """All rows go into the folder itself, as they are."""

    schema: pa.Schema
    several = False

    def parts(self, batch: pa.RecordBatch) -> Iterator[TableRows]:
        """Yield the batch."""
        yield TableRows(ITSELF, fitted(batch, self.schema))

    def schema_of(self, table: str) -> pa.Schema:
        """Return the columns of the query."""
        return self.schema


@dataclass(frozen=True)
class ByColumn:
    """One table for each value of a column, with all columns. `only`: rows of other tables are left out.

    `otherwise`: the column that names the table of a row without a value in `column`.
    """

    schema: pa.Schema
    column: str
    only: tuple[str, ...] = ()
    otherwise: str | None = None
    several = True

    def parts(self, batch: pa.RecordBatch) -> Iterator[TableRows]:
        """Yield the rows of each value. Raises InvalidOption for rows that have none."""
        rows = fitted(batch, self.schema)
        column = rows.column(self.column)
        if self.otherwise is not None:
            unnamed = pc.equal(pc.fill_null(column, ""), "")
            column = pc.if_else(unnamed, rows.column(self.otherwise), column)
        values = pc.unique(column).to_pylist()
        for value in values:
            if not isinstance(value, str) or not value:
                raise InvalidOption("tableBy", self.column, "a column of strings that are not empty")
            table = folder_of(value)
            if not self.only or table in self.only:
                whole = len(values) == 1
                yield TableRows(table, rows if whole else rows.filter(pc.equal(column, value)))

    def schema_of(self, table: str) -> pa.Schema:
        """Return the columns of the query."""
        return self.schema


def routing_of(options: Mapping[str, str], schema: pa.Schema) -> Routing:
    """Return the routing that the options of a sink give rows with these columns. Raises InvalidOption."""
    by = options.get("tableBy") or None
    only = tuple(name for name in (options.get("onlyTables") or "").split("/") if name)
    if BROKEN in schema.names:
        from .ruled import Ruled

        return Ruled(routing_of(options, schema.remove(schema.get_field_index(BROKEN))), only)
    if options.get("layout"):
        from .typed.routing import by_type

        return by_type(options["layout"], schema, only)
    if by is None:
        return OneTable(schema)
    otherwise = options.get("tableOtherwise") or None
    for option, column in (("tableBy", by), ("tableOtherwise", otherwise)):
        if column is not None and column not in schema.names:
            raise InvalidOption(option, column, f"one of the columns {', '.join(schema.names)}")
    return ByColumn(schema, by, only, otherwise)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in exactly these columns."""
    return batch if batch.schema == schema else batch.cast(schema)
