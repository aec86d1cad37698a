"""What is erased in the log is erased from the tables, too, with the files and descriptions that had it.

The log says what: records of type `penstock.erased`, which kept their places; tables know their rows by
place, so nobody has to remember whose they were. Files with such rows are written anew without them. Then the
past of each table goes, whether it had such rows or not, since a run before may have been cut short: versions
and snapshots before the last one, the files that only these point to, and what describes them, for that holds
the least and greatest values of columns. What no version ever pointed to, as a crash leaves it, goes if it is
older than an age: a batch may be under way, and its commit leaves such rows out (`erased_ahead.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import AnotherLog, MissingExtra
from penstock.log.contract import Log, OffsetRange, Position, Topic
from penstock.model.limits import ERASED

from .contract import Table, past_of
from .erased_ahead import goes_at, places_ahead
from .history import LogNow, check_past, mark_of
from .identity import Source, Unmoved
from .kinds import table_at
from .lake import Lake
from .lake_state import known_reader, known_tables, note_erased, replayed
from .offsets import Range
from .paths import is_table
from .places import PLACE, Places
from .rewriting import Rewritten, without
from .set_aside import old_tables
from .storage import Location, asks_storage
from .tables import existing_tables, unborn

try:
    import numpy as np
    from deltalake.exceptions import CommitFailedError
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_TRIES = 20
_READ = 4096  # offsets looked at together
_DROP = "when nothing in it is needed, drop it: penstock pipeline reset --drop-old"


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """What went from a table: rows, and files. `unplaced`: why its rows cannot be told, if they cannot."""

    table: str
    rows: int
    files: int
    unplaced: str | None = None


@asks_storage
def erase_in_tables(
    path: Location, log: Log, *, older_than_hours: int = 1, dry_run: bool = False
) -> list[ErasedRows]:
    """Erase from the tables at a path what is erased in the log; a dry run only counts.

    Safe beside the pipeline, and to run again. Raises AnotherLog, HistoryTakenBack, InvalidOption,
    TableDamaged.
    """
    existing_tables(path)
    lake, sources = Lake(path), _mine(path, log)
    _check_history(_whole(lake), log, sources)
    erased = {source.topic: _erased(log, log.topic(source.topic)) for source in sources}
    erased = {topic: places for topic, places in erased.items() if places.rows}
    # Rows of several topics may have the same partition and offset.
    topics = {each.topic for each in (*sources, *lake.sources())}
    needed = PLACE if len(topics) <= 1 else (*PLACE, "topic")
    if not dry_run:
        whole = _whole(lake)
        again = known_tables(whole.root).again  # read from the start, so any place may come
        noted = [each for each in sources if each.topic in erased]
        ahead = (places_ahead(each, erased[each.topic], {} if again else whole.ends(each)) for each in noted)
        note_erased(path, ahead)
    done = []
    for table in _all_tables(path):  # those that are there when it is noted
        where = table.folder
        if not is_table(where):
            done.append(ErasedRows(where.name, 0, 0, f"it is an old table that cannot be read; {_DROP}"))
            continue
        unplaced = _unplaced(table, needed, sources)
        if unplaced:
            remedy = (
                "make it again (penstock pipeline reset --rebuild), look at what only the old one has, then "
            )
            remedy += "drop that (the same with --drop-old)"
            done.append(ErasedRows(where.name, 0, 0, f"{unplaced}; {remedy}"))
            continue
        known = _known(table, lake, sources)
        rows = _rows(where, erased, known, dry_run) if erased else 0
        files = 0 if dry_run else _purged(where, known, older_than_hours)
        done.append(ErasedRows(where.name, rows, files))
    left = [] if dry_run else unborn(path, older_than_hours, dry_run=False)
    return [*done, *(ErasedRows(each.table, 0, len(each.files)) for each in left)]


def _all_tables(path: Location) -> list[Table]:
    """Return the tables of a lake, and those that a rebuild has set aside: these hold the same rows."""
    return [*Lake(path).tables, *(table_at(each) for each in old_tables(path))]


def _whole(lake: Lake) -> Lake:
    """Return the lake that a table is of: batches follow the lake's mark, where it ends or not."""
    is_part = any(table.is_of_lake() for table in lake.tables) and not lake.has_mark()
    return Lake(lake.root.parent) if is_part else lake


