"""The figures of a lake on a topic, for `reconcile`: rows, positions and faults, as values.

The ends in a table's transactions say which rows it should hold; this module reads and counts them, in batches.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import AnotherLog, HistoryTakenBack
from penstock.log.contract import Log, Topic

from ...history import check_past, log_now
from ...offsets import PLACE, Ends, Piece, Places, describe_pieces, joined
from ..contract import Table
from ..identity import Source
from ..lake import Lake
from ..paths import folder_of, is_table
from ..routing import REJECTED
from ..storage import Location, asks_storage
from .compare import Compared, fit, is_by_type, lost_columns, types_in
from .field_values import changed_fields
from .superseded import Superseded, superseded

_GATHERED_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Account:
    """The rows of a topic in some tables; `rows` minus `distinct` are doubled."""

    rows: int
    distinct: int
    held: tuple[Piece, ...]  # runs of offsets that are there, without gaps or doubles
    ends: Ends  # up to where all of the tables are, by their own transactions
    # Rows of topics that do not feed the tables, or without a position (the empty name).
    strays: Mapping[str, int] = field(default_factory=dict)
    # Rows in the wrong table for their type, by table and type.
    misplaced: Mapping[tuple[str, str], int] = field(default_factory=dict)


def account(path: Location, source: Source) -> Account:
    """Count the rows of a topic in those tables of a lake that have positions. Raises TableDamaged."""
    lake = Lake(path)
    topics = {each.topic for each in lake.sources()}
    places, strays, seen = Places(), Counter[str](), Counter[tuple[str, str]]()
    gathered = list[pa.RecordBatch]()
    for table in (each for each in lake.fed_by(source) if each.has_columns(PLACE)):
        columns = types_in(table)
        named, by_type = fit(columns, ["topic"]), is_by_type(table, columns)
        for batch in table.batches([*PLACE, *["topic"] * named, *["type"] * by_type]):
            mine = _of_topic(batch, source.topic, topics, strays) if named else batch
            for type, count in _counts(mine.column("type")) if by_type else ():
                seen[table.folder.name, type] += count
            gathered.append(mine.select(list(PLACE)))
            if sum(each.num_rows for each in gathered) >= _GATHERED_ROWS:
                _add(table, places, gathered, strays)
        _add(table, places, gathered, strays)
    held = places.rows, places.distinct, tuple(places.runs())
    return Account(*held, lake.ends(source), dict(strays), _misplaced(seen, source.topic))


def _of_topic(batch: pa.RecordBatch, topic: str, topics: set[str], strays: Counter[str]) -> pa.RecordBatch:
    for name, count in _counts(batch.column("topic")):
        if name not in topics:
            strays[name] += count
    return batch.filter(pc.equal(batch.column("topic"), topic))


def _counts(texts: pa.Array) -> Iterator[tuple[str, int]]:
    return ((each["values"] or "", each["counts"]) for each in pc.value_counts(texts).to_pylist())


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


_SHOWN = 10


@dataclass(frozen=True, slots=True)
class LakeFigures:
    """The rows of a topic in a lake."""

    rows: int
    held: tuple[Piece, ...]
    changed: tuple[Piece, ...]  # positions whose rows differ from the log
    faults: tuple[str, ...]
    superseded: tuple[Piece, ...] = ()  # positions that tables of upserts need not hold
    notes: tuple[str, ...] = ()  # the limits of the check, in words


@asks_storage
def lake_figures(path: Location, log: Log, topic: str, *, values: bool) -> list[LakeFigures]:
    """Return a lake's figures on a topic, for each log that fed it. Raises UnknownTopic, TableDamaged."""
    found = [_figures(path, log, source, values) for source in Lake(path).sources() if source.topic == topic]
    return found or [LakeFigures(0, (), (), ())]


def _figures(path: Location, log: Log, source: Source, values: bool) -> LakeFigures:
    counted = account(path, source)
    faults = [
        f"{count} rows of topic {topic!r}, which does not feed these tables"
        if topic
        else f"{count} rows without a place"
        for topic, count in sorted(counted.strays.items())
    ]
    faults += [
        f"{count} rows of type {type or '(none)'} stand in {table}, which is not the table of that type"
        for (table, type), count in sorted(counted.misplaced.items())
    ]
    lake = Lake(path)
    if not is_table(path) and lake.has_lost_mark():
        faults.append(
            f"{path} has lost its mark, the folder _penstock/mark, which says up to where all of its tables "
            "hold the log: its pipeline would stop"
        )
    faults += lost_columns(lake, lake.fed_by(source))
    wrong = _wrong_past(path, log, source)
    changed, replaced = list[Piece](), Superseded()
    if wrong:
        faults.append(wrong)
    if not isinstance(wrong, _Another):
        topic = log.topic(source.topic)
        replaced = superseded(path, source, log, topic)
        changed = _changed(path, source, log, topic) if values else []
    if replaced.stale:
        faults.append(f"{describe_pieces(replaced.stale)}: superseded by later records of the log, and still there")
    figures = counted.rows, counted.held, tuple(changed), tuple(faults)
    return LakeFigures(*figures, replaced.places, () if replaced.unchecked is None else (replaced.unchecked,))


def _changed(path: Location, source: Source, log: Log, topic: Topic) -> list[Piece]:
    most = _SHOWN + 1
    found = Compared.of(path, source, log, topic).changed(most)
    typed = Compared.of(path, source, log, topic, values=False)
    if typed.are_typed:
        found += typed.changed(most)
        found += changed_fields(typed, most)
    return joined(found)[:most]


class _Another(str):
    """The message about tables of another log, whose rows must not be compared."""


def _wrong_past(path: Location, log: Log, source: Source) -> str | None:
    """Return how the knowledge of a table contradicts the log, if there is such a table."""
    topic = log.topic(source.topic)
    for past in Lake(path).pasts(source.topic):
        if (past.log_id, past.topic_id) == (source.log_id, source.topic_id):
            try:
                check_past(past, log_now(log, topic, past.places()))
            except AnotherLog as exc:
                return _Another(exc)
            except HistoryTakenBack as exc:
                return str(exc)
    return None
