"""The columns of an Iceberg table as an Arrow schema, in the types that files and the whole room use."""

from typing import Any

import msgspec
import pyarrow as pa
from deltalake import Schema as DeltaSchema
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema


def arrow_of(schema: Schema) -> pa.Schema:
    """Return columns as an Arrow schema, without large types and without ids, which our files lack."""
    return pa.schema([_plain(each) for each in schema_to_pyarrow(schema, include_field_ids=False)])


def form_of(schema: pa.Schema) -> dict[str, Any]:
    """Return columns in Delta's form, in which all tables are compared."""
    form: dict[str, Any] = msgspec.json.decode(DeltaSchema.from_arrow(schema).to_json())
    return form


def kept(schema: pa.Schema) -> pa.Schema:
    """Return the columns that an Iceberg table has for a schema: it has no integers of 8 or 16 bits."""
    return arrow_of(Catalog._convert_schema_if_needed(schema))


def _plain(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain_type(field.type), nullable=True)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([_plain(kind.field(number)) for number in range(kind.num_fields)])
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    return kind
