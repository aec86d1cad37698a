"""The columns of a record in Spark: the one contract, in Spark's types and in Arrow's.

Names and types are those of Spark's Kafka source, with `type` added, which is Penstock's own.

Times are limited to the years that readers of tables support, 1 to 9999, as Python and the text forms of
times in Delta's log and partitions are. A Kafka client may set any 64 bits as a record's time, and one that
counts in microseconds sets the year 58692.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from penstock.wire.kafka.headers import decode_headers

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MILLISECOND
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MILLISECOND


def known_ms(milliseconds: int) -> int:
    """Return a time since 1970, limited to the first and the last supported one."""
    return min(max(milliseconds, _FIRST_MS), _LAST_MS)


def all_known_ms(milliseconds: pa.Array) -> pa.Array:
    """Return times since 1970, each limited to the supported ones."""
    bounds = pc.min_max(milliseconds)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least is None or _FIRST_MS <= least <= most <= _LAST_MS:
        return milliseconds
    return pc.min_element_wise(
        pc.max_element_wise(milliseconds, _FIRST_MS, skip_nulls=False), _LAST_MS, skip_nulls=False
    )


HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "key": ("BINARY", pa.binary()),
    "value": ("BINARY", pa.binary()),
    "type": ("STRING", pa.string()),
    "headers": ("ARRAY<STRUCT<key: STRING, value: BINARY>>", pa.list_(pa.field("element", HEADER))),
    "topic": ("STRING", pa.string()),
    "partition": ("INT", pa.int32()),
    "offset": ("BIGINT", pa.int64()),
    "timestamp": ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
}
TIMES = tuple(name for name, (_, kind) in COLUMNS.items() if pa.types.is_timestamp(kind))
_MILLISECONDS = pa.timestamp("ms", tz="UTC")  # not a scalar to multiply by: the first one imports pandas


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether a type holds bytes, as keys and values do."""
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type holds texts."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_headers(kind: pa.DataType) -> bool:
    """Return whether a type holds headers."""
    is_list = types.is_list(kind) or types.is_large_list(kind)
    if not is_list or not types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return fields.keys() == {"key", "value"} and is_text(fields["key"]) and is_bytes(fields["value"])


def spark_schema(columns: tuple[str, ...]) -> str:
    """Return some of the columns as Spark's DDL."""
    return ", ".join(f"`{name}` {COLUMNS[name][0]}" for name in columns)


def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Return some of the columns as an Arrow schema, exactly the one Spark makes of the DDL."""
    return pa.schema([pa.field(name, COLUMNS[name][1]) for name in columns])


def record_batch(fetched: pa.RecordBatch, topic: str, columns: tuple[str, ...]) -> pa.RecordBatch:
    """Return fetched rows in the requested columns; headers are decoded only on request."""
    return pa.RecordBatch.from_arrays([_column(fetched, topic, name) for name in columns], schema=arrow_schema(columns))


def _column(fetched: pa.RecordBatch, topic: str, name: str) -> pa.Array:
    if name == "topic":
        return pa.repeat(pa.scalar(topic), fetched.num_rows)
    if name == "timestamp":
        return all_known_ms(fetched.column("timestamp_ms")).cast(_MILLISECONDS).cast(COLUMNS[name][1], safe=False)
    if name == "headers":
        return _headers(fetched.column("headers"))
    column = fetched.column(name)
    wanted = COLUMNS[name][1]
    return column if column.type == wanted else column.cast(wanted)


def _headers(framed: pa.Array) -> pa.Array:
    """Return headers in Kafka's framing as lists, empty for none; equal ones, as most are, are decoded once."""
    encoded = pc.fill_null(framed, b"").dictionary_encode()
    names: list[str] = []
    values: list[bytes | None] = []
    ends = [0]
    for each in encoded.dictionary.to_pylist():
        for name, value in decode_headers(each) if each else ():
            names.append(name)
            values.append(value)
        ends.append(len(names))
    pairs: Any = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(HEADER)
    )
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs).take(encoded.indices).cast(COLUMNS["headers"][1])
