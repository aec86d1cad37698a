"""What tables really hold of a topic, counted row by row: values that `reconcile` compares with the log.

The ends in a table's transactions say what it should hold; this looks at the rows. It knows partition and
offset by their columns, so it counts tables that have both, as those of a lake do.
"""

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import MissingExtra

from .identity import Source
from .offsets import Ends, Piece
from .paths import tables_in
from .table import LakeTable

try:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

Numbers = npt.NDArray[np.int64]
_PLACE = ("partition", "offset")


@dataclass(frozen=True, slots=True)
class Account:
    """The rows of a topic in some tables.

    `held`: runs of offsets that are there, without gaps or doubles; `rows` minus `distinct` are doubled.
    `ends`: how far all of the tables have come, by their own transactions.
    """

    rows: int
    distinct: int
    held: tuple[Piece, ...]
    ends: Ends


def sources(path: Path) -> list[Source]:
    """Return the topics that feed a lake or a table."""
    found = {source: None for table in tables_in(path) for source in LakeTable(table).sources()}
    return list(found)


def account(path: Path, source: Source) -> Account:
    """Count what the tables of a lake hold of a topic; tables without partition and offset are left out."""
    tables = [LakeTable(each) for each in tables_in(path)]
    fed = [table for table in tables if source in table.sources()]
    columns = [table.columns(_PLACE, topic=source.topic) for table in fed if table.has_columns(_PLACE)]
    partitions = np.concatenate([_numbers(each, "partition") for each in columns] or [np.empty(0, np.int64)])
    offsets = np.concatenate([_numbers(each, "offset") for each in columns] or [np.empty(0, np.int64)])
    order = np.lexsort((offsets, partitions))
    partitions, offsets = partitions[order], offsets[order]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(partitions) != 0) | (np.diff(offsets) != 0)
    runs = _runs(partitions[new], offsets[new])
    return Account(len(order), int(new.sum()), tuple(runs), _least([table.ends(source) for table in fed]))


def _numbers(table: pa.Table, column: str) -> Numbers:
    return np.asarray(table.column(column).to_numpy(), dtype=np.int64)


def _runs(partitions: Numbers, offsets: Numbers) -> list[Piece]:
    """Return the runs of offsets that follow each other, of places that are sorted and distinct."""
    if not len(offsets):
        return []
    breaks = np.flatnonzero((np.diff(partitions) != 0) | (np.diff(offsets) != 1)) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.concatenate([breaks, [len(offsets)]]) - 1
    return [
        Piece(int(partitions[first]), int(offsets[first]), int(offsets[last]) + 1)
        for first, last in zip(firsts, lasts, strict=True)
    ]


def _least(ends: list[Ends]) -> Ends:
    """Return how far all have come."""
    return {p: min(each.get(p, 0) for each in ends) for p in (ends[0] if ends else ())}
