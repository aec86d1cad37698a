"""What a lake knows of itself, beside its checkpoint in `_penstock`: its tables, its name, a reset under way.

| file            | holds                                                                                  |
|-----------------|----------------------------------------------------------------------------------------|
| `tables.json`   | the folders of the tables that were committed to (`.`: the folder itself is one), and   |
|                 | which of them are to be made again from the log                                        |
| `reader.json`   | the name under which retention, `groups` and `why` know the pipeline; a reset keeps it   |
| `catalog.json`  | of a lake of Iceberg tables: the catalog that knows them (`iceberg/catalog.py`)          |
| `checkpoint.json` | of a lake that cannot hold its checkpoint: which one it is, by an id that stands in   |
|                 | the folder of the checkpoint, too (`penstock.json`)                                    |
| `mark/`         | up to where all tables hold the log; a Delta table (`lake.py`)                          |
| `erased.json`   | erased places that no table held when it was erased (`erased_ahead.py`)                 |
| `replay.json`   | of a folder that a replay fills: which range of which topic (`replaying.py`)            |
| `reset.json`    | what a reset removes and sets aside; written before it does so, and gone after it       |
| `new/`          | rows of tables that are made again, while they are made (`sink.py`)                     |

A table that is known and not there was deleted: a new one would begin at the batch that comes next. Files are
replaced as a whole. A crash between a table's first commit and this list leaves a table that is there and not
listed, which the next batch adds.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from penstock.errors import InvalidOption, LakeTakenOver, StorageRefused, TableMissing

from .offsets import Piece
from .paths import CONTROL, is_table, tables_in
from .routing import ITSELF
from .set_aside import aside_for, can_be_read, forget_catalog, set_aside
from .storage import Location, asks_storage, storage_of

Form = TypeVar("Form", bound=msgspec.Struct)
_TABLES, _READER, _RESET, _CHECKPOINT = "tables.json", "reader.json", "reset.json", "checkpoint"
_MARK, _CHECKPOINT_ID, _LAKE_ID = "mark", "checkpoint.json", "penstock.json"
_ERASED, _REPLAY = "erased.json", "replay.json"
NEW = "new"


class KnownTables(msgspec.Struct, frozen=True):
    """The tables that a lake has had; `again`: those to be made again from the log before it goes on."""

    tables: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


class ErasedPlaces(msgspec.Struct, frozen=True):
    """Erased places of a topic, for the batch that begins at `begins` in their partitions, or anywhere."""

    log_id: str
    topic_id: int
    incarnation: int | None
    begins: dict[int, int]
    places: tuple[Piece, ...]


class _ErasedNote(msgspec.Struct, frozen=True):
    topics: tuple[ErasedPlaces, ...]


class Replayed(msgspec.Struct, frozen=True):
    """What is replayed into a folder: by which pipeline, from where to where in words, and as a range."""

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
    """What a reset has removed of a pipeline's state, and which tables it has set aside, and where."""

    removed: list[Location]
    aside: list[tuple[Location, Location]]


def known_tables(root: Location) -> KnownTables:
    """Return what is known of a lake's tables."""
    return _read(root / CONTROL / _TABLES, KnownTables) or KnownTables()


def remember(root: Location, tables: Iterable[str]) -> None:
    """Add tables that were committed to."""
    names = set(tables)

    def added(found: bytes | None) -> bytes | None:
        known = KnownTables() if found is None else msgspec.json.decode(found, type=KnownTables)
        new = names - set(known.tables)
        more = KnownTables((*known.tables, *sorted(new)), known.again)
        return msgspec.json.encode(more) if new else None

    storage_of(root).update(root / CONTROL / _TABLES, added)


def made_again(root: Location) -> None:
    """Say that the tables that were to be made again are there."""
    _write(root / CONTROL / _TABLES, KnownTables(known_tables(root).tables))


@asks_storage
def check_tables(root: Location, *, but: Collection[str] = ()) -> None:
    """Refuse to go on when a table that the lake had is gone. Raises TableMissing."""
    missing = [name for name in known_tables(root).tables if not is_table(root / name) and name not in but]
    if missing:
        raise TableMissing(str(root), missing)


@asks_storage
def begin_checkpoint(root: Location, checkpoint: Path) -> None:
    """Let a lake know its checkpoint, where that is kept elsewhere, or see that it is the one it knows.

    One of the time before a reset, or of another lake, would go on at places that these tables do not have.
    Raises InvalidOption.
    """
    if storage_of(root).keeps_checkpoints:
        return
    own, known = checkpoint / _LAKE_ID, root / CONTROL / _CHECKPOINT_ID
    if (checkpoint / "metadata").exists():
        found = _read(own, _CheckpointId)
        if found is None or found != _read(known, _CheckpointId):
            remedy = (
                f"that which {root} was last run with, or a new folder: the tables say where it goes on then"
            )
            raise InvalidOption("--checkpoint", str(checkpoint), remedy)
        return
    storage_of(root).check_lock("--to", root / CONTROL)
    made = _CheckpointId(uuid4().hex)
    _write(known, made)  # first: a crash leaves a folder that nothing is in
    _write(own, made)


