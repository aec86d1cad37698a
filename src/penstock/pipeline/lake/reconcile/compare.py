"""Compares rows to the log: by checksums of blocks, then row by row where these differ.

Both sides are read once, in batches, and give one number for each block of offsets: memory is bounded by a few blocks,
whatever the number of rows. Only records that both hold are compared; missing ones are counted elsewhere.

The columns of a table tell whether its rows can be compared. A raw table has all columns of records. A table of
typed events has no `value`, but `deleted`, and behind it the fields, one of which may be called `value`. The table
of a user's function may have any columns.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from penstock.log.contract import Bounds, Log, OffsetRange, Topic
from penstock.log.entry import Entry
from penstock.model.limits import ERASED
from penstock.wire.kafka.headers import decode_headers

from ...columns import COLUMNS, is_bytes, is_headers, is_text, known_ms
from ...offsets import PLACE, Ends, Piece, Places, joined, numbers_of
from ..contract import Table
from ..identity import Source
from ..lake import Lake
from ..paths import is_table
from ..routing import BUCKET, DELETED
from ..state import known_reader
from ..storage import Location
from ..upsert import KEY_PROPERTY

_BLOCK = 4096  # offsets
_READ_BYTES = 16 << 20
_ROWS = 2048
_NOTED = 1 << 14  # rows whose positions are recorded together
_TOGETHER = 64  # blocks that are compared row by row at a time
_COLUMNS = (*PLACE, "type", "key", "value", "headers", "timestamp", DELETED)
ENVELOPE = tuple(name for name in COLUMNS if name != "value")

BlockNumber = tuple[int, int]  # partition, and offset // _BLOCK
Sums = dict[BlockNumber, int]
RowPlace = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Compared:
    """A topic in the log, and the tables of a lake that have whole records of it; or those without values."""

    log: Log
    topic: Topic
    tables: list[Table]
    within: Mapping[int, Bounds]  # the offsets that both should hold
    values: bool = True
    deletions: frozenset[str] = frozenset()  # tables whose column `deleted` comes from the log

    @classmethod
    def of(cls, path: Location, source: Source, log: Log, topic: Topic, *, values: bool = True) -> "Compared":
        """Return a comparison of the tables with the columns of the source, up to where the lake ends.

        Without `values`: of the tables with all of them but the value, whose fields are columns.
        """
        lake = Lake(path)
        fed, deletions = list[Table](), set[str]()
        for table in lake.fed_by(source):
            columns = types_in(table)
            if has_values(columns) == values and fit(columns, (*ENVELOPE, "value") if values else ENVELOPE):
                fed.append(table)
                deletions |= {table.path} if says_deletions(table, columns) else set()
        bounds, ends = log.all_bounds(topic), lake.ends(source)
        within = {p: Bounds(start, max(start, min(end, ends.get(p, 0)))) for p, (start, end) in bounds.items()}
        return cls(log, topic, fed, within, values, frozenset(deletions))

    @property
    def are_typed(self) -> bool:
        """Whether all of the tables have the fields of events instead of values."""
        return not self.values and len(self.deletions) == len(self.tables)

    def changed(self, at_most: int) -> list[Piece]:
        """Return positions whose rows differ from the log, up to a number. Raises TableDamaged."""
        found = list[Piece]()
        if self.tables:
            for places in self._differing():
                found += [Piece(partition, offset, offset + 1) for partition, offset in places]
                if len(found) >= at_most:
                    break
        return joined(found[:at_most])

    def parted(self) -> Ends:
        """Return the first offset in each partition at which log and tables differ, else the end."""
        ends = {partition: bounds.end for partition, bounds in self.within.items()}
        for places in self._differing() if self.tables else ():
            for partition, offset in places:
                ends[partition] = min(ends[partition], offset)
        return ends

    def _differing(self) -> Iterator[list[RowPlace]]:
        """Yield positions that both hold and that differ, some blocks at a time, in order."""
        held = Places()
        theirs = _sums(_noted(self._rows(), held))
        ours = _sums(self._logged(held))
        blocks = sorted(block for block in ours.keys() | theirs.keys() if ours.get(block) != theirs.get(block))
        for first in range(0, len(blocks), _TOGETHER):
            wanted = set(blocks[first : first + _TOGETHER])
            logged = dict(self._logged(held, wanted))
            rows = list(self._rows(wanted))
            yield sorted({place for place, sum in rows if place in logged and logged[place] != sum})

    def covers(self, partition: int | None, offset: int | None) -> bool:
        """Return whether both should hold a position."""
        bounds = None if partition is None else self.within.get(partition)
        return bounds is not None and offset is not None and bounds.start <= offset < bounds.end

    def _logged(self, held: Places, blocks: Collection[BlockNumber] | None = None) -> Iterator[tuple[RowPlace, int]]:
        """Yield position and checksum of the log's records that tables hold, except erased ones."""
        for wanted in self._ranges(blocks):
            low = wanted.low
            while low < wanted.high:
                part = OffsetRange(wanted.partition, low, wanted.high)
                entries, cut = self.log.read_ranges(self.topic, [part], max_bytes=_READ_BYTES)
                there = held.has(*numbers_of(entries))
                for each, is_there in zip(entries, there.tolist(), strict=True):
                    if is_there and each.type != ERASED:
                        yield (each.partition, each.offset), entry_checksum(each, self.values, self._with_deletion)
                low = entries[-1].offset + 1 if cut and entries else wanted.high

    def _ranges(self, blocks: Collection[BlockNumber] | None) -> Iterator[OffsetRange]:
        for partition, (start, end) in sorted(self.within.items()):
            for low in range(start - start % _BLOCK, end, _BLOCK):
                if blocks is None or (partition, low // _BLOCK) in blocks:
                    yield OffsetRange(partition, max(start, low), min(end, low + _BLOCK))

    @property
    def _with_deletion(self) -> bool:
        return self.values or self.are_typed

    def _rows(self, blocks: Collection[BlockNumber] | None = None) -> Iterator[tuple[RowPlace, int]]:
        for table in self.tables:
            says = self._with_deletion and table.path in self.deletions
            read = {"value": self.values, DELETED: says}
            names = [name for name in _COLUMNS if read.get(name, True)]
            for batch in table.batches(["topic", *names], _ROWS):
                mine = batch.filter(pc.equal(batch.column("topic"), self.topic.name))
                columns = {name: mine.column(name) for name in names}
                columns["timestamp"] = columns["timestamp"].cast(pa.int64())  # the moment, in microseconds
                if not self.values:
                    columns["value"] = pa.nulls(mine.num_rows)
                if not says:
                    columns[DELETED] = pc.is_null(columns["value"]) if self._with_deletion else columns["value"]
                lists = (columns[name].to_pylist() for name in _COLUMNS)
                for partition, offset, type, key, value, headers, *said in zip(*lists, strict=True):
                    if self.covers(partition, offset) and (blocks is None or (partition, offset // _BLOCK) in blocks):
                        pairs = [(each["key"], each["value"]) for each in headers or ()]
                        yield (partition, offset), _checksum(offset, type, key, value, pairs, *said)


def entry_checksum(entry: Entry, with_value: bool = True, with_deletion: bool = True) -> int:
    """Return the checksum that a row of this record has."""
    headers = list(decode_headers(entry.headers)) if entry.headers else []
    value = entry.value if with_value else None
    said = entry.type, entry.key, value, headers, known_ms(entry.timestamp_ms) * 1000
    return _checksum(entry.offset, *said, entry.value is None if with_deletion else None)


def _checksum(
    offset: int,
    type: str | None,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    moment_us: int | None,
    is_deleted: bool | None,
) -> int:
    """Return a hash of a row's content, in which a null differs from an empty value.

    The hashes of a block are added: those of a plain CRC would cancel each other when rows are swapped.
    """
    lengths = None if key is None else len(key), None if value is None else len(value)
    parts = blake2b(repr((offset, type or "", lengths, headers, moment_us, is_deleted)).encode(), digest_size=8)
    parts.update(key or b"")
    parts.update(value or b"")
    return int.from_bytes(parts.digest(), "little")


def _sums(checksums: Iterator[tuple[RowPlace, int]]) -> Sums:
    found: Sums = {}
    for (partition, offset), checksum in checksums:
        block = partition, offset // _BLOCK
        found[block] = found.get(block, 0) + checksum
    return found


def _noted(checksums: Iterator[tuple[RowPlace, int]], held: Places) -> Iterator[tuple[RowPlace, int]]:
    while some := list(islice(checksums, _NOTED)):
        held.add(*numbers_of([place for place, _ in some]))
        yield from some


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