def _check_history(lake: Lake, log: Log, sources: Sequence[Source]) -> None:
    """Refuse a log that is not as it was read: other records stand in the places of rows.

    Raises HistoryTakenBack.
    """
    for source in sources:
        topic = log.topic(source.topic)
        known = [
            each
            for each in lake.pasts(topic.name)
            if (each.log_id, each.topic_id) == (source.log_id, source.topic_id)
        ]
        once = (past_of(each, replace(source, incarnation=None)) for each in lake.fed_by(source))
        for past in known or once:
            found = log.at(topic, past.places(), bare=True) if past.places() else ()
            marks = {Position(each.partition, each.offset): mark_of(each.id) for each in found}
            check_past(past, LogNow(log.identity(), topic, log.all_bounds(topic), marks))


def _unplaced(table: Table, needed: Sequence[str], sources: Sequence[Source]) -> str | None:
    """Return why the rows of a table cannot be told, if they cannot."""
    if table.is_empty():
        return None
    missing = [name for name in needed if not table.has_columns([name])]
    if missing:
        return f"it has no column {missing[0]}"
    if not any(table.is_fed_by(each) for each in sources):
        return "it does not know which records it holds, as the table of a query that keeps state"
    return None


def _mine(path: Location, log: Log) -> list[Source]:
    """Return the topics of this log that feed the tables, have done so once, or are about to do so.

    Raises AnotherLog.
    """
    lake, (log_id, incarnation), reader = Lake(path), log.identity(), known_reader(path)
    known, topics = lake.sources(), log.topics()  # the mark knows a topic before a table has anything of it
    ours = [(each.log_id, each.topic_id) for each in known] + _replayed(path)
    mine = [Source(log_id, each.name, each.id, each.partitions, incarnation) for each in topics]
    fed = [each for each in mine if (log_id, each.topic_id) in ours or lake.fed_by(each)]
    if ours and not fed:
        raise AnotherLog(f"{path}", f"log {ours[0][0]}", f"log {log_id}")
    held = [each for each, topic in zip(mine, topics, strict=True) if reader in log.holds(topic)]
    found = [each for each in mine if each in fed or each in held]
    # A pipeline that retention does not wait for says nowhere what its first batch will be of.
    return found if found or any(not table.is_empty() for table in lake.tables) else mine


def _replayed(path: Location) -> list[tuple[str, int]]:
    """Return the topic that a replay fills the tables with, if one does: retention does not wait for it."""
    known = replayed(path)
    if known is None:
        return []
    batch = Range.from_json(known.batch)
    return [(batch.log_id, batch.topic_id)]


def _erased(log: Log, topic: Topic) -> Places:
    """Return the places of a topic whose records are erased."""
    found = Places()
    for partition, (start, end) in log.all_bounds(topic).items():
        for low in range(start, end, _READ):
            part = OffsetRange(partition, low, min(end, low + _READ))
            entries = log.read_ranges(topic, [part], max_bytes=1, bare=True).entries
            offsets = np.array([each.offset for each in entries if each.type == ERASED], np.int64)
            if len(offsets):
                found.add(np.full(len(offsets), partition, np.int64), offsets)
    return found


def _known(table: Table, lake: Lake, sources: Sequence[Source]) -> Unmoved:
    """Return what a table goes on saying of its topics, also if a run was cut short after its past went."""
    said = table.sources() or [replace(each, incarnation=None) for each in sources if table.is_fed_by(each)]
    return Unmoved(tuple(said), table.is_of_lake() or lake.has_mark())


def _rows(path: Location, erased: Mapping[str, Places], known: Unmoved, dry_run: bool) -> int:
    """Write the files of a table anew without the rows at some places; return how many these are.

    It is committed to in any case: a batch that has not seen the note of these places is refused then.
    """
    for left in reversed(range(_TRIES)):
        table = table_at(path)
        done = without(table, _columns(table), goes_at(erased), dry_run=dry_run)
        try:
            if not dry_run:
                _say(table, known, done)
            return done.rows
        except CommitFailedError:
            done.take_back(table)
            if not left:
                raise
        except BaseException:
            done.take_back(table)
            raise
    raise AssertionError("the last try returns or raises")


def _say(table: Table, known: Unmoved, done: Rewritten) -> None:
    """Commit to a table that goes on saying what it said. Raises CommitFailedError."""
    columns = table.partition_columns()
    table.replace(done.added, done.removed, table.arrow_schema(), known, columns)


def _purged(path: Location, known: Unmoved, older_than_hours: int) -> int:
    """Let the past of a table go, also if batches come meanwhile; return how many files went."""
    gone = 0
    for left in reversed(range(_TRIES)):
        try:
            gone += len(table_at(path).purge(older_than_hours))
            if not table_at(path).sources():  # it was said in the past that went
                _say(table_at(path), known, Rewritten())
            return gone
        except CommitFailedError:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _columns(table: Table) -> list[str]:
    return [*PLACE, "topic"] if table.has_columns(["topic"]) else [*PLACE]
