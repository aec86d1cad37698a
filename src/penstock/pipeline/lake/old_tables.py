"""Old tables: a rebuild sets a table aside, beside the new one, until `--drop-old` removes it.

| a table                       | is set aside as                           |
|-------------------------------|-------------------------------------------|
| `LAKE/a`                      | `LAKE/_old.a`, the next one `LAKE/_old.a.2` |
| `FOLDER`, which is one itself | `FOLDER/_old`, the next one `FOLDER/_old.2` |

Files are linked or copied first, and only then removed from the old folder: a crash leaves them in at least one of the
two, and the next try goes on. A Delta table can be moved with its folder. An Iceberg table names its files by absolute
addresses, so the catalog gets a table of the new name with the same rows; earlier snapshots are lost. Of an unreadable
table all files are kept, as files. Before a table is rebuilt or dropped, its rows that exist nowhere else are counted.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from deltalake.exceptions import DeltaError

from penstock.errors import Error
from penstock.log.contract import LogIdentity

from ..offsets import PLACE, Numbers, Places, numbers_in
from ..source.view import Heads
from .contract import DataFile, Table
from .kinds import opened, table_at
from .paths import CATALOG, CATALOG_DATABASE, CONTROL, OLD, below, catalog_root, is_delta, is_table, tables_in
from .routing import ITSELF
from .storage import Location, asks_storage, storage_of

_NAME_MAPPING = "schema.name-mapping.default"  # each Iceberg table makes its own


def old_tables(root: Location) -> list[Location]:
    """Return the folders of tables that were set aside."""
    return sorted(each for each in root.iterdir() if is_old(each.name)) if root.is_dir() else []


def is_old(name: str) -> bool:
    """Return whether a folder of a lake is a table that was set aside."""
    return name == OLD or name.startswith(f"{OLD}.")


def aside_for(root: Location, table: str) -> str:
    """Return the folder that a table would be set aside as."""
    base = OLD if table == ITSELF else f"{OLD}.{table}"
    taken, number, name = {each.name for each in old_tables(root)}, 1, base
    while name in taken:
        number += 1
        name = f"{base}.{number}"
    return name


def set_aside(root: Location, table: str, aside: str) -> bool:
    """Set a table aside; return whether it had files. Safe to repeat after a crash."""
    source = _place(root, table)
    kept = keep_copy(root, table, aside)
    if _is_iceberg(source):
        table_at(source).drop()
    own = [source] if source != root else [each for each in root.iterdir() if not _is_beside(each.name)]
    for each in own:
        if each.exists():
            storage_of(each).remove(each)
    return kept


def keep_copy(root: Location, table: str, aside: str) -> bool:
    """Copy a table to a folder beside it; return whether it has files."""
    source, target = _place(root, table), root / aside
    files = storage_of(source).files_below(source) if source.is_dir() else ()
    found = {below(each, source): each for each in files}
    # Neither our own state in the same folder, nor an older table.
    found = {name: each for name, each in found.items() if not _is_beside(name.partition("/")[0])}
    if found and _is_iceberg(source):
        _keep_iceberg(source, target, found)
    elif found:
        _copy(found, target, found)
    return bool(found)


def _place(root: Location, table: str) -> Location:
    return root if table == ITSELF else root / table


def _is_iceberg(path: Location) -> bool:
    return catalog_root(path) is not None and not is_delta(path)


def can_be_read(path: Location) -> bool:
    """Return whether there is a table whose metadata can be read."""
    if not is_table(path):
        return False
    try:
        table = table_at(path)
        table.sources(), table.size()
    except (Error, OSError, ValueError, DeltaError):
        return False
    return True


@asks_storage
def drop_old(root: Location) -> list[Location]:
    """Remove all tables that were set aside, for good; return their folders."""
    gone = old_tables(root)
    for each in gone:
        if is_table(each):
            table_at(each).drop()
        storage_of(each).remove(each)
    if gone and not (root / CONTROL / "tables.json").is_file():
        forget_catalog(root)
    return gone


def forget_catalog(root: Location) -> None:
    """Allow the next run another format or catalog, if there are no tables, old or new."""
    if not tables_in(root) and not old_tables(root):
        for each in (root / CONTROL / CATALOG, root / CONTROL / CATALOG_DATABASE):
            each.unlink(missing_ok=True)


def _is_beside(name: str) -> bool:
    return name == CONTROL or is_old(name)


def _copy(found: dict[str, Location], target: Location, names: Collection[str]) -> None:
    storage = storage_of(target)
    for name in names:
        storage.copy(found[name], target / name)
    storage.bring_to_disk(*(target / name for name in names))


def _keep_iceberg(source: Location, target: Location, found: dict[str, Location]) -> None:
    if can_be_read(target):
        return  # a crash came later
    if not can_be_read(source):
        _copy(found, target, found)
        return
    table = table_at(source)
    names = sorted(table.file_names())
    _copy(found, target, names)
    said = {name: each for name, each in table.configuration().items() if name != _NAME_MAPPING}
    made = opened(target, table.arrow_schema(), said, table.partition_columns())
    if names and made.is_empty():
        made.replace([DataFile(made.path, name, 0, 0, "") for name in names], ())


_Gone = Callable[[Numbers, Numbers], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class RowsLeft:
    """`rows` of a table, and how many would be `lost`; None: the rows do not identify their records."""

    rows: int
    lost: int | None

    def describe(self, what: str) -> str:
        """Return it in words; `what`: the words about the lost rows."""
        if self.lost is None:
            return f"{self.rows:,} rows do not say which records they are, so how many {what} is not known"
        return f"{self.lost:,} of {self.rows:,} rows {what}"


def not_in_log(table: Table, heads: Heads, log: LogIdentity) -> RowsLeft:
    """Count the rows whose records a log no longer holds, or never held.

    A topic compacted by key may have lost more: only the bounds of its partitions are compared.
    """
    bounds = heads.bounds if (log.id, heads.topic.id) in _topics(table) else {}

    def gone(partitions: Numbers, offsets: Numbers) -> npt.NDArray[np.bool_]:
        held = np.zeros(len(offsets), np.bool_)
        for partition, (start, end) in bounds.items():
            held |= (partitions == partition) & (offsets >= start) & (offsets < end)
        return ~held

    return _counted(table, gone)


def not_in_lake(table: Table, root: Location) -> RowsLeft:
    """Count the rows of a table whose positions no table of a lake has."""
    places = Places()
    for other in map(table_at, tables_in(root)):
        if _topics(other) & _topics(table) and other.has_columns(PLACE):
            for batch in other.batches(PLACE):
                places.add(*numbers_in(batch))
    return _counted(table, lambda partitions, offsets: ~places.has(partitions, offsets))


def _topics(table: Table) -> set[tuple[str, int]]:
    return {(each.log_id, each.topic_id) for each in table.sources()}


def _counted(table: Table, gone: _Gone) -> RowsLeft:
    if not table.has_columns(PLACE) or not table.sources():
        return RowsLeft(table.size().rows, None)
    found = [(batch.num_rows, int(gone(*numbers_in(batch)).sum())) for batch in table.batches(PLACE)]
    return RowsLeft(sum(rows for rows, _ in found), sum(lost for _, lost in found))
