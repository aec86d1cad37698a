"""Partitions a table by the year, month, day or hour of a column.

Readers of some days then open only the files of these days. The partition is a column of its own
(`timestamp_day`), whose value is in the table's log and not in the files.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption

from ..columns import all_known_ms

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
            wanted = f"year, month, day or hour of a column of timestamps: {those}"
            raise InvalidOption("--partition-by", said, wanted)

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
            mine = pc.is_null(values) if value is None else pc.equal(values, value)
            yield ((names[0], value),), rows.filter(mine)

    def _added(self, schema: pa.Schema) -> list[pa.Field]:
        made = self.made(schema.names)
        if made is None:
            return []  # a table of other columns, as one of rejected rows may be
        return [pa.field(made, pa.date32() if self.unit == "day" else pa.string())]
