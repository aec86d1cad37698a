"""The state of a lake beside its checkpoint in `_penstock`: its tables, its name, a reset in progress.

| file            | holds                                                                                  |
|-----------------|----------------------------------------------------------------------------------------|
| `tables.json`   | the folders of the tables that were committed to (`.`: the folder itself is one), and   |
|                 | which of them are to be rebuilt from the log                                           |
| `reader.json`   | the name under which retention, `groups` and `why` know the pipeline; a reset keeps it   |
| `catalog.json`  | of a lake of Iceberg tables: the catalog that knows them (`iceberg/catalog.py`)          |
| `checkpoint.json` | of a lake that cannot hold its checkpoint: the id of that checkpoint, which is also   |
|                 | in the checkpoint's folder (`penstock.json`)                                           |
| `mark/`         | up to where all tables hold the log; a Delta table (`lake.py`)                          |
| `erased.json`   | erased positions that no table held when they were erased (`erasure_note.py`)           |
| `replay.json`   | of a folder that a replay fills: which range of which topic (`replay.py`)               |
| `reset.json`    | the files that a reset removes and sets aside; written before it, removed after it      |
| `new/`          | rows of tables that are being rebuilt (`sink.py`)                                       |

A listed table that is missing was deleted: a new one would begin at the next batch. Files are replaced as a whole. A
crash between a table's first commit and this list leaves a table that is not listed; the next batch adds it.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from penstock.errors import InvalidOption, LakeTakenOver, StorageRefused, TableMissing

from ..offsets import Piece
from .old_tables import aside_for, can_be_read, forget_catalog, set_aside
from .paths import CONTROL, is_table, tables_in
from .routing import ITSELF
from .storage import Location, asks_storage, storage_of

Form = TypeVar("Form", bound=msgspec.Struct)
_TABLES, _READER, _RESET, _CHECKPOINT = "tables.json", "reader.json", "reset.json", "checkpoint"
_MARK, _CHECKPOINT_ID, _LAKE_ID = "mark", "checkpoint.json", "penstock.json"
_ERASED, _REPLAY = "erased.json", "replay.json"
NEW = "new"


class KnownTables(msgspec.Struct, frozen=True):
    """The tables that a lake has had; `again`: those to rebuild from the log before it goes on."""

    tables: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


class ErasedPlaces(msgspec.Struct, frozen=True):
    """Erased positions of a topic, for the batch that begins at `begins` in their partitions, or for any."""

    log_id: str
    topic_id: int
    incarnation: int | None
    begins: dict[int, int]
    places: tuple[Piece, ...]


class _ErasedNote(msgspec.Struct, frozen=True):
    topics: tuple[ErasedPlaces, ...]


class Replayed(msgspec.Struct, frozen=True):
    """The replay that fills a folder: its pipeline, its start and end in words, and its range."""

    pipeline: str
    words: tuple[str, str]
    batch: dict[str, Any]


class _Reader(msgspec.Struct, frozen=True):
    name: str


class _CheckpointId(msgspec.Struct, frozen=True):
    id: str


class _ResetIntent(msgspec.Struct, frozen=True):
    aside: dict[str, str]  # table → the folder that it is set aside as
    whole: bool
    again: tuple[str, ...] = ()


class ResetDone(NamedTuple):
    """The state that a reset has removed, and the tables that it has set aside, with their new folders."""

    removed: list[Location]
    aside: list[tuple[Location, Location]]


def known_tables(root: Location) -> KnownTables:
    """Return the tables that a lake has listed."""
    return _read(root / CONTROL / _TABLES, KnownTables) or KnownTables()


def remember(root: Location, tables: Iterable[str]) -> None:
    """Add tables that were committed to, to the list."""
    names = set(tables)

    def added(found: bytes | None) -> bytes | None:
        known = KnownTables() if found is None else msgspec.json.decode(found, type=KnownTables)
        new = names - set(known.tables)
        more = KnownTables((*known.tables, *sorted(new)), known.again)
        return msgspec.json.encode(more) if new else None

    storage_of(root).update(root / CONTROL / _TABLES, added)


def tables_rebuilt(root: Location) -> None:
    """Record that the tables to be rebuilt are there."""
    _write(root / CONTROL / _TABLES, KnownTables(known_tables(root).tables))


@asks_storage
def check_tables(root: Location, *, but: Collection[str] = ()) -> None:
    """Refuse to go on when a listed table is missing. Raises TableMissing."""
    missing = [name for name in known_tables(root).tables if not is_table(root / name) and name not in but]
    if missing:
        raise TableMissing(str(root), missing)


@asks_storage
def begin_checkpoint(root: Location, checkpoint: Path) -> None:
    """Link a lake to its checkpoint, where that is kept elsewhere, or refuse another one. Raises InvalidOption.

    A checkpoint from before a reset, or of another lake, would continue at offsets that these tables lack.
    """
    if storage_of(root).keeps_checkpoints:
        return
    own, known = checkpoint / _LAKE_ID, root / CONTROL / _CHECKPOINT_ID
    if (checkpoint / "metadata").exists():
        found = _read(own, _CheckpointId)
        if found is None or found != _read(known, _CheckpointId):
            remedy = f"that which {root} was last run with, or a new folder: the tables say where it goes on then"
            raise InvalidOption("--checkpoint", str(checkpoint), remedy)
        return
    storage_of(root).check_lock("--to", root / CONTROL)
    made = _CheckpointId(uuid4().hex)
    _write(known, made)  # first: a crash leaves an empty folder
    _write(own, made)


@asks_storage
def check_checkpoint(root: Location, checkpoint: Path) -> None:
    """Refuse to go on when another driver has taken over with its own checkpoint. Raises LakeTakenOver.

    This is only the early warning: each commit makes sure that nothing is doubled.
    """
    own = _read(checkpoint / _LAKE_ID, _CheckpointId)
    if own is not None and own != _read(root / CONTROL / _CHECKPOINT_ID, _CheckpointId):
        raise LakeTakenOver(str(root))


def note_erased(root: Location, topics: Iterable[ErasedPlaces]) -> None:
    """Record the erased positions that no table of a lake holds, in place of those recorded before."""
    _write(root / CONTROL / _ERASED, _ErasedNote(tuple(each for each in topics if each.places)))


def erased_places(table: Location) -> tuple[ErasedPlaces, ...]:
    """Return the erased positions recorded for a table, in its own folder and in that of its lake."""
    own, noted = _read(table / CONTROL / _ERASED, _ErasedNote), None
    with suppress(PermissionError, StorageRefused):  # a reader of the table alone may not see its lake
        noted = _read(table.parent / CONTROL / _ERASED, _ErasedNote)
    return tuple(place for each in (own, noted) if each is not None for place in each.topics)


def note_replay(root: Location, replay: Replayed) -> None:
    """Record the replay that fills a folder."""
    _write(root / CONTROL / _REPLAY, replay)


def replayed(root: Location) -> Replayed | None:
    """Return the replay that fills a folder, if there is one."""
    return _read(root / CONTROL / _REPLAY, Replayed)


@asks_storage
def reader_name(root: Location) -> str:
    """Return the name of the pipeline that writes here, made on first use; partly random, as folders repeat."""
    file = root / CONTROL / _READER
    known = _read(file, _Reader)
    if known is None:
        made = msgspec.json.encode(_Reader(f"{root.name or 'lake'}-{uuid4().hex[:6]}"))
        storage_of(file).update(file, lambda found: made if found is None else None)
        known = _read(file, _Reader)
        assert known is not None, "it was written just now"
    return known.name


@asks_storage
def forget_reader(root: Location, *, keep_folder: bool) -> None:
    """Remove the name of a pipeline, and its folder, unless the folder has got other content meanwhile."""
    control = root / CONTROL
    if [each.name for each in control.iterdir()] == [_READER]:
        storage_of(control).remove(control)
    if not keep_folder and root.is_dir() and not any(root.iterdir()):
        storage_of(root).remove(root)


@asks_storage
def known_reader(root: Location) -> str | None:
    """Return the name of the pipeline that writes here, if it has one yet."""
    known = _read(root / CONTROL / _READER, _Reader)
    return None if known is None else known.name


@asks_storage
def reset(path: Location, *, rebuild: bool, tables: Collection[str] = ()) -> ResetDone:
    """Remove a pipeline's checkpoint; with `rebuild` set its tables aside, or record some to be rebuilt.

    A recorded table is set aside when the next run has made the new one; an unreadable one, at once. The next
    start, or the next reset, finishes an interrupted reset. Raises InvalidOption.
    """
    there = {ITSELF} if is_table(path) else {each.name for each in tables_in(path)}
    known = known_tables(path)
    if not there and not (path / CONTROL).is_dir():
        raise InvalidOption("path", str(path), "a folder with the tables of a pipeline, or one table")
    unknown = sorted(set(tables) - there - set(known.tables))
    if unknown:
        raise InvalidOption("table", unknown[0], f"one of {', '.join(sorted(there | {*known.tables}))}")
    # The mark, or the tables that stay, say where the new ones begin.
    some = set(tables) < there | set(known.tables) or is_table(path / CONTROL / _MARK)
    if rebuild and tables and some:
        unread = [name for name in sorted(tables) if not can_be_read(path / name)]
        asides = {name: aside_for(path, name) for name in unread}
        intent = _ResetIntent(asides, False, tuple(sorted({*known.again, *tables})))
    else:
        asides = {name: aside_for(path, name) for name in sorted(there | {*known.tables}) if rebuild}
        intent = _ResetIntent(asides, rebuild)
    _write(path / CONTROL / _RESET, intent)
    return finish_reset(path)


@asks_storage
def finish_reset(path: Location) -> ResetDone:
    """Finish a reset that has begun: set tables aside and remove files; return those that were there."""
    control, gone = path / CONTROL, list[Location]()
    intent = _read(control / _RESET, _ResetIntent)
    if intent is None:
        return ResetDone([], [])
    if intent.again:
        _write(control / _TABLES, KnownTables(known_tables(path).tables, intent.again))
    else:
        gone += [control / _CHECKPOINT, control / _CHECKPOINT_ID]
        gone += [control / _MARK, control / _TABLES] if intent.whole else []
    removed = [each for each in gone if each.exists()]
    moved = [(path / name, path / to) for name, to in intent.aside.items() if set_aside(path, name, to)]
    for each in removed:
        storage_of(each).remove(each)
    if intent.whole:
        forget_catalog(path)
    (control / _RESET).unlink()
    return ResetDone(removed, moved)


def _read(file: Location, form: type[Form]) -> Form | None:
    with suppress(FileNotFoundError):
        return msgspec.json.decode(file.read_bytes(), type=form)
    return None


def _write(file: Location, form: msgspec.Struct) -> None:
    storage_of(file).replace(file, msgspec.json.encode(form))
