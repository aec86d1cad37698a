"""What there is to know and to do about the tables of a lake, without Spark."""

from dataclasses import dataclass
from pathlib import Path

from penstock.clock import SYSTEM
from penstock.errors import InvalidOption

from .offsets import Ends
from .paths import CONTROL, is_table, tables_in
from .table import LakeTable, Size

_HOUR_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class SourceEnds:
    """Where a table ends in a topic: for each partition the offset after the last one."""

    log_id: str
    topic: str
    topic_id: int
    ends: Ends


@dataclass(frozen=True, slots=True)
class TableState:
    """One table: how much it holds, and of which topics up to where."""

    name: str
    path: str
    size: Size
    sources: tuple[SourceEnds, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    """Files of a table that no commit points to."""

    table: str
    files: tuple[str, ...]


def describe(path: Path) -> list[TableState]:
    """Return the state of each table of a lake, or of the one table that the path is."""
    return [_state(each) for each in _existing(path)]


def vacuum(path: Path, *, older_than_hours: int, dry_run: bool) -> list[Removed]:
    """Remove what crashes left behind in the tables of a lake; younger files may be of a batch under way."""
    done = [
        Removed(each.name, tuple(LakeTable(each).vacuum(older_than_hours, dry_run=dry_run)))
        for each in _existing(path)
    ]
    return done + _unborn(path, older_than_hours, dry_run=dry_run)


def _existing(path: Path) -> list[Path]:
    found = tables_in(path)
    if not found and not (path / CONTROL).is_dir():
        raise InvalidOption("path", str(path), "a folder with Delta tables, or one Delta table")
    return found


def _state(path: Path) -> TableState:
    table = LakeTable(path)
    sources = tuple(
        SourceEnds(each.log_id, each.topic, each.topic_id, table.ends(each)) for each in table.sources()
    )
    return TableState(path.name, str(path), table.size(), sources)


def _unborn(path: Path, older_than_hours: int, *, dry_run: bool) -> list[Removed]:
    """Remove files in folders that never became a table: a crash came before the first commit."""
    if is_table(path):
        return []
    before = SYSTEM.now_ms() / 1000 - older_than_hours * _HOUR_SECONDS
    done = []
    for folder in sorted(path.iterdir()):
        if folder.is_dir() and folder.name != CONTROL and not is_table(folder):
            left = [file for file in folder.glob("part-*.parquet") if file.stat().st_mtime < before]
            for file in [] if dry_run else left:
                file.unlink()
            done.append(Removed(folder.name, tuple(file.name for file in left)))
    return [each for each in done if each.files]
