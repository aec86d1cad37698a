"""Routes rows to tables, their columns and their partitions, in tasks, for each batch of rows.

One routing serves a whole query: several tables are filled in one pass over its rows. To send rows elsewhere,
or with other columns, implement `Routing` and let `routing_of` choose it by an option of the sink.

Tables may be partitioned by the year, month, day or hour of a column: readers of some days then open only their files.
The partition is a column of its own (`timestamp_day`), whose value is in the table's log and not in the files.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption, RowsBreakRules

from ..columns import all_known_ms
from .paths import folder_of

PartValues = tuple[tuple[str, str | None], ...]  # column → value, as Delta's log has them
_FORMATS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}
_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_SAID = re.compile(r"(?P<unit>year|month|day|hour)\((?P<column>\w+)\)")


@dataclass(frozen=True)
class Partitioning:
    """The column and unit of time by which tables are partitioned; None: they are not."""

    column: str | None = None
    unit: str = ""

    @classmethod
    def parse(cls, said: str | None, option: str = "partitionBy") -> "Partitioning":
        """Read `day(timestamp)`. Raises InvalidOption."""
        if not said:
            return cls()
        found = _SAID.fullmatch(said.strip().replace(" ", ""))
        if found is None:
            raise InvalidOption(option, said, "year, month, day or hour of a column: day(timestamp)")
        return cls(found["column"], found["unit"])

    def check(self, times: Collection[str]) -> None:
        """Refuse a column without times. Raises InvalidOption."""
        if self.column is not None and self.column not in times:
            said, those = f"{self.unit}({self.column})", ", ".join(times) or "here is none"
            raise InvalidOption("--partition-by", said, f"year, month, day or hour of a column of timestamps: {those}")

    def made(self, names: Collection[str]) -> str | None:
        """Return the partition column for a table with these columns, if it gets one."""
        return f"{self.column}_{self.unit}" if self.column in names else None

    def columns(self, schema: pa.Schema) -> list[str]:
        """Return the columns that a table with this schema has in its log and not in files."""
        return [field.name for field in self._added(schema)]

    def whole(self, schema: pa.Schema) -> pa.Schema:
        """Return the table's schema for a schema of its files. Raises InvalidOption."""
        for field in self._added(schema):
            if not pa.types.is_timestamp(schema.field(self.column).type):
                raise InvalidOption("partitionBy", f"{self.unit}({self.column})", "of a column of timestamps")
            if field.name.lower() in {name.lower() for name in schema.names}:
                wanted = f"of another unit or column: rows have a column {field.name} already; or rename that"
                raise InvalidOption("partitionBy", f"{self.unit}({self.column})", wanted)
            schema = schema.append(field)
        return schema

    def parts(self, rows: pa.RecordBatch) -> Iterator[tuple[PartValues, pa.RecordBatch]]:
        """Yield rows by partition."""
        names = self.columns(rows.schema)
        if not names:
            yield (), rows
            return
        seconds = pc.floor_temporal(rows.column(self.column), unit="second")  # a cast rounds towards 1970
        milliseconds = all_known_ms(seconds.cast(_MILLISECONDS, safe=False).cast(pa.int64()))
        values = pc.strftime(milliseconds.cast(_MILLISECONDS), format=_FORMATS[self.unit])
        for value in pc.unique(values).to_pylist():
            yield ((names[0], value),), rows.filter(pc.is_null(values) if value is None else pc.equal(values, value))

    def _added(self, schema: pa.Schema) -> list[pa.Field]:
        made = self.made(schema.names)
        if made is None:
            return []  # a table of other columns, as one of rejected rows may be
        return [pa.field(made, pa.date32() if self.unit == "day" else pa.string())]


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
class OneTable(Routing):
    """All rows go into the folder itself, as they are."""

    schema: pa.Schema
    several = False

    def parts(self, batch: pa.RecordBatch) -> Iterator[TableRows]:
        yield TableRows(ITSELF, batch.cast(self.schema))

    def schema_of(self, table: str) -> pa.Schema:
        return self.schema


@dataclass(frozen=True)
class ByColumn(Routing):
    """One table for each value of a column, with all columns."""

    schema: pa.Schema
    column: str
    only: tuple[str, ...] = ()  # rows of other tables are left out
    otherwise: str | None = None  # the column that names the table of a row without a value in `column`
    several = True

    def parts(self, batch: pa.RecordBatch) -> Iterator[TableRows]:
        """Yield the rows of each value. Raises InvalidOption for rows that have none."""
        rows = batch.cast(self.schema)
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
                yield TableRows(table, rows if len(values) == 1 else rows.filter(pc.equal(column, value)))

    def schema_of(self, table: str) -> pa.Schema:
        return self.schema


