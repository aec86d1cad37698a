"""Upserts: merges a batch into a table that holds the latest row of each key, in one transaction of the table.

Only the buckets that have rows in the batch are rewritten: the table's rows are streamed, without those that the batch
replaces, and the new rows follow. A bucket holds the keys of one hash. A chunk of the batch bounds the memory; the rest
is spilled to files. A record without a value leaves a row marked `deleted`, while an older record could come again.

The latest row of a key is the one with the later position. A key lives in one partition. When a topic grows, the key
stays there or moves to a partition of a higher number (`log/topics.py`), where its later records are. So (partition,
offset) orders all records of a key, over all generations of the topic, as (generation, offset) does. If a key is in
two partitions of which neither comes from the other, another producer chose the partition: there is no order, and it
is refused. Rows of a stateful query have no position; the row of the later batch is the later one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption, KeyInTwoPartitions, RowWithoutKey

from ..offsets import PLACE, Numbers, numbers_in
from .commit import Evolve, TablePart
from .contract import DataFile, Table
from .data_files import OpenFile, Rewritten, fitting, remove, rows_of
from .identity import BatchIdentity, ByOffsets
from .kinds import opened
from .routing import BUCKET, REASON, REJECTED, PartValues
from .storage import Location

BUCKETS = 16
KEY_PROPERTY = "penstock.key"  # of a table: the columns by which it is upserted
HELD_BYTES = 64 << 20


@dataclass(frozen=True)
class Order:
    """The order of rows of one key."""

    key: tuple[str, ...]
    placed: bool  # by position; else by batch, and within it by row
    counts: tuple[int, ...] = ()  # the numbers of partitions that the topic has had, oldest first

    def last(self, rows: pa.Table) -> pa.Table:
        """Return the last row of each key. Raises KeyInTwoPartitions."""
        if not rows.num_rows:
            return rows
        numbers = key_of(rows, self.key).dictionary_encode().combine_chunks().indices.to_numpy(zero_copy_only=False)
        order = np.lexsort((*reversed(self._places(rows)), numbers))
        numbers = numbers[order]
        is_last = np.append(numbers[1:] != numbers[:-1], True)
        if self.placed:  # a key that changes its partition among these rows must be one that could move there
            before, partitions = np.flatnonzero(~is_last), self._places(rows)[0][order]
            self._check(rows.take(pa.array(order[before])), partitions[before], partitions[before + 1])
        return rows.take(pa.array(np.sort(order[is_last])))

    def newer(self, old: pa.Table, new: pa.Table, where: Numbers) -> npt.NDArray[np.bool_]:
        """Return which of the old rows are newer than the new rows of the same key, at indices `where`."""
        if not self.placed:
            return np.zeros(len(where), np.bool_)
        (old_partition, old_offset), (partitions, offsets) = self._places(old), self._places(new)
        new_partition, new_offset = partitions[where], offsets[where]
        self._check(old, old_partition, new_partition)
        return np.where(old_partition == new_partition, old_offset >= new_offset, old_partition > new_partition)

    def _places(self, rows: pa.Table) -> list[Numbers]:
        return numbers_in(rows) if self.placed else [np.arange(rows.num_rows)]

    def _check(self, rows: pa.Table, one: Numbers, other: Numbers) -> None:
        low, high = np.minimum(one, other), np.maximum(one, other)
        allowed = low == high
        for count in self.counts[:-1]:
            allowed |= high % count == low
        if not allowed.all():
            at = int(np.flatnonzero(~allowed)[0])
            key = ", ".join(str(rows.column(name)[at].as_py()) for name in self.key)
            raise KeyInTwoPartitions(key, int(one[at]), int(other[at]))


def key_of(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """Return the key of rows as one column; several columns are joined, each prefixed by its length."""
    columns = [rows.column(name) for name in names]
    if len(columns) == 1:
        return columns[0]
    parts = []
    for column in columns:
        text = column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())
        parts += [pc.binary_length(text).cast(pa.string()).cast(pa.binary()), text]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.binary()))


class KeyBuckets:
    """Rows by bucket. Used within `with`, which removes its files at the end."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self._limit = held_bytes
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._bytes = 0
        self._files: dict[int, list[Path]] = {}
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; they have a column with their bucket."""
        numbers = rows.column(BUCKET).to_numpy(zero_copy_only=False)
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows.take(pa.array(order)), numbers[order]
        for start, end in pairwise([0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]):
            if end > start:
                self._held.setdefault(int(numbers[start]), []).append(rows.slice(start, end - start))
        self._bytes += rows.nbytes
        if self._bytes > self._limit:
            self._spill()

    def numbers(self) -> list[int]:
        """Return the buckets that have rows."""
        return sorted({*self._held, *self._files})

    def chunks(self, number: int) -> Iterator[pa.Table]:
        """Yield the rows of a bucket, in the order they came, a bounded number of bytes at a time."""
        gathered, size = list[pa.RecordBatch](), 0
        for batch in self._batches(number):
            gathered.append(batch)
            size += batch.nbytes
            if size > self._limit:
                yield pa.Table.from_batches(gathered)
                gathered, size = [], 0
        if gathered:
            yield pa.Table.from_batches(gathered)

    def _batches(self, number: int) -> Iterator[pa.RecordBatch]:
        for file in self._files.get(number, []):
            with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as stream:
                yield from stream
        yield from self._held.get(number, [])

    def _spill(self) -> None:
        self._folder = self._folder or TemporaryDirectory(prefix="penstock-upsert-")
        for number, batches in self._held.items():
            files = self._files.setdefault(number, [])
            file = Path(self._folder.name) / f"{number}-{len(files)}.arrows"
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, batches[0].schema) as stream:
                for batch in batches:
                    stream.write_batch(batch)
            files.append(file)
        self._held, self._bytes = {}, 0


_ROWS = 1 << 13
_FILE_ROWS = 1 << 20  # a bucket of more rows has several files
_BUCKETS = "penstock.buckets"


@dataclass(frozen=True)
class Upsert(Evolve):
    """Upserts a batch by key. `whole`: the batch replaces all rows (output mode `complete`)."""

    key: tuple[str, ...]
    counts: tuple[int, ...] = ()
    whole: bool = False
    rewrites = True

    def opened(self, part: TablePart) -> Table:
        if not _is_rejected(part):
            made = {_BUCKETS: str(BUCKETS), KEY_PROPERTY: "/".join(self.key)}
            _check_made_so(opened(part.path, part.schema, made, [BUCKET]), self.key)
        return super().opened(part)

    def put(self, table: Table, part: TablePart, identity: BatchIdentity) -> None:
        """Merge the rows of the part into the table. Raises CommitFailedError, KeyInTwoPartitions."""
        if _is_rejected(part):
            super().put(table, part, identity)
            return
        merge = _Merge(table, part, self._order(part, identity), self.whole)
        with merge.done.committing(table):
            with KeyBuckets() as rows:
                for batch in rows_of(each.path for each in part.files):
                    rows.add(batch)
                merge.run(rows)
            table.replace(merge.done.added, merge.done.removed, identity)
        remove(part.files)

    def _order(self, part: TablePart, identity: BatchIdentity) -> Order:
        if not isinstance(identity, ByOffsets):
            return Order(self.key, placed=False)
        if not set(PLACE) <= set(part.schema.names):
            raise InvalidOption("mode", "upsert", "used on rows that keep their columns partition and offset")
        now = max((len(each.ends) for each in identity.ranges), default=0)
        return Order(self.key, placed=True, counts=self.counts if now in self.counts else (*self.counts, now))


class _Merge:
    """One batch into one table: the files to add, and those to remove."""

    def __init__(self, table: Table, part: TablePart, order: Order, whole: bool) -> None:
        self._part, self._order, self._whole = part, order, whole
        self._schema = pa.schema([each for each in table.arrow_schema() if table.parts_in_files or each.name != BUCKET])
        self._standing: dict[str | None, list[str]] = {}
        for each in table.files():
            self._standing.setdefault(each.part[BUCKET], []).append(each.name)
        self.done = Rewritten()

    def run(self, rows: KeyBuckets) -> None:
        for number in rows.numbers():
            standing = self._standing.pop(str(number), [])
            self.done.removed += standing
            self._bucket(number, [] if self._whole else standing, rows)
        if self._whole:
            self.done.removed += [name for names in self._standing.values() for name in names]

    def _bucket(self, number: int, standing: Sequence[str], rows: KeyBuckets) -> None:
        """Merge a bucket, one chunk after another: each chunk merges into the result of the one before."""
        found = [self._part.path / name for name in standing]
        others, part = len(self.done.added), ((BUCKET, str(number)),)
        for chunk in rows.chunks(number):
            made = _written(self._part.path, self._schema, part, self._merged(found, chunk))
            before, self.done.added[others:] = self.done.added[others:], made
            remove(before)
            found = [each.path for each in made]

    def _merged(self, found: Sequence[Location], chunk: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files and of a chunk, without those that others replace. Raises RowWithoutKey."""
        new = self._order.last(fitting(chunk, self._schema))
        keys = key_of(new, self._order.key)
        if keys.null_count:
            raise RowWithoutKey(str(self._part.path), ", ".join(self._order.key))
        keys = keys.combine_chunks()
        surpassed = np.zeros(new.num_rows, np.bool_)
        for batch in rows_of(found):
            old = fitting(pa.Table.from_batches([batch]), self._schema)
            at = pc.index_in(key_of(old, self._order.key), keys).combine_chunks()
            met = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
            where = at.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
            stays = np.ones(old.num_rows, np.bool_)
            newer = self._order.newer(old.take(pa.array(met)), new, where)
            stays[met] = newer
            surpassed[where[newer]] = True
            yield from old.filter(pa.array(stays)).to_batches(_ROWS)
        yield from new.filter(pa.array(~surpassed)).to_batches(_ROWS)


