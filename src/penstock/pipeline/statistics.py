"""The statistics of a data file, by which readers of a Delta table leave out files: rows, bounds, nulls.

Wrong bounds hide rows. Readers (delta-rs 1.6) take a column that could have bounds and has none, beside
others that have some, for one that holds nulls alone. So either all such columns of a file get them, or none
does: a decimal, a struct or a number that is none leaves only the count of rows.
"""

from typing import Any

import msgspec

from penstock.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_LONGEST = 64  # characters of a bound
_GREATEST = "\U0010ffff" * 2
_MILLISECOND = 1_000  # in microseconds


class Statistics:
    """What is known of the rows of one file, gathered as they are written."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [field.name for field in schema if not _passed_over(field.type)]
        self._bounded = all(_can_bound(schema.field(name).type) for name in self._columns)
        self._least: dict[str, Any] = {}
        self._most: dict[str, Any] = {}
        self._nulls = dict.fromkeys(self._columns, 0)
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows into account."""
        self._rows += rows.num_rows
        for name in self._columns if self._bounded else ():
            column = rows.column(name)
            self._nulls[name] += column.null_count
            if column.null_count == len(column):
                continue
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                self._bounded = False
                return
            bounds = pc.min_max(column).as_py()
            self._least[name] = min(self._least.get(name, bounds["min"]), bounds["min"])
            self._most[name] = max(self._most.get(name, bounds["max"]), bounds["max"])

    def encode(self, schema: pa.Schema) -> str:
        """Return them as Delta's log has them."""
        if not self._bounded:
            return msgspec.json.encode({"numRecords": self._rows}).decode()
        form = {
            "numRecords": self._rows,
            "minValues": {name: _lower(schema.field(name).type, each) for name, each in self._least.items()},
            "maxValues": {name: _upper(schema.field(name).type, each) for name, each in self._most.items()},
            "nullCount": self._nulls,
        }
        return msgspec.json.encode(form).decode()


def _passed_over(kind: pa.DataType) -> bool:
    """Return whether readers ask for no bounds of such a column."""
    return any(is_kind(kind) for is_kind in (pa.types.is_binary, pa.types.is_list, pa.types.is_map))


def _can_bound(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_timestamp, pa.types.is_date32)
    return any(is_kind(kind) for is_kind in (*kinds, pa.types.is_floating, pa.types.is_boolean))


def _lower(kind: pa.DataType, value: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return _moment(value // _MILLISECOND)
    return value[:_LONGEST] if isinstance(value, str) else value


def _upper(kind: pa.DataType, value: Any) -> Any:
    """Return an upper bound: a moment is rounded up, a long string is cut and made greater."""
    if pa.types.is_timestamp(kind):
        return _moment(-(-value // _MILLISECOND))
    return value[:_LONGEST] + _GREATEST if isinstance(value, str) and len(value) > _LONGEST else value


def _moment(milliseconds: int) -> str:
    moment = pa.scalar(milliseconds, pa.timestamp("ms", tz="UTC")).as_py()
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
