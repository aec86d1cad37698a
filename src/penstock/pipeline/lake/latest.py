"""Chooses the latest row of a key: the one with the later position. Arrow in, Arrow out, bounded rows.

A key lives in one partition. When a topic grows, the key stays there or moves to a partition of a higher
number (`log/topics.py`), where its later records are. So (partition, offset) orders all records of a key,
over all generations of the topic, as (generation, offset) does. If a key is in two partitions of which
neither comes from the other, another producer chose the partition: there is no order, and it is refused.

Rows of a stateful query have no position; the row of the later batch is the later one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import KeyInTwoPartitions

from ..offsets import PLACE, Numbers, numbers_in


@dataclass(frozen=True)
class Order:
    """The order of rows of one key. `placed`: by position; else by batch, and within it by row.

    `counts`: the numbers of partitions that the topic has had, oldest first.
    """

    key: tuple[str, ...]
    placed: bool
    counts: tuple[int, ...] = ()

    def columns(self) -> list[str]:
        """Return the columns needed to compare rows."""
        return [*self.key, *(PLACE if self.placed else ())]

    def last(self, rows: pa.Table) -> pa.Table:
        """Return the last row of each key. Raises KeyInTwoPartitions."""
        if not rows.num_rows:
            return rows
        codes = key_of(rows, self.key).dictionary_encode().combine_chunks()
        numbers = codes.indices.to_numpy(zero_copy_only=False)
        order = np.lexsort((*reversed(self._places(rows)), numbers))
        numbers = numbers[order]
        is_last = np.append(numbers[1:] != numbers[:-1], True)
        if self.placed:
            self._check_moves(rows, order, ~is_last)
        return rows.take(pa.array(np.sort(order[is_last])))

    def newer(self, old: pa.RecordBatch, new: pa.Table, where: Numbers) -> npt.NDArray[np.bool_]:
        """Return which of the old rows are newer than the new rows of the same key, at indices `where`."""
        if not self.placed:
            return np.zeros(len(where), np.bool_)
        (old_partition, old_offset), (partitions, offsets) = self._places(old), self._places(new)
        new_partition, new_offset = partitions[where], offsets[where]
        self._check(old, old_partition, new_partition)
        same = old_partition == new_partition
        return np.where(same, old_offset >= new_offset, old_partition > new_partition)

    def _places(self, rows: pa.Table | pa.RecordBatch) -> list[Numbers]:
        return numbers_in(rows) if self.placed else [np.arange(rows.num_rows)]

    def _check_moves(self, rows: pa.Table, order: Numbers, followed: npt.NDArray[np.bool_]) -> None:
        """Check that a key which changes its partition among some rows could have moved there."""
        partitions = self._places(rows)[0][order]
        before = np.flatnonzero(followed)
        self._check(rows.take(pa.array(order[before])), partitions[before], partitions[before + 1])

    def _check(self, rows: pa.Table | pa.RecordBatch, one: Numbers, other: Numbers) -> None:
        low, high = np.minimum(one, other), np.maximum(one, other)
        allowed = low == high
        for count in self.counts[:-1]:
            allowed |= high % count == low
        if not allowed.all():
            at = int(np.flatnonzero(~allowed)[0])
            key = ", ".join(str(rows.column(name)[at].as_py()) for name in self.key)
            raise KeyInTwoPartitions(key, int(one[at]), int(other[at]))


def key_of(rows: pa.Table | pa.RecordBatch, names: Sequence[str]) -> pa.ChunkedArray:
    """Return the key of rows as one column; several columns are joined, each prefixed by its length."""
    columns = [rows.column(name) for name in names]
    if len(columns) == 1:
        return pa.chunked_array([columns[0]]) if isinstance(columns[0], pa.Array) else columns[0]
    parts = []
    for column in columns:
        text = column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())
        length = pc.binary_length(text).cast(pa.string()).cast(pa.binary())
        parts += [length, text]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.binary()))
    return pa.chunked_array([joined]) if isinstance(joined, pa.Array) else joined
