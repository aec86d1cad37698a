"""The rows of a Parquet file, in the types that tables have, whichever program wrote the file.

Other writers store their own Arrow types in it: delta-rs views of strings and bytes, others large types.
Arrow can neither compare nor filter some of these, and a rewritten file would keep them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types

_ROWS = 1 << 13


def file_schema(source: Any) -> pa.Schema:
    """Return the columns of an open Parquet file."""
    schema = source.schema_arrow
    return pa.schema([_plain_field(each) for each in schema], schema.metadata)


def file_rows(source: Any, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open Parquet file, or some of their columns, in bounded batches."""
    schema = file_schema(source)
    for batch in source.iter_batches(_ROWS, columns=None if columns is None else list(columns)):
        arrays = [
            column if column.type == schema.field(name).type else column.cast(schema.field(name).type)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        fields = [schema.field(name) for name in batch.schema.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, schema.metadata))


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type that a table has for an Arrow type."""
    if types.is_string_view(kind) or types.is_large_string(kind):
        return pa.string()
    if types.is_binary_view(kind) or types.is_large_binary(kind):
        return pa.binary()
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), kind.keys_sorted)
    if any(is_kind(kind) for is_kind in _LISTS):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(number)) for number in range(kind.num_fields)])
    return kind


_LISTS = (types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view)
