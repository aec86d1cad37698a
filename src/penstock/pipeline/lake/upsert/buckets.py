"""The rows of a batch by bucket, in bounded memory: the excess is spilled to files.

A bucket holds the keys of one hash. Rows come from the files that tasks wrote, in any order, and are returned
bucket by bucket, in chunks.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from ..data_files import file_rows
from ..storage import Location, storage_of
from . import BUCKET

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

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None
    ) -> None:
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
