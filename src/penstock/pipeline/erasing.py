"""What is erased in the log is erased from the tables, too, with the files and descriptions that had it.

The log says what: records of type `penstock.erased`, which kept their places; tables know their rows by
place, so nobody has to remember whose they were. Files with such rows are written anew without them. Then the
past of each table goes, whether it had such rows or not, since a run before may have been cut short: versions
and snapshots before the last one, the files that only these point to, and what describes them, for that holds
the least and greatest values of columns. What no version ever pointed to, as a crash leaves it, goes if it is
older than an age: a batch may be under way.
"""

from dataclasses import dataclass

from penstock.errors import AnotherLog, MissingExtra
from penstock.log.contract import Log, OffsetRange, Topic
from penstock.model.limits import ERASED

from .account import PLACE
from .contract import Table
from .identity import Source
from .kinds import table_at
from .lake import Lake
from .places import Places
from .rewriting import Goes, without
from .storage import Location, asks_storage
from .tables import existing_tables, unborn

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake.exceptions import CommitFailedError
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_TRIES = 20
_READ = 4096  # offsets looked at together


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

    Safe beside the pipeline, and to run again. Raises AnotherLog, InvalidOption, TableDamaged.
    """
    existing_tables(path)
    lake, sources = Lake(path), _mine(path, log)
    erased = {source.topic: _erased(log, log.topic(source.topic)) for source in sources}
    # Rows of several topics may have the same partition and offset.
    topics = {each.topic for each in (*sources, *lake.sources())}
    needed = PLACE if len(topics) <= 1 else (*PLACE, "topic")
    done = []
    for table in lake.tables:
        where = table.folder
        missing = [name for name in needed if not table.has_columns([name])]
        if missing:
            said = f"it has no column {missing[0]}; make it again with it: penstock pipeline reset --rebuild"
            done.append(ErasedRows(where.name, 0, 0, said))
            continue
        rows = sum(_rows(where, topic, places, dry_run) for topic, places in erased.items() if places.rows)
        files = 0 if dry_run else _purged(where, older_than_hours)
        done.append(ErasedRows(where.name, rows, files))
    left = [] if dry_run else unborn(path, older_than_hours, dry_run=False)
    return [*done, *(ErasedRows(each.table, 0, len(each.files)) for each in left)]


def _mine(path: Location, log: Log) -> list[Source]:
    """Return the topics of this log that feed the tables, or have done so once. Raises AnotherLog."""
    lake, identity = Lake(path), log.identity()
    topics = [Source(identity.id, each.name, each.id, each.partitions) for each in log.topics()]
    mine, known = [each for each in topics if lake.fed_by(each)], lake.sources()
    if known and not mine:
        raise AnotherLog(f"{path}", f"log {known[0].log_id}", f"log {identity.id}")
    return mine


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


def _rows(path: Location, topic: str, erased: Places, dry_run: bool) -> int:
    """Write the files of a table anew without the rows at some places; return how many these are."""
    for left in reversed(range(_TRIES)):
        table = table_at(path)
        done = without(table, _columns(table), _goes(topic, erased), dry_run=dry_run)
        try:
            if not dry_run:
                done.put(table)
            return done.rows
        except CommitFailedError:
            done.take_back(table)
            if not left:
                raise
        except BaseException:
            done.take_back(table)
            raise
    raise AssertionError("the last try returns or raises")


def _purged(path: Location, older_than_hours: int) -> int:
    """Let the past of a table go, also if batches come meanwhile; return how many files went."""
    for left in reversed(range(_TRIES)):
        try:
            return len(table_at(path).purge(older_than_hours))
        except CommitFailedError:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def _columns(table: Table) -> list[str]:
    return [*PLACE, "topic"] if table.has_columns(["topic"]) else [*PLACE]


def _goes(topic: str, erased: Places) -> Goes:
    def goes(rows: pa.RecordBatch) -> pa.Array:
        places = (pc.fill_null(rows.column(name), -1).cast(pa.int64()) for name in PLACE)
        gone = pa.array(erased.has(*(each.to_numpy(zero_copy_only=False) for each in places)))
        return pc.and_(gone, pc.equal(rows.column("topic"), topic)) if "topic" in rows.schema.names else gone

    return goes
