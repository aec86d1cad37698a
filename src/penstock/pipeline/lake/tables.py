"""Inspection and maintenance of the tables of a lake, without Spark."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.clock import SYSTEM
from penstock.errors import InvalidOption

from ..offsets import Ends
from .contract import FILES, ROWS, Size, Table
from .kinds import table_at
from .lake import Lake
from .paths import CONTROL, is_table, tables_in
from .storage import Location, asks_storage

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
    """One table: its size, its topics, and up to where it holds them."""

    name: str
    path: str
    size: Size
    sources: tuple[SourceEnds, ...]


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One commit of a table. `rows`: how many it added, if known."""

    table: str
    version: int
    at_ms: int
    operation: str
    rows: int | None
    files_added: int
    files_removed: int


@dataclass(frozen=True, slots=True)
class Removed:
    """Files of a table that no commit points to."""

    table: str
    files: tuple[str, ...]


@asks_storage
def describe(path: Location) -> list[TableState]:
    """Return the state of each table of a lake, or of the one table at the path."""
    existing_tables(path)
    lake = Lake(path)
    return [_state(lake, each) for each in lake.tables]


@asks_storage
def vacuum(path: Location, *, older_than_hours: int, dry_run: bool) -> list[Removed]:
    """Remove files that crashes left in the tables of a lake; younger files may be of a batch in flight."""
    found = ((each.name, table_at(each)) for each in existing_tables(path))
    done = [Removed(name, tuple(each.vacuum(older_than_hours, dry_run=dry_run))) for name, each in found]
    return done + unborn(path, older_than_hours, dry_run=dry_run)


@asks_storage
def history(path: Location, *, limit: int, tables: Collection[str] = ()) -> list[TableCommit]:
    """Return the last commits of each table of a lake, or of some of them, newest first."""
    existing = existing_tables(path)
    unknown = sorted(set(tables) - {each.name for each in existing})
    if unknown:
        raise InvalidOption("table", unknown[0], f"one of {', '.join(each.name for each in existing)}")
    chosen = [each for each in existing if not tables or each.name in tables]
    return [_commit(each.name, entry) for each in chosen for entry in table_at(each).commits(limit)]


def _commit(table: str, entry: Mapping[str, Any]) -> TableCommit:
    said = entry.get("operationMetrics") or {}
    metrics = {**(msgspec.json.decode(said) if isinstance(said, str) else said), **entry}

    def count(*names: str) -> int | None:
        found = next((metrics[name] for name in names if name in metrics), None)
        return None if found is None else int(found)

    return TableCommit(
        table,
        int(entry["version"]),
        int(entry.get("timestamp") or 0),
        str(entry.get("operation") or ""),
        count(ROWS, "num_added_rows", "numOutputRows"),
        count(FILES, "num_added_files", "numFilesAdded", "numAddedFiles") or 0,
        count("num_removed_files", "numFilesRemoved", "numRemovedFiles") or 0,
    )


def existing_tables(path: Location) -> list[Location]:
    """Return the tables at a path; none if a pipeline has only begun. Raises InvalidOption."""
    found = tables_in(path)
    if not found and not (path / CONTROL).is_dir():
        raise InvalidOption("path", str(path), "a folder with the tables of a pipeline, or one table")
    return found


def _state(lake: Lake, table: Table) -> TableState:
    found = list[SourceEnds]()
    for each in lake.sources() if lake.has_mark() else table.sources():
        if table.is_fed_by(each):
            common, own = lake.ends(each), table.ends(each)
            # The table may alone have an interrupted batch.
            ends = {p: max(common.get(p, 0), own.get(p, 0)) for p in common.keys() | own.keys()}
            found.append(SourceEnds(each.log_id, each.topic, each.topic_id, ends))
    return TableState(table.folder.name, table.path, table.size(), tuple(found))


def unborn(path: Location, older_than_hours: int, *, dry_run: bool) -> list[Removed]:
    """Remove files in folders that never became a table: a crash came before the first commit."""
    if is_table(path):
        return []
    before = SYSTEM.now_ms() / 1000 - older_than_hours * _HOUR_SECONDS
    done = []
    for folder in sorted(path.iterdir()):
        if folder.is_dir() and not folder.name.startswith("_") and not is_table(folder):
            left = [file for file in folder.glob("part-*.parquet") if file.stat().st_mtime < before]
            for file in [] if dry_run else left:
                file.unlink()
            done.append(Removed(folder.name, tuple(file.name for file in left)))
    return [each for each in done if each.files]
