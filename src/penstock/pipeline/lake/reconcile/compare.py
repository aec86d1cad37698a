"""Compares rows to the log: by checksums of blocks, then row by row where these differ.

Both sides are read once, in batches, and give one number for each block of offsets: memory is bounded by a
few blocks, whatever the number of rows. Only records that both hold are compared; missing ones are counted
elsewhere.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.log.contract import Bounds, Log, OffsetRange, Topic
from penstock.log.entry import Entry
from penstock.model.limits import ERASED
from penstock.wire.kafka.headers import decode_headers

from ...columns import known_ms
from ...offsets import PLACE, Ends, Piece, Places, joined, numbers_of
from ..contract import Table
from ..identity import Source
from ..lake import Lake
from ..storage import Location
from ..upsert import DELETED
from .record_columns import ENVELOPE, fit, has_values, says_deletions, types_in

_BLOCK = 4096  # offsets
_READ_BYTES = 16 << 20
_ROWS = 2048
_NOTED = 1 << 14  # rows whose positions are recorded together
_TOGETHER = 64  # blocks that are compared row by row at a time
_COLUMNS = (*PLACE, "type", "key", "value", "headers", "timestamp", DELETED)

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
        ends = lake.ends(source)
        within = {
            p: Bounds(start, max(start, min(end, ends.get(p, 0)))) for p, (start, end) in log.all_bounds(topic).items()
        }
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
        theirs = self._sums(_noted(self._rows(), held))
        ours = self._sums(self._logged(held))
        blocks = sorted(block for block in ours.keys() | theirs.keys() if ours.get(block) != theirs.get(block))
        for first in range(0, len(blocks), _TOGETHER):
            wanted = set(blocks[first : first + _TOGETHER])
            logged = dict(self._logged(held, wanted))
            rows = list(self._rows(wanted))
            yield sorted({place for place, sum in rows if place in logged and logged[place] != sum})

    @property
    def _compared(self) -> tuple[bool, bool]:
        """Whether to compare values, and whether to compare if records have one."""
        return self.values, self.values or self.are_typed

    def _sums(self, checksums: Iterator[tuple[RowPlace, int]]) -> Sums:
        found: Sums = {}
        for (partition, offset), checksum in checksums:
            block = partition, offset // _BLOCK
            found[block] = found.get(block, 0) + checksum
        return found

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
                        yield (each.partition, each.offset), entry_checksum(each, *self._compared)
                low = entries[-1].offset + 1 if cut and entries else wanted.high

    def _ranges(self, blocks: Collection[BlockNumber] | None) -> Iterator[OffsetRange]:
        for partition, (start, end) in sorted(self.within.items()):
            for low in range(start - start % _BLOCK, end, _BLOCK):
                if blocks is None or (partition, low // _BLOCK) in blocks:
                    yield OffsetRange(partition, max(start, low), min(end, low + _BLOCK))

    def _rows(self, blocks: Collection[BlockNumber] | None = None) -> Iterator[tuple[RowPlace, int]]:
        """Yield position and checksum of the topic's rows in the tables."""
        values, deletions = self._compared
        for table in self.tables:
            says = deletions and table.path in self.deletions
            read = {"value": values, DELETED: says}
            names = [name for name in _COLUMNS if read.get(name, True)]
            for batch in table.batches(["topic", *names], _ROWS):
                mine = batch.filter(pc.equal(batch.column("topic"), self.topic.name))
                columns = {name: mine.column(name) for name in names}
                columns["timestamp"] = columns["timestamp"].cast(pa.int64())  # the moment, in microseconds
                if not values:
                    columns["value"] = pa.nulls(mine.num_rows)
                if not says:
                    columns[DELETED] = pc.is_null(columns["value"]) if deletions else columns["value"]
                lists = (columns[name].to_pylist() for name in _COLUMNS)
                for partition, offset, *said in zip(*lists, strict=True):
                    bounds = self.within.get(partition)
                    inside = bounds and offset is not None and bounds.start <= offset < bounds.end
                    if inside and (blocks is None or (partition, offset // _BLOCK) in blocks):
                        yield (partition, offset), _of_row(offset, *said)


def entry_checksum(entry: Entry, with_value: bool = True, with_deletion: bool = True) -> int:
    """Return the checksum that a row of this record has."""
    headers = list(decode_headers(entry.headers)) if entry.headers else []
    value = entry.value if with_value else None
    said = entry.type or "", entry.key, value, headers, known_ms(entry.timestamp_ms) * 1000
    return _checksum(entry.offset, *said, entry.value is None if with_deletion else None)


def _of_row(
    offset: int,
    type: str | None,
    key: bytes | None,
    value: bytes | None,
    headers: list[dict[str, Any]] | None,
    moment_us: int | None,
    is_deleted: bool | None,
) -> int:
    pairs = [(each["key"], each["value"]) for each in headers or ()]
    return _checksum(offset, type or "", key, value, pairs, moment_us, is_deleted)


def _checksum(
    offset: int,
    type: str,
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
    parts = blake2b(repr((offset, type, lengths, headers, moment_us, is_deleted)).encode(), digest_size=8)
    parts.update(key or b"")
    parts.update(value or b"")
    return int.from_bytes(parts.digest(), "little")


def _noted(checksums: Iterator[tuple[RowPlace, int]], held: Places) -> Iterator[tuple[RowPlace, int]]:
    """Yield the same, and record the positions."""
    while some := list(islice(checksums, _NOTED)):
        held.add(*numbers_of([place for place, _ in some]))
        yield from some