@asks_storage
def check_checkpoint(root: Location, checkpoint: Path) -> None:
    """Refuse to go on when another driver has, with a checkpoint of its own. Raises LakeTakenOver.

    That nothing is doubled is not decided here, but by each commit; this only says it in time.
    """
    own = _read(checkpoint / _LAKE_ID, _CheckpointId)
    if own is not None and own != _read(root / CONTROL / _CHECKPOINT_ID, _CheckpointId):
        raise LakeTakenOver(str(root))


def note_erased(root: Location, topics: Iterable[ErasedPlaces]) -> None:
    """Note erased places that no table of a lake holds, instead of those that were noted before."""
    _write(root / CONTROL / _ERASED, _ErasedNote(tuple(each for each in topics if each.places)))


def erased_places(table: Location) -> tuple[ErasedPlaces, ...]:
    """Return what is noted as erased for a table, in its own folder and in that of its lake."""
    own, noted = _read(table / CONTROL / _ERASED, _ErasedNote), None
    with suppress(PermissionError, StorageRefused):  # whoever may only see the table has no lake around it
        noted = _read(table.parent / CONTROL / _ERASED, _ErasedNote)
    return tuple(place for each in (own, noted) if each is not None for place in each.topics)


def note_replay(root: Location, replay: Replayed) -> None:
    """Note what a folder is filled with by a replay."""
    _write(root / CONTROL / _REPLAY, replay)


def replayed(root: Location) -> Replayed | None:
    """Return what a replay fills a folder with, if one does."""
    return _read(root / CONTROL / _REPLAY, Replayed)


@asks_storage
def reader_name(root: Location) -> str:
    """Return the name of the pipeline that writes here, made when it is first asked for.

    Folders of the same name are on many machines, so part of it is random.
    """
    file = root / CONTROL / _READER
    known = _read(file, _Reader)
    if known is None:
        made = msgspec.json.encode(_Reader(f"{root.name or 'lake'}-{uuid4().hex[:6]}"))
        storage_of(file).update(file, lambda found: made if found is None else None)
        known = _read(file, _Reader)
        assert known is not None, "it was written just now"
    return known.name


@asks_storage
def is_unnamed(root: Location) -> bool:
    """Return whether no pipeline has got its name here yet."""
    return known_reader(root) is None


@asks_storage
def forget_reader(root: Location, *, keep_folder: bool) -> None:
    """Remove the name of a pipeline, and its folder, unless something else has come there meanwhile."""
    control = root / CONTROL
    if [each.name for each in control.iterdir()] == [_READER]:
        storage_of(control).remove(control)
    if not keep_folder and root.is_dir() and not any(root.iterdir()):
        storage_of(root).remove(root)


def known_reader(root: Location) -> str | None:
    """Return the name of the pipeline that writes here, if it has one yet."""
    known = _read(root / CONTROL / _READER, _Reader)
    return None if known is None else known.name


@asks_storage
def reset(path: Location, *, rebuild: bool, tables: Collection[str] = ()) -> ResetDone:
    """Forget a pipeline's checkpoint; with `rebuild` set its tables aside, or note some that are made again.

    These are set aside when the next run has made the new ones; those that cannot be read, at once. One that
    is cut short is finished by the next start, or the next reset. Raises InvalidOption.
    """
    there = {each.name for each in tables_in(path)} if not is_table(path) else {ITSELF}
    known = known_tables(path)
    if not there and not (path / CONTROL).is_dir():
        raise InvalidOption("path", str(path), "a folder with the tables of a pipeline, or one table")
    unknown = sorted(set(tables) - there - set(known.tables))
    if unknown:
        raise InvalidOption("table", unknown[0], f"one of {', '.join(sorted(there | {*known.tables}))}")
    # Where the new ones begin is said by the mark, or by the tables that stay.
    some = set(tables) < there | set(known.tables) or is_table(path / CONTROL / _MARK)
    if rebuild and tables and some:
        unread = [name for name in sorted(tables) if not can_be_read(path / name)]
        intent = _ResetIntent(_asides(path, unread), False, tuple(sorted({*known.again, *tables})))
    else:
        intent = _ResetIntent(_asides(path, sorted(there | {*known.tables})) if rebuild else {}, rebuild)
    _write(path / CONTROL / _RESET, intent)
    return finish_reset(path)


@asks_storage
def finish_reset(path: Location) -> ResetDone:
    """Set aside and remove what a reset was to, if there is one under way; return what there was of it."""
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


def _asides(path: Location, tables: Iterable[str]) -> dict[str, str]:
    return {name: aside_for(path, name) for name in tables}


def _read(file: Location, form: type[Form]) -> Form | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=form)
    except FileNotFoundError:
        return None


def _write(file: Location, form: msgspec.Struct) -> None:
    storage_of(file).replace(file, msgspec.json.encode(form))
