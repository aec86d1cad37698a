"""Counts the rows of a table that exist nowhere else, before it is rebuilt or dropped."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.log.contract import LogIdentity

from ..places import PLACE, Numbers, Places
from ..source.view import Heads
from .contract import Table
from .identity import Source
from .kinds import table_at
from .paths import tables_in
from .storage import Location

_Gone = Callable[[Numbers, Numbers], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class RowsLeft:
    """`rows` of a table, and how many would be `lost`; None: the rows do not identify their records."""

    rows: int
    lost: int | None

    def said(self, what: str) -> str:
        """Return it in words; `what`: the words about the lost rows."""
        if self.lost is None:
            return f"{self.rows:,} rows do not say which records they are, so how many {what} is not known"
        return f"{self.lost:,} of {self.rows:,} rows {what}"


def not_in_log(table: Table, heads: Heads, log: LogIdentity) -> RowsLeft:
    """Count the rows whose records a log no longer holds, or never held.

    A topic compacted by key may have lost more: only the bounds of its partitions are compared.
    """
    mine = any((each.log_id, each.topic_id) == (log.id, heads.topic.id) for each in table.sources())
    bounds = {p: each for p, each in heads.bounds.items() if mine}

    def gone(partitions: Numbers, offsets: Numbers) -> npt.NDArray[np.bool_]:
        held = np.zeros(len(offsets), np.bool_)
        for partition, (start, end) in bounds.items():
            held |= (partitions == partition) & (offsets >= start) & (offsets < end)
        return ~held

    return _counted(table, gone)


def not_in_lake(table: Table, root: Location) -> RowsLeft:
    """Count the rows of a table whose positions no table of a lake has."""
    others, places = [table_at(each) for each in tables_in(root)], Places()
    for other in others:
        if _topics(other.sources()) & _topics(table.sources()) and other.has_columns(PLACE):
            for partitions, offsets in _places(other):
                places.add(partitions, offsets)
    return _counted(table, lambda partitions, offsets: ~places.has(partitions, offsets))


def _topics(sources: list[Source]) -> set[tuple[str, int]]:
    return {(each.log_id, each.topic_id) for each in sources}


def _counted(table: Table, gone: _Gone) -> RowsLeft:
    if not table.has_columns(PLACE) or not table.sources():
        return RowsLeft(table.size().rows, None)
    found = [(len(offsets), int(gone(partitions, offsets).sum())) for partitions, offsets in _places(table)]
    return RowsLeft(sum(rows for rows, _ in found), sum(lost for _, lost in found))


def _places(table: Table) -> list[tuple[Numbers, Numbers]]:
    return [
        (
            batch.column(0).to_numpy(zero_copy_only=False).astype(np.int64),
            batch.column(1).to_numpy(zero_copy_only=False).astype(np.int64),
        )
        for batch in table.batches(PLACE)
    ]
