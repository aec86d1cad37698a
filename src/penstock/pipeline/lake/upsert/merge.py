"""Merges a batch into a table that holds the latest row of each key, in one transaction of the table.

Only the buckets that have rows in the batch are rewritten: the table's rows are streamed, without those that
the batch replaces, and the new rows follow. A bucket holds the keys of one hash. Memory is bounded by a chunk
of the batch, not by the table: the excess is spilled to files. A record without a value leaves a row marked
`deleted`, for as long as an older record could come again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption, RowWithoutKey

from ..commit import Evolve, TablePart, discard, evolve, remove
from ..contract import DataFile, PartOf, Table
from ..data_files import OpenFile, file_rows, fitting
from ..identity import BatchIdentity, ByOffsets
from ..kinds import opened, table_at
from ..routing import REASON, REJECTED
from ..storage import Location, location, storage_of
from . import BUCKET, BUCKETS, KEY_PROPERTY
from .latest import PLACE, Order, key_of

HELD_BYTES = 64 << 20


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

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def read(self, files: Sequence[Location]) -> None:
        """Add the rows of some files."""
        for file in files:
            with storage_of(file).parquet(file) as source:
                for batch in file_rows(source):
                    self.add(batch)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; they have a column with their bucket."""
        numbers = rows.column(BUCKET).to_numpy(zero_copy_only=False)
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows.take(pa.array(order)), numbers[order]
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in pairwise(edges):
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
class Upsert:
    """Upserts a batch by key. `whole`: the batch replaces all rows (output mode `complete`)."""

    key: tuple[str, ...]
    counts: tuple[int, ...] = ()
    whole: bool = False
    rewrites = True

    def opened(self, part: TablePart) -> Table:
        """Return the table, created if missing, with the columns of the part. Raises TableDiffers."""
        if _is_rejected(part):
            return Evolve().opened(part)
        made = {_BUCKETS: str(BUCKETS), KEY_PROPERTY: "/".join(self.key)}
        _check_made_so(opened(part.path, part.schema, made, [BUCKET]), self.key)
        evolve(part)
        return table_at(part.path)

    def put(self, table: Table, part: TablePart, identity: BatchIdentity) -> None:
        """Merge the rows of the part into the table. Raises CommitFailedError, KeyInTwoPartitions."""
        if _is_rejected(part):
            Evolve().put(table, part, identity)
            return
        merge = _Merge(table, part, self._order(part, identity), self.whole)
        try:
            with KeyBuckets() as rows:
                rows.read([location(each.table) / each.name for each in part.files])
                merge.run(rows)
            table.replace(merge.added, merge.removed, identity)
        except BaseException:
            discard(file for _, file in merge.added)
            raise
        remove(part.files)

    def _order(self, part: TablePart, identity: BatchIdentity) -> Order:
        if not isinstance(identity, ByOffsets):
            return Order(self.key, placed=False)
        if not set(PLACE) <= set(part.schema.names):
            raise InvalidOption("mode", "upsert", "used on rows that keep their columns partition and offset")
        now = max((len(each.ends) for each in identity.ranges), default=0)
        counts = self.counts if now in self.counts else (*self.counts, now)
        return Order(self.key, placed=True, counts=counts)


class _Merge:
    """One batch into one table: the files to add, and those to remove."""

    def __init__(self, table: Table, part: TablePart, order: Order, whole: bool) -> None:
        self._part, self._order, self._whole = part, order, whole
        self._schema = pa.schema([each for each in table.arrow_schema() if table.parts_in_files or each.name != BUCKET])
        self._standing = table.files_by(BUCKET)
        self.added: list[tuple[PartOf, DataFile]] = []
        self.removed: list[str] = []

    def run(self, rows: KeyBuckets) -> None:
        """Rewrite the buckets that change."""
        for number in rows.numbers():
            standing = self._standing.pop(str(number), [])
            self.removed += standing
            self._bucket(number, [] if self._whole else standing, rows)
        if self._whole:
            self.removed += [name for names in self._standing.values() for name in names]

    def _bucket(self, number: int, standing: Sequence[str], rows: KeyBuckets) -> None:
        """Merge a bucket, one chunk after another: each chunk merges into the result of the one before."""
        found = [self._part.path / name for name in standing]
        others = len(self.added)
        for chunk in rows.chunks(number):
            before, made = self.added[others:], self._merged(found, chunk)
            self.added[others:] = [({BUCKET: str(number)}, each) for each in made]
            remove([file for _, file in before])
            found = [location(each.table) / each.name for each in made]

    def _merged(self, found: Sequence[Location], chunk: pa.Table) -> list[DataFile]:
        new = self._order.last(fitting(chunk, self._schema))
        keys = key_of(new, self._order.key)
        if keys.null_count:
            raise RowWithoutKey(str(self._part.path), ", ".join(self._order.key))
        keys = keys.combine_chunks()
        surpassed = np.zeros(new.num_rows, np.bool_)
        files = _Files(self._part.path, self._schema)
        try:
            for batch in _batches(found):
                old = fitting(pa.Table.from_batches([batch]), self._schema)
                at = pc.index_in(key_of(old, self._order.key), keys).combine_chunks()
                met = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
                where = at.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
                stays = np.ones(old.num_rows, np.bool_)
                newer = self._order.newer(old.take(pa.array(met)), new, where)
                stays[met] = newer
                surpassed[where[newer]] = True
                files.add(old.filter(pa.array(stays)))
            files.add(new.filter(pa.array(~surpassed)))
            return files.finish()
        except BaseException:
            files.abandon()
            raise


class _Files:
    """The files of a bucket while they are written."""

    def __init__(self, table: Location, schema: pa.Schema) -> None:
        self._table, self._schema = table, schema
        self._open: OpenFile | None = None
        self._rows = 0
        self._done: list[DataFile] = []

    def add(self, rows: pa.Table) -> None:
        for batch in rows.to_batches(_ROWS):
            self._open = self._open or OpenFile(self._table, self._schema)
            self._open.add(batch)
            self._rows += batch.num_rows
            if self._rows >= _FILE_ROWS:
                self._close()

    def finish(self) -> list[DataFile]:
        self._close()
        return self._done

    def abandon(self) -> None:
        if self._open is not None:
            self._open.abandon()
        remove(self._done)

    def _close(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open, self._rows = None, 0


def _batches(files: Sequence[Location]) -> Iterator[pa.RecordBatch]:
    for file in files:
        with storage_of(file).parquet(file) as source:
            yield from file_rows(source)


def _is_rejected(part: TablePart) -> bool:
    return part.path.name == REJECTED and REASON in part.schema.names


def _check_made_so(table: Table, key: Sequence[str]) -> None:
    """Refuse a table that was not made for upserts by this key. Raises InvalidOption."""
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
