"""The figures of a lake on a topic, for `reconcile`: rows, positions and faults, as values."""

from dataclasses import dataclass

from penstock.errors import AnotherLog, HistoryTakenBack, MarkMissing
from penstock.log.contract import Log, Position, Topic

from ...history import LogNow, Past, check_past, mark_of
from ...offsets import Piece, joined, said
from ..identity import Source
from ..lake import Lake
from ..paths import is_table
from ..storage import Location, asks_storage
from .account import account, sources
from .compare import Compared
from .compare_fields import changed_fields
from .record_columns import lost_columns
from .superseded import Superseded, superseded

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class LakeFigures:
    """The rows of a topic in a lake. `changed`: positions whose rows differ from the log.

    `superseded`: positions that tables of upserts need not hold. `notes`: the limits of the check, in words.
    """

    rows: int
    held: tuple[Piece, ...]
    changed: tuple[Piece, ...]
    faults: tuple[str, ...]
    superseded: tuple[Piece, ...] = ()
    notes: tuple[str, ...] = ()


@asks_storage
def lake_figures(path: Location, log: Log, topic: str, *, values: bool) -> list[LakeFigures]:
    """Return the figures of a lake's tables on a topic, for each log that fed them with one of that name.

    `values`: compare the content of rows, too. Raises UnknownTopic, TableDamaged.
    """
    found = [_figures(path, log, source, values) for source in sources(path) if source.topic == topic]
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
    if not is_table(path) and _has_lost_mark(lake):
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
        faults.append(f"{said(replaced.stale)}: superseded by later records of the log, and still there")
    notes = [] if replaced.unchecked is None else [replaced.unchecked]
    figures = counted.rows, counted.held, tuple(changed), tuple(faults)
    return LakeFigures(*figures, replaced.places, tuple(notes))


def _changed(path: Location, source: Source, log: Log, topic: Topic) -> list[Piece]:
    """Return positions whose rows differ from the log; typed tables are compared by their fields."""
    most = _SHOWN + 1
    found = Compared.of(path, source, log, topic).changed(most)
    typed = Compared.of(path, source, log, topic, values=False)
    if typed.are_typed:
        found += typed.changed(most)
        found += changed_fields(typed, most)
    return joined(found)[:most]


def _has_lost_mark(lake: Lake) -> bool:
    try:
        lake.check_mark()
    except MarkMissing:
        return True
    return False


class _Another(str):
    """The message about tables of another log, whose rows must not be compared."""


def _wrong_past(path: Location, log: Log, source: Source) -> str | None:
    """Return how the knowledge of a table contradicts the log, if there is such a table."""
    topic = log.topic(source.topic)
    bounds = log.all_bounds(topic)
    for past in Lake(path).pasts(source.topic):
        if (past.log_id, past.topic_id) == (source.log_id, source.topic_id):
            try:
                check_past(past, LogNow(log.identity(), topic, bounds, _marks(log, past, source, topic.id)))
            except AnotherLog as exc:
                return _Another(exc)
            except HistoryTakenBack as exc:
                return str(exc)
    return None


def _marks(log: Log, past: Past, source: Source, topic_id: int) -> dict[Position, int]:
    if source.topic_id != topic_id or not past.places():
        return {}
    found = log.at(log.topic(source.topic), past.places(), bare=True)
    return {Position(each.partition, each.offset): mark_of(each.id) for each in found}
