"""Erasing from tables the records that are erased in the log, with the files and metadata that held them.

The log marks erased records by type `penstock.erased`; they keep their positions, and tables find their rows
by position, so no list of erased keys is needed. Files with such rows are rewritten without them. Then the
past of each table is removed, even if it had no such rows, since an earlier run may have been interrupted:
versions and snapshots before the last one, the files that only these point to, and their metadata, which
holds the minimum and maximum of columns. Files that no version ever pointed to, as a crash leaves them, go if
they are older than an age: a batch may be in flight, and its commit leaves such rows out (`erasure_note.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import AnotherLog
from penstock.log.contract import Log, OffsetRange, Topic
from penstock.model.limits import ERASED

from ..history import check_past, log_now
from ..offsets import PLACE, Places, Range, numbers_of
from .contract import Table, past_of, until_committed
from .data_files import without
from .erasure_note import goes_at, places_ahead
from .identity import Source, Unmoved
from .kinds import table_at
from .lake import Lake
from .old_tables import old_tables
from .paths import is_table
from .state import known_reader, known_tables, note_erased, replayed
from .storage import Location, asks_storage
from .tables import existing_tables, unborn

_READ = 4096  # offsets read at a time
_DROP = "when nothing in it is needed, drop it: penstock pipeline reset --drop-old"


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """Rows and files removed from a table. `unplaced`: why its rows cannot be identified, if they cannot."""

    table: str
    rows: int
    files: int
    unplaced: str | None = None


@asks_storage
def erase_in_tables(path: Location, log: Log, *, older_than_hours: int = 1, dry_run: bool = False) -> list[ErasedRows]:
    """Erase from the tables at a path the records that are erased in the log; a dry run only counts.

    Safe while the pipeline runs, and safe to repeat. Raises AnotherLog, HistoryTakenBack, InvalidOption, TableDamaged.
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
        again = known_tables(whole.root).again  # rebuilt from the start, so any position may come
        noted = [each for each in sources if each.topic in erased]
        ahead = (places_ahead(each, erased[each.topic], {} if again else whole.ends(each)) for each in noted)
        note_erased(path, ahead)
    done = []
    # The tables that exist when the note is written, and those that a rebuild has set aside: these hold the same rows.
    for table in (*Lake(path).tables, *map(table_at, old_tables(path))):
        where = table.folder
        if not is_table(where):
            done.append(ErasedRows(where.name, 0, 0, f"it is an old table that cannot be read; {_DROP}"))
            continue
        unplaced = _unplaced(table, needed, sources)
        if unplaced:
            rebuild = "make it again (penstock pipeline reset --rebuild)"
            remedy = f"{rebuild}, look at what only the old one has, then drop that (the same with --drop-old)"
            done.append(ErasedRows(where.name, 0, 0, f"{unplaced}; {remedy}"))
            continue
        # It must keep naming these, even if an interrupted run has removed its past.
        said = table.sources() or [replace(each, incarnation=None) for each in sources if table.is_fed_by(each)]
        known = Unmoved(tuple(said), table.is_of_lake() or lake.has_mark())
        rows = _rows(where, erased, known, dry_run) if erased else 0
        files = 0 if dry_run else _purged(where, known, older_than_hours)
        done.append(ErasedRows(where.name, rows, files))
    left = [] if dry_run else unborn(path, older_than_hours, dry_run=False)
    return [*done, *(ErasedRows(each.table, 0, len(each.files)) for each in left)]


def _whole(lake: Lake) -> Lake:
    """Return the lake that a table belongs to: batches follow its mark, even where the table is behind."""
    is_part = any(table.is_of_lake() for table in lake.tables) and not lake.has_mark()
    return Lake(lake.root.parent) if is_part else lake


def _check_history(lake: Lake, log: Log, sources: Sequence[Source]) -> None:
    """Refuse a log whose history has changed: rows' positions hold other records. Raises HistoryTakenBack."""
    for source in sources:
        topic, ours = log.topic(source.topic), (source.log_id, source.topic_id)
        known = [each for each in lake.pasts(topic.name) if (each.log_id, each.topic_id) == ours]
        once = (past_of(each, replace(source, incarnation=None)) for each in lake.fed_by(source))
        for past in known or once:
            check_past(past, log_now(log, topic, past.places()))


def _unplaced(table: Table, needed: Sequence[str], sources: Sequence[Source]) -> str | None:
    """Return why the rows of a table cannot be identified by position, if they cannot."""
    if table.is_empty():
        return None
    missing = [name for name in needed if not table.has_columns([name])]
    if missing:
        return f"it has no column {missing[0]}"
    if not any(table.is_fed_by(each) for each in sources):
        return "it does not know which records it holds, as the table of a query that keeps state"
    return None


def _mine(path: Location, log: Log) -> list[Source]:
    """Return the topics of this log that feed the tables, did, or are about to. Raises AnotherLog."""
    lake, (log_id, incarnation), reader = Lake(path), log.identity(), known_reader(path)
    known, topics = lake.sources(), log.topics()  # the mark knows a topic before any table has rows of it
    ours = [(each.log_id, each.topic_id) for each in known]
    replay = replayed(path)  # it has no hold on retention
    if replay is not None:
        batch = Range.from_json(replay.batch)
        ours.append((batch.log_id, batch.topic_id))
    mine = [Source(log_id, each.name, each.id, each.partitions, incarnation) for each in topics]
    fed = [each for each in mine if (log_id, each.topic_id) in ours or lake.fed_by(each)]
    if ours and not fed:
        raise AnotherLog(f"{path}", f"log {ours[0][0]}", f"log {log_id}")
    held = [each for each, topic in zip(mine, topics, strict=True) if reader in log.holds(topic)]
    found = [each for each in mine if each in fed or each in held]
    # A pipeline without a hold on retention records nowhere which topic its first batch will read.
    return found if found or any(not table.is_empty() for table in lake.tables) else mine


def _erased(log: Log, topic: Topic) -> Places:
    found = Places()
    for partition, (start, end) in log.all_bounds(topic).items():
        for low in range(start, end, _READ):
            part = OffsetRange(partition, low, min(end, low + _READ))
            entries = log.read_ranges(topic, [part], max_bytes=1, bare=True).entries
            found.add(*numbers_of([each for each in entries if each.type == ERASED]))
    return found


def _rows(path: Location, erased: Mapping[str, Places], known: Unmoved, dry_run: bool) -> int:
    """Rewrite the files of a table without the rows at some positions; return their number."""

    def rewrite() -> int:
        table = table_at(path)
        columns = [*PLACE, "topic"] if table.has_columns(["topic"]) else PLACE
        done = without(table, columns, goes_at(erased), dry_run=dry_run)
        if not dry_run:  # also without such rows: the commit refuses a batch that has not seen the note of them
            with done.committing(table):
                table.replace(done.added, done.removed, known)
        return done.rows

    return until_committed(rewrite)


def _purged(path: Location, known: Unmoved, older_than_hours: int) -> int:
    """Remove the past of a table, even while batches come in; return how many files were removed."""

    def name() -> None:
        if not table_at(path).sources():  # the removed past held them
            table_at(path).replace((), (), known)

    gone = until_committed(lambda: table_at(path).purge(older_than_hours))
    until_committed(name)
    return len(gone)
