"""Going on after the log's history was rewound: cuts tables back to where they and the log still agree.

The rows from there on are not in the log any more, and are removed; a copy of each table that is cut stays
beside it until it is dropped (`old_tables.py`). The next run reads the log's records from there. This compares
all rows, but keeps those that retention has long deleted from the log; a rebuild would lose them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.errors import AnotherLog, InvalidOption
from penstock.log.contract import Log, Position, Topic

from ..history import mark_of
from ..offsets import PLACE, Ends, Piece, describe_pieces, numbers_in
from .contract import Table
from .data_files import Rewritten, without
from .identity import Source
from .lake import Lake
from .old_tables import aside_for, keep_copy
from .reconcile.compare import Compared
from .routing import ITSELF
from .state import reset
from .storage import Location, asks_storage
from .upsert import KEY_PROPERTY


@dataclass(frozen=True, slots=True)
class CutBack:
    """The rows and positions that were cut off."""

    rows: int
    places: tuple[Piece, ...]

    def describe(self) -> str:
        """Return the positions in words."""
        return describe_pieces(self.places)


@asks_storage
def cut_back(path: Location, log: Log, topic: Topic) -> CutBack:
    """Cut a lake back to where the log agrees; safe to repeat. Raises AnotherLog, InvalidOption, TableDamaged."""
    identity = log.identity()
    known = [each for each in Lake(path).sources() if each.topic == topic.name]
    mine = [each for each in known if (each.log_id, each.topic_id) == (identity.id, topic.id)]
    if known and not mine:
        raise AnotherLog(f"{path}", f"log {known[0].log_id}", f"log {identity.id}")
    rows, places = 0, list[Piece]()
    for source in mine:
        # Typed tables have no values: they are compared by the other columns, such as the time.
        compared = [Compared.of(path, source, log, topic, values=each) for each in (True, False)]
        lake = Lake(path)
        if sum(len(each.tables) for each in compared) < len(lake.fed_by(source)):
            wanted = "a lake whose tables have the columns of the source; use --rebuild, which keeps the old ones"
            raise InvalidOption("--from-table", str(path), wanted)
        rows += _cut(lake, compared, replace(source, incarnation=identity.incarnation), places)
    if not mine:
        raise InvalidOption("--from-table", str(path), f"a lake that holds topic {topic.name}")
    reset(path, rebuild=False)
    return CutBack(rows, tuple(places))


def _cut(lake: Lake, compared: Sequence[Compared], source: Source, places: list[Piece]) -> int:
    """Cut the mark back, then the tables: a crash leaves tables ahead of it, which the next try cuts back."""
    found = [each.parted() for each in compared]
    parted, rows = {p: min(each[p] for each in found) for p in found[0]}, 0
    tables = [table for each in compared for table in each.tables]
    _check_upserts(lake, tables, source, parted)
    marked = {p: min(parted.get(p, end), end) for p, end in lake.ends(source).items()}
    lake.cut_back(source, marked, _marks(compared[0], marked))
    for table in tables:
        ends = table.ends(source)
        cuts = {p: min(parted.get(p, end), end) for p, end in ends.items()}
        beyond = [Piece(p, cut, ends[p]) for p, cut in cuts.items() if cut < ends[p]]
        if beyond:  # the removed rows are nowhere else
            name = ITSELF if table.folder == lake.root else table.folder.name
            keep_copy(lake.root, name, aside_for(lake.root, name))
        places += beyond
        rows += cut_table(table, source, cuts, _marks(compared[0], cuts))
    places[:] = sorted(set(places))
    return rows


def cut_table(table: Table, source: Source, cuts: Ends, marks: Mapping[int, int]) -> int:
    """Move a table's ends back, and remove the rows beyond, in one commit; count them. Raises CommitFailedError."""
    ends = table.ends(source)
    beyond = {p: cut for p, cut in cuts.items() if cut < ends.get(p, 0)}

    def goes(rows: pa.RecordBatch) -> pa.Array:
        (partitions, offsets), gone = numbers_in(rows), np.zeros(rows.num_rows, np.bool_)
        for partition, cut in beyond.items():
            gone |= (partitions == partition) & (offsets >= cut)
        return pa.array(gone)

    done = without(table, PLACE, goes) if beyond else Rewritten()
    with done.committing(table):
        table.declare(source, cuts, marks, done.added, done.removed)
    return done.rows


def _check_upserts(lake: Lake, tables: Sequence[Table], source: Source, parted: Ends) -> None:
    """Refuse to cut off rows that have replaced others, which would be lost. Raises InvalidOption."""
    for table in tables:
        ahead = any(parted.get(p, end) < end for p, end in table.ends(source).items())
        if ahead and KEY_PROPERTY in table.configuration():
            remedy = "use --rebuild, which makes them from what the log holds and keeps the old ones"
            why = "in tables of upserts lost records have replaced others, which no table holds any more"
            raise InvalidOption("--from-table", str(lake.root), f"a lake that rows are appended to: {why}; {remedy}")


def _marks(compared: Compared, cuts: Ends) -> dict[int, int]:
    lasts = [Position(partition, cut - 1) for partition, cut in cuts.items() if cut]
    return {each.partition: mark_of(each.id) for each in compared.log.at(compared.topic, lasts, bare=True)}
