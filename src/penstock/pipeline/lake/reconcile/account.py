"""Counts the rows that tables hold of a topic, as values that `reconcile` compares with the log.

The ends in a table's transactions say which rows it should hold; this module reads the rows. It needs the
columns partition and offset, so it counts tables that have both, as those of a lake do. Rows are streamed in
batches.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ...offsets import Ends, Piece
from ...places import PLACE, Places
from ..contract import Table
from ..identity import Source
from ..lake import Lake
from ..paths import folder_of
from ..storage import Location
from ..typed.routing import REJECTED
from .record_columns import fit, is_by_type, types_in

_GATHERED_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Account:
    """The rows of a topic in some tables.

    `held`: runs of offsets that are there, without gaps or doubles; `rows` minus `distinct` are doubled.
    `ends`: up to where all of the tables are, by their own transactions. `strays`: rows of topics that do not
    feed the tables, or without a position (the empty name). `misplaced`: rows in the wrong table for their
    type, by table and type.
    """

    rows: int
    distinct: int
    held: tuple[Piece, ...]
    ends: Ends
    strays: Mapping[str, int] = field(default_factory=dict)
    misplaced: Mapping[tuple[str, str], int] = field(default_factory=dict)


def sources(path: Location) -> list[Source]:
    """Return the topics that feed a lake or a table."""
    return Lake(path).sources()


def account(path: Location, source: Source) -> Account:
    """Count the rows of a topic in the tables of a lake; tables without partition and offset are left out.

    Raises TableDamaged.
    """
    lake = Lake(path)
    fed = lake.fed_by(source)
    topics = {each.topic for each in lake.sources()}
    places, strays, seen = Places(), Counter[str](), Counter[tuple[str, str]]()
    gathered = list[pa.RecordBatch]()
    for table in fed:
        if table.has_columns(PLACE):
            columns = types_in(table)
            named, by_type = fit(columns, ["topic"]), is_by_type(table, columns)
            names = [*PLACE, *["topic"] * named, *["type"] * by_type]
            for batch in table.batches(names):
                mine = _of_topic(batch, source.topic, topics, strays) if named else batch
                if by_type:
                    _see(mine.column("type"), table, seen)
                gathered.append(mine.select(list(PLACE)))
                if sum(each.num_rows for each in gathered) >= _GATHERED_ROWS:
                    _add(table, places, gathered, strays)
            _add(table, places, gathered, strays)
    held = places.rows, places.distinct, tuple(places.runs())
    return Account(*held, lake.ends(source), dict(strays), _misplaced(seen, source.topic))


def _of_topic(batch: pa.RecordBatch, topic: str, topics: set[str], strays: Counter[str]) -> pa.RecordBatch:
    """Return the rows of a topic; count those of topics that should not be there."""
    for each in pc.value_counts(batch.column("topic")).to_pylist():
        if each["values"] not in topics:
            strays[each["values"] or ""] += each["counts"]
    return batch.filter(pc.equal(batch.column("topic"), topic))


def _see(types: pa.Array, table: Table, seen: Counter[tuple[str, str]]) -> None:
    for each in pc.value_counts(types).to_pylist():
        seen[table.folder.name, each["values"] or ""] += each["counts"]


def _misplaced(seen: Mapping[tuple[str, str], int], topic: str) -> dict[tuple[str, str], int]:
    """Return the rows that are not in the table of their type, or of the topic if they have no type."""
    found = {}
    for (table, type), count in seen.items():
        homes = {folder_of(type or topic)} | ({f"~{REJECTED}"} if (type or topic) == REJECTED else set())
        # A query of the user's own may have one table for each topic.
        is_by_topic = table == folder_of(topic) and not any((home, type) in seen for home in homes)
        if table not in homes and not is_by_topic:
            found[table, type] = count
    return found


def _add(table: Table, places: Places, gathered: list[pa.RecordBatch], strays: Counter[str]) -> None:
    """Add the rows gathered so far; a row without a position is a stray. Raises TableDamaged."""
    for schema in {each.schema for each in gathered}:
        rows = pa.Table.from_batches([each for each in gathered if each.schema == schema])
        placed = rows.drop_null()
        if placed.num_rows < rows.num_rows:
            strays[""] += rows.num_rows - placed.num_rows
        try:
            columns = [placed.column(name).cast(pa.int64()).to_numpy() for name in PLACE]
        except pa.ArrowException as exc:
            raise table.damaged(f"partition or offset is no number: {exc}") from exc
        places.add(*columns)
    gathered.clear()
