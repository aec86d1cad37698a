"""Routes rows that break a rule of their table to `rejected`, with the reason; a single table stops."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowsBreakRules

from .routing import BROKEN, Routing, TableRows
from .typed.routing import REASON, REJECTED


@dataclass(frozen=True)
class Ruled:
    """A routing of rows with a column for the rule they break. `only`: rows of other tables are left out."""

    inner: Routing
    only: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        """Whether there are several tables in folders, a lake."""
        return self.inner.several

    def parts(self, batch: pa.RecordBatch) -> Iterator[TableRows]:
        """Yield the rows of each table. Raises RowsBreakRules."""
        broken, sound = batch.column(BROKEN), pc.is_null(batch.column(BROKEN))
        rows = batch.drop_columns([BROKEN])
        if broken.null_count < len(broken):
            rejected = batch.filter(pc.invert(sound))
            if not self.several:
                raise RowsBreakRules(rejected.column(BROKEN)[0].as_py())
            if not self.only or REJECTED in self.only:
                yield TableRows(REJECTED, self._with_reason(rejected, rejected.column(BROKEN)))
            rows = rows.filter(sound)
        for table, each in self.inner.parts(rows) if rows.num_rows else ():
            unnamed = table == REJECTED and REASON not in each.schema.names  # raw, of a type of that name
            yield TableRows(
                table, self._with_reason(each, pa.nulls(len(each), pa.string())) if unnamed else each
            )

    def schema_of(self, table: str) -> pa.Schema:
        """Return the columns of a table; `rejected` has the reason."""
        schema = self.inner.schema_of(table)
        named = table != REJECTED or REASON in schema.names
        return schema if named else schema.append(pa.field(REASON, pa.string()))

    def _with_reason(self, rows: pa.RecordBatch, reason: pa.Array) -> pa.RecordBatch:
        schema = self.schema_of(REJECTED)
        columns = [reason if name == REASON else rows.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
