"""Finds the columns of records in a table, with their types, to tell whether rows can be compared to the log.

A raw table has all of them. A table of typed events has no `value`, but `deleted`, and behind it the fields,
one of which may be called `value`. The table of a user's function may have any columns.
"""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyarrow import types

from ...columns import COLUMNS, is_bytes, is_headers, is_text
from ..contract import Table
from ..lake import Lake
from ..paths import is_table
from ..state import known_reader
from ..upsert import BUCKET, DELETED, KEY_PROPERTY

ENVELOPE = tuple(name for name in COLUMNS if name != "value")


_FITS: dict[str, Callable[[pa.DataType], bool]] = {
    "key": is_bytes,
    "value": is_bytes,
    "type": is_text,
    "headers": is_headers,
    "topic": is_text,
    "partition": types.is_integer,
    "offset": types.is_integer,
    "timestamp": types.is_timestamp,
}


def types_in(table: Table) -> dict[str, pa.DataType]:
    """Return the columns of a table, in order."""
    return {field.name: field.type for field in table.arrow_schema()}


def fit(columns: Mapping[str, pa.DataType], names: Sequence[str]) -> bool:
    """Return whether there are columns of these names, with the types that they have in records."""
    return all(name in columns and _FITS[name](columns[name]) for name in names)


def has_values(columns: Mapping[str, pa.DataType]) -> bool:
    """Return whether there is a column with the values of records."""
    names = list(columns)
    return "value" in names and (DELETED not in names or names.index("value") < names.index(DELETED))


def field_names(table: Table) -> list[str]:
    """Return the columns of a typed table that are fields of its class; none for other tables."""
    names = list(types_in(table))
    if DELETED not in names:
        return []
    others = {BUCKET, *table.partition_columns()}
    return [name for name in names[names.index(DELETED) + 1 :] if name not in others]


def says_deletions(table: Table, columns: Mapping[str, pa.DataType]) -> bool:
    """Return whether `deleted` means that the record has no value: not in the table of a user's function."""
    if DELETED not in columns or not table.is_of_lake():
        return False
    return not has_values(columns) or KEY_PROPERTY in table.configuration()


def is_by_type(table: Table, columns: Mapping[str, pa.DataType]) -> bool:
    """Return whether a table is a raw table of a lake, with the records of one type."""
    ours = {*COLUMNS, *((DELETED, BUCKET) if KEY_PROPERTY in table.configuration() else ())}
    own = columns.keys() - {*table.partition_columns()} | {*COLUMNS} & columns.keys()
    return own | {BUCKET} == ours | {BUCKET} and fit(columns, tuple(COLUMNS)) and table.is_of_lake()


def lost_columns(lake: Lake, tables: Sequence[Table]) -> list[str]:
    """Return in words the columns that tables of a lake have lost, or have with another type.

    A lake of a user's own query has the columns of that query, the same ones in all of its tables.
    """
    if is_table(lake.root):
        return []
    ours = [table for table in tables if table.is_of_lake()]
    found = {table.folder.name: types_in(table) for table in ours}
    typed = {table.folder.name for table in ours if field_names(table) and not has_values(types_in(table))}
    whole = known_reader(lake.root) is not None
    wanted = [name for name in COLUMNS if whole or any(fit(each, [name]) for each in found.values())]
    return [
        _lost(table, name, columns)
        for table, columns in found.items()
        for name in wanted
        if not fit(columns, [name]) and not (name == "value" and table in typed)
    ]


def _lost(table: str, name: str, columns: Mapping[str, pa.DataType]) -> str:
    if name not in columns:
        or_else = ", or deleted, if it is of typed events" if name == "value" and columns.keys() - COLUMNS else ""
        return f"{table} has lost its column {name}{or_else}"
    return f"{table} has a column {name} of type {columns[name]}, not {COLUMNS[name][0]}"