def routing_of(options: Mapping[str, str], schema: pa.Schema) -> Routing:
    """Return the routing that the options of a sink give rows with these columns. Raises InvalidOption."""
    by, only = options.get("tableBy") or None, only_tables(options)
    if BROKEN in schema.names:
        return Ruled(routing_of(options, schema.remove(schema.get_field_index(BROKEN))), only)
    if options.get("layout"):
        try:
            return ByType(schema, msgspec.json.decode(options["layout"], type=Layout), only)
        except msgspec.MsgspecError as exc:
            raise InvalidOption("layout", options["layout"], "what a typed lake has made") from exc
    if by is None:
        return OneTable(schema)
    otherwise = options.get("tableOtherwise") or None
    for option, column in (("tableBy", by), ("tableOtherwise", otherwise)):
        if column is not None and column not in schema.names:
            raise InvalidOption(option, column, f"one of the columns {', '.join(schema.names)}")
    return ByColumn(schema, by, only, otherwise)


def only_tables(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tables that are to be rebuilt; none: rows of all tables are written."""
    return tuple(name for name in (options.get("onlyTables") or "").split("/") if name)


TABLE, REASON, DELETED, REJECTED = "__table", "reason", "deleted", "rejected"
TOMBSTONE = "__tombstone"
BUCKET = "bucket"  # of tables of upserts


class Layout(msgspec.Struct, frozen=True):
    """The columns of each typed table, each with its column in the rows, which types share."""

    tables: dict[str, dict[str, str]]


@dataclass(frozen=True)
class ByType(Routing):
    """One table for each type, with its own columns. `only`: rows of other tables are left out."""

    schema: pa.Schema
    layout: Layout
    only: tuple[str, ...] = ()
    several = True

    def parts(self, batch: pa.RecordBatch) -> Iterator[TableRows]:
        """Yield the rows of each table. Raises InvalidOption for rows without a type."""
        rows = batch.cast(self.schema)
        names = rows.column(TABLE)
        for name in pc.unique(names).to_pylist():
            if not name:
                raise InvalidOption("tableBy", "type", "a column of strings that are not empty")
            table = name if name == f"~{REJECTED}" else folder_of(name)
            if not self.only or table in self.only:
                yield TableRows(table, self._columns(table, rows.filter(pc.equal(names, name))))

    def schema_of(self, table: str) -> pa.Schema:
        if table in self.layout.tables:
            columns = self.layout.tables[table].items()
            typed = [pa.field(name, self.schema.field(shared).type) for name, shared in columns]
            return pa.schema([*self._without("value"), pa.field(DELETED, pa.bool_()), *typed])
        if table == REJECTED:
            return pa.schema([*self._without(BUCKET), self.schema.field(REASON)])
        upserts = BUCKET in self.schema.names
        return pa.schema([*self._envelope, *([pa.field(DELETED, pa.bool_())] if upserts else [])])

    def _columns(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        schema = self.schema_of(table)
        if table not in self.layout.tables:
            arrays = [pc.is_null(rows["value"]) if name == DELETED else rows[name] for name in schema.names]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)
        names = [field.name for field in self._without("value")]
        names += [TOMBSTONE, *self.layout.tables[table].values()]
        return pa.RecordBatch.from_arrays([rows.column(name) for name in names], schema=schema)

    @cached_property
    def _envelope(self) -> list[pa.Field]:
        shared = {name for columns in self.layout.tables.values() for name in columns.values()}
        return [field for field in self.schema if field.name not in {TABLE, REASON, TOMBSTONE, *shared}]

    def _without(self, name: str) -> list[pa.Field]:
        return [field for field in self._envelope if field.name != name]


@dataclass(frozen=True)
class Ruled(Routing):
    """A routing of rows with a column for the rule they break. `only`: rows of other tables are left out."""

    inner: Routing
    only: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
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
            yield TableRows(table, self._with_reason(each, pa.nulls(len(each), pa.string())) if unnamed else each)

    def schema_of(self, table: str) -> pa.Schema:
        """Return the columns of a table; `rejected` has the reason."""
        schema = self.inner.schema_of(table)
        named = table != REJECTED or REASON in schema.names
        return schema if named else schema.append(pa.field(REASON, pa.string()))

    def _with_reason(self, rows: pa.RecordBatch, reason: pa.Array) -> pa.RecordBatch:
        schema = self.schema_of(REJECTED)
        columns = [reason if name == REASON else rows.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
