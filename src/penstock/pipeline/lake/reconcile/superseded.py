"""The records of a log that an upsert lake need not hold: a later record of their key has replaced them.

The log is read once, without values; the digest of each record's key and its position go to one of several files on the
disk, by digest, and these are sorted one after the other. So one file and one bit for each position bound the memory.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import unpack
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.log.contract import LAST_OFFSET, Bounds, Log, OffsetRange, Position, Topic
from penstock.log.entry import Entry
from penstock.model.limits import ERASED

from ...offsets import PLACE, Ends, Piece, Places, numbers_in, numbers_of
from ..contract import Table
from ..identity import Source
from ..lake import Lake
from ..paths import folder_of, is_table
from ..routing import REASON, REJECTED
from ..storage import Location
from ..upsert import KEY_PROPERTY
from .compare import fit, types_in

_NEEDED = (*PLACE, "topic", "type", "key")
_READ = 1000  # records of the log read at a time
_FILE_ROWS = 500_000
_MOST_FILES = 256
_ROW = np.dtype([("key", "<u8", 2), ("partition", "<i8"), ("offset", "<i8"), ("counts", "?")])
KeyPlaces = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Superseded:
    """The positions that the tables need not hold."""

    places: tuple[Piece, ...] = ()
    stale: tuple[Piece, ...] = ()  # those of them that they wrongly hold
    unchecked: str | None = None  # why it is unknown which records they should hold, if it is


def superseded(path: Location, source: Source, log: Log, topic: Topic) -> Superseded:
    """Return the records that the tables at a path need not hold; none for appended tables. Raises TableDamaged."""
    lake = Lake(path)
    upserted = [table for table in lake.fed_by(source) if _key_of(table)]
    if not upserted:
        return Superseded()
    bounds, ends = log.all_bounds(topic), lake.ends(source)
    if is_table(path):
        return _of_function(upserted[0], bounds, ends)
    for table in lake.fed_by(source):
        if not fit(types_in(table), _NEEDED):
            raise table.damaged(f"one of its columns {', '.join(_NEEDED)} is gone, or something else")
    return _LatestSearch(log, topic, _UpsertTables.of(lake, upserted, source, ends), bounds).run()


def _of_function(table: Table, bounds: Mapping[int, Bounds], ends: Ends) -> Superseded:
    """Return all positions before the table's ends: a function's rows do not name their records."""
    passed = [Piece(p, start, min(end, ends.get(p, 0))) for p, (start, end) in bounds.items()]
    checked = "how far it has read the log and that no place is there twice, not which records it should hold"
    unchecked = f"it has one row for each {_key_of(table)}, made by a function: it is checked {checked}"
    return Superseded(tuple(each for each in passed if each.start < each.end), unchecked=unchecked)


def _key_of(table: Table) -> str:
    return table.configuration().get(KEY_PROPERTY, "").replace("/", ", ")


@dataclass
class _UpsertTables:
    topic: str
    upserted: Collection[Table]
    ends: Mapping[str, Ends]  # of a table, and of the lake ("")
    typed: bool = False
    held: Places = field(default_factory=Places)
    rejected: Places = field(default_factory=Places)
    seen: dict[str, set[str]] = field(default_factory=dict)  # tables by the type of their rows

    @classmethod
    def of(cls, lake: Lake, upserted: Collection[Table], source: Source, ends: Ends) -> "_UpsertTables":
        own = {table.folder.name: table.ends(source) for table in upserted}
        limits = {name: {p: max(end, ends.get(p, 0)) for p, end in (ends | each).items()} for name, each in own.items()}
        typed = not all(table.has_columns(["value"]) for table in upserted)
        found = cls(source.topic, upserted, limits | {"": ends}, typed)
        for table in lake.fed_by(source):
            rejects = table.folder.name == REJECTED and table.has_columns([REASON])
            for batch in table.batches([*PLACE, "topic", "type"]):
                mine = batch.filter(pc.equal(batch.column("topic"), source.topic))
                (found.rejected if rejects else found.held).add(*numbers_in(mine))
                for type in () if rejects else pc.unique(mine.column("type")).to_pylist():
                    found.seen.setdefault(type or "", set()).add(table.folder.name)
        return found

    def table_of(self, type: str) -> str | None:
        """Return the table of a type; None if a class may have it as an alias, and no row shows which."""
        seen = self.seen.get(type, set())
        if len(seen) == 1:
            return next(iter(seen))
        name = type or self.topic
        folder = folder_of(name) if name != REJECTED else f"~{REJECTED}"
        return None if seen or (self.typed and folder not in self.ends) else folder

    def keys_at(self, places: Places) -> Iterator[tuple[str, bytes, int, int]]:
        for table in self.upserted:
            for batch in table.batches([*PLACE, "topic", "key"]):
                mine = batch.filter(pc.equal(batch.column("topic"), self.topic))
                here = mine.filter(pa.array(places.has(*numbers_in(mine))))
                for row in zip(*(here.column(name).to_pylist() for name in ("key", *PLACE)), strict=True):
                    yield table.folder.name, *row

    def limit(self, table: str | None, partition: int) -> int:
        return self.ends.get(table or "", self.ends[""]).get(partition, 0)


class _LatestSearch:
    def __init__(self, log: Log, topic: Topic, tables: _UpsertTables, bounds: Mapping[int, Bounds]) -> None:
        self._log, self._topic, self._tables = log, topic, tables
        self._bounds = bounds
        self._gone, self._stale, self._erased = Places(), Places(), Places()

    def run(self) -> Superseded:
        many = sum(end - start for start, end in self._bounds.values())
        with ExitStack() as stack:
            count = min(_MOST_FILES, 1 + many // _FILE_ROWS)
            files = [stack.enter_context(TemporaryFile(prefix="penstock-")) for _ in range(count)]
            for entries in self._entries():
                _spread(self._rows(entries), files)
            _spread(self._erased_rows(), files)
            for file in files:
                file.seek(0)
                self._judge(np.fromfile(file, _ROW))
        return Superseded(tuple(self._gone.runs()), tuple(self._stale.runs()))

    def _entries(self) -> Iterator[list[Entry]]:
        for partition, (start, end) in sorted(self._bounds.items()):
            limit = min(end, max(each.get(partition, 0) for each in self._tables.ends.values()))
            for low in range(start, limit, _READ):
                wanted = OffsetRange(partition, low, min(limit, low + _READ))
                chunk = self._log.read_ranges(self._topic, [wanted], max_bytes=LAST_OFFSET, bare=True)
                erased = [each for each in chunk.entries if each.type == ERASED]
                self._erased.add(*numbers_of(erased))
                yield [each for each in chunk.entries if each.key is not None and each.type != ERASED]

    def _rows(self, entries: list[Entry]) -> KeyPlaces:
        """Return records that are in a table, or should be. Typed lakes get up to two rows for each record.

        One is within its table; one is among all records of that key, and counts if the table is unknown.
        """
        rows = []
        for each, rejected in zip(entries, self._tables.rejected.has(*numbers_of(entries)), strict=True):
            table = self._tables.table_of(each.type or "")
            if rejected or each.offset >= self._tables.limit(table, each.partition):
                continue
            if table is not None:
                rows.append((_digest(table, each.key), each.partition, each.offset, True))
            if self._tables.typed:
                rows.append((_digest("", each.key), each.partition, each.offset, table is None))
        return np.array(rows, _ROW)

    def _erased_rows(self) -> KeyPlaces:
        """Return rows of records whose key is erased in the log: they replace others, too."""
        rows = []
        for table, key, *place in self._tables.keys_at(self._erased) if self._erased.rows else ():
            rows += [(_digest(each, key), *place, False) for each in (table, "")]
        return np.array(rows, _ROW)

    def _judge(self, rows: KeyPlaces) -> None:
        if not len(rows):
            return
        order = np.lexsort((rows["offset"], rows["partition"], rows["key"][:, 1], rows["key"][:, 0]))
        rows = rows[order]
        is_last = np.append((rows["key"][1:] != rows["key"][:-1]).any(axis=1), True)
        older = rows[~is_last & rows["counts"]]
        self._gone.add(older["partition"], older["offset"])
        there = older[self._tables.held.has(older["partition"], older["offset"])]
        self._stale.add(there["partition"], there["offset"])
        last = rows[is_last & rows["counts"]]
        missing = last[~self._tables.held.has(last["partition"], last["offset"])]
        for first in range(0, len(missing), _READ):
            some = missing[first : first + _READ]
            positions = [Position(int(each["partition"]), int(each["offset"])) for each in some]
            # `forget_deleted` may have removed the rows of deletions.
            self._gone.add(*numbers_of([each for each in self._log.at(self._topic, positions) if each.value is None]))


def _spread(rows: KeyPlaces, files: Sequence[IO[bytes]]) -> None:
    """Write rows to files; all rows of a key go to one file."""
    numbers = rows["key"][:, 0] % np.uint64(len(files))
    for number in np.unique(numbers):
        files[int(number)].write(rows[numbers == number].tobytes())


def _digest(table: str, key: bytes | None) -> tuple[int, int]:
    person = blake2b(table.encode(), digest_size=16).digest()
    return unpack("<QQ", blake2b(key or b"", digest_size=16, person=person).digest())
