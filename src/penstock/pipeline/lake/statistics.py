"""The statistics of a data file, by which readers of a Delta table skip files: rows, bounds, nulls.

Wrong bounds hide rows, and so do missing ones: if a column that could have bounds has none, beside others
that have some, delta-rs 1.6 takes it for a column of nulls only. So every such column gets bounds, whatever
its values are. A bound that the log cannot express is replaced by the next wider one that it can:

| values of the file                    | bounds                                                         |
|---------------------------------------|----------------------------------------------------------------|
| infinite                              | `"Infinity"`, `"-Infinity"`: Spark, delta-rs and polars read it |
| not a number                          | both infinities: readers disagree on where it is sorted         |
| times                                 | whole milliseconds, rounded outwards                           |
| times before year 1 or after year 9999 | clamped to these years: readers parse years of four digits     |
| long texts                            | cut; the upper one made greater                                |
| decimals                              | all digits; delta-rs' writer rounds to DOUBLE, which hides rows |
"""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from math import inf
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ..columns import EPOCH, known_ms

Path = tuple[str, ...]  # of a field: the column, and where that is a struct, the fields below it

_LONGEST = 64  # characters of a bound
_GREATEST = "\U0010ffff" * 2
_DAY = 86_400_000  # in milliseconds
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}  # of a second


class Statistics:
    """The statistics of the rows of one file, gathered as they are written."""

    def __init__(self, schema: pa.Schema) -> None:
        self._kinds = dict(_fields(schema))
        self._least: dict[Path, Any] = {}
        self._most: dict[Path, Any] = {}
        self._nulls = dict.fromkeys(self._kinds, 0)
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows to the statistics."""
        self._rows += rows.num_rows
        for path, kind in self._kinds.items():
            column = rows.column(path[0])
            column = pc.struct_field(column, list(path[1:])) if path[1:] else column
            self._nulls[path] += column.null_count
            if column.null_count < len(column):
                least, most = _bounds(column, kind)
                self._least[path] = min(self._least.get(path, least), least)
                self._most[path] = max(self._most.get(path, most), most)

    def encode(self) -> str:
        """Return them in the form of Delta's log."""
        form = {
            "numRecords": self._rows,
            "minValues": self._said(self._least, upwards=False),
            "maxValues": self._said(self._most, upwards=True),
            "nullCount": _nested(self._nulls),
        }
        return msgspec.json.encode(form).decode()

    def _said(self, bounds: dict[Path, Any], *, upwards: bool) -> dict[str, Any]:
        return _nested({path: _bound(self._kinds[path], each, upwards=upwards) for path, each in bounds.items()})


def _fields(schema: Any, above: Path = ()) -> Iterator[tuple[Path, pa.DataType]]:
    """Yield the fields that need bounds: readers use none of bytes, lists and maps.

    Nor of a struct with such a field: polars 2.1 reads the bounds of all of its fields, or fails.
    """
    for field in schema:
        if types.is_struct(field.type) and _is_bounded(field.type):
            yield from _fields(field.type, (*above, field.name))
        elif _is_bounded(field.type):
            yield (*above, field.name), field.type


def _is_bounded(kind: pa.DataType) -> bool:
    if types.is_struct(kind):
        return all(_is_bounded(field.type) for field in kind)
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    is_time = types.is_date32(kind) or types.is_timestamp(kind)
    return bool(is_number or is_time or types.is_boolean(kind) or types.is_string(kind))


def _bounds(column: pa.Array, kind: pa.DataType) -> tuple[Any, Any]:
    """Return the least and the greatest value; times as integers, which have no limit of years."""
    if types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif types.is_date32(kind):
        column = column.cast(pa.int32())
    elif types.is_floating(kind) and pc.any(pc.is_nan(column)).as_py():
        return -inf, inf
    bounds = pc.min_max(column).as_py()
    return bounds["min"], bounds["max"]


def _nested(found: dict[Path, Any]) -> dict[str, Any]:
    """Return values by their paths as nested objects."""
    whole = dict[str, Any]()
    for path, value in found.items():
        place = whole
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
    return whole


def _bound(kind: pa.DataType, value: Any, *, upwards: bool) -> Any:
    if isinstance(value, str) and not upwards:
        return value[:_LONGEST]
    if isinstance(value, str):
        cut = value[:_LONGEST] + _GREATEST
        return cut if len(value) > _LONGEST and cut >= value else value
    if isinstance(value, Decimal):
        return msgspec.Raw(f"{value:f}".encode())
    if isinstance(value, float):
        if value == 0:
            return 0.0 if upwards else -0.0
        return {inf: "Infinity", -inf: "-Infinity"}.get(value, value)
    if types.is_date32(kind):
        return _moment(value * _DAY)[:10]
    if types.is_timestamp(kind):
        ticks = _TICKS[kind.unit]
        moment = _moment(-(-value * 1_000 // ticks) if upwards else value * 1_000 // ticks)
        return moment if kind.tz is None else f"{moment}Z"
    return value


def _moment(milliseconds: int) -> str:
    moment = EPOCH + timedelta(milliseconds=known_ms(milliseconds))
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