def _written(table: Location, schema: pa.Schema, part: PartValues, rows: Iterator[pa.RecordBatch]) -> list[DataFile]:
    """Write rows to files of a bounded number of rows."""
    with Rewritten() as done:
        for first in rows:
            with OpenFile(table, schema, part) as file:
                file.add(first)
                while file.rows < _FILE_ROWS and (batch := next(rows, None)) is not None:
                    file.add(batch)
                done.added.append(file.finish())
    return done.added


def _is_rejected(part: TablePart) -> bool:
    return part.path.name == REJECTED and REASON in part.schema.names


def _check_made_so(table: Table, key: Sequence[str]) -> None:
    configuration = table.configuration()
    made = configuration.get(KEY_PROPERTY), configuration.get(_BUCKETS)
    if made != ("/".join(key), str(BUCKETS)):
        remedy = f"what table {table.path} was made with, or make it again, while the old one stays: "
        remedy += "penstock pipeline reset --rebuild"
        was = "append" if made[0] is None else f"upsert by {made[0].replace('/', ', ')}"
        raise InvalidOption("mode", f"upsert by {', '.join(key)}", f"{was}, {remedy}")


def upsert_of(options: Mapping[str, str]) -> Upsert:
    """Return the upsert that the options of a sink describe. Raises InvalidOption."""
    key = tuple(name for name in (options.get("key") or "").split("/") if name)
    if not key:
        raise InvalidOption("key", options.get("key"), "the columns that tell rows apart")
    counts = tuple(int(each) for each in (options.get("partitionCounts") or "").split(",") if each)
    return Upsert(key, counts, whole=options.get("whole") == "true")
