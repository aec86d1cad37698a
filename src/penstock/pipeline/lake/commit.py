"""The commit of a table's part of a batch, exactly once.

Single writer by rule, not by lock: each commit first checks whether the table holds the batch, and the format refuses
the commit if another came in between; then the table is checked again. A crash before the commit leaves files for
`vacuum`; after a crash past the commit, the next run finds the batch in the table and drops its new files.

In tables whose columns grow, a new field gets a column, which is NULL in older rows. The column of a removed field
stays, and is NULL from then on. A column of another type is refused: existing values would have to be read as another
type. So is a field whose name has another case: to readers it is the same column.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from penstock import points
from penstock.errors import FilesUnseen, PipelineFailed, StorageAway, TableDiffers

from .contract import DataFile, Table, TableRules, said_types, types_of
from .data_files import remove
from .erasure_note import left_out
from .identity import BatchIdentity
from .kinds import opened, table_at
from .paths import is_table, rebuild_command
from .rules import check_filled, check_rules
from .storage import Location, location

BEFORE_COMMIT = points.declare(
    "pipeline.before_table_commit", "The files of a batch are written; no table points to them."
)
AFTER_COMMIT = points.declare(
    "pipeline.after_table_commit", "The table holds the batch; Spark's checkpoint does not know it yet."
)
_TRIES = 20


@dataclass(frozen=True)
class TablePart:
    """A batch's part for one table: files with these columns, which tasks have written."""

    path: Location
    schema: pa.Schema
    files: tuple[DataFile, ...]
    partition_by: tuple[str, ...] = ()  # columns in the table's log and not in files
    rules: TableRules | None = None  # those that rows were checked against, if any


class AppendFiles:
    """How a table takes its part of a batch: it adds every row, and the columns stay as they are."""

    rewrites: bool = False  # whether files of the table are rewritten
    whole: bool = False  # whether a batch replaces all rows of the table, so that one without rows empties it

    def opened(self, part: TablePart) -> Table:
        """Return the current table, created or extended by new columns where necessary. Raises TableDiffers."""
        table = opened(part.path, part.schema, partition_by=part.partition_by)
        table.check_schema(part.schema)
        return table

    def put(self, table: Table, part: TablePart, identity: BatchIdentity) -> None:
        """Commit the part and the identity of the batch in one transaction.

        Raises CommitFailedError if another commit came after the table was opened: the caller opens it again, and
        checks again whether it holds the batch.
        """
        table.replace(part.files, (), identity)


def commit(part: TablePart, identity: BatchIdentity, committing: AppendFiles) -> bool:
    """Commit a part of a batch to its table; return False if it was there already.

    Raises the errors of `identity.is_in`, TableDiffers, FilesUnseen, TableAsksMore, RulesChanged,
    RowsBreakRules; nothing is written then.
    """
    if not part.files and identity.is_nothing() and not committing.whole:
        if is_table(part.path):  # leaves no trace, but raises if the batch is out of order
            identity.is_in(table_at(part.path))
        return False
    check_seen(part)
    check_part(part, committing)
    for _ in range(_TRIES):
        table = committing.opened(part)
        if identity.is_in(table):
            discard(part.files)  # not simply removed: a commit may have taken effect and then failed
            return False
        check_filled(table, part.files, _rules(table, part, committing))
        seen = table.moment()
        # After the table was read: an erasure from now on commits to it, and this commit is refused.
        part = replace(part, files=left_out(part.path, part.files, identity))
        points.reach(BEFORE_COMMIT)
        try:
            committing.put(table, part, identity)
        except CommitFailedError:
            continue
        except (OSError, DeltaError, StorageAway):
            if table_at(part.path).moment() == seen:
                raise
            continue  # its files were erased while it read them, or the commit took effect
        points.reach(AFTER_COMMIT)
        return True
    raise PipelineFailed(f"table {part.path} was changed by others {_TRIES} times while a batch was to be written")


def check_part(part: TablePart, committing: AppendFiles) -> None:
    """Check that a table, if it exists, can take such rows. Raises TableAsksMore, RulesChanged."""
    if is_table(part.path):
        _rules(table_at(part.path), part, committing)


def _rules(table: Table, part: TablePart, committing: AppendFiles) -> TableRules:
    return check_rules(table, part.schema, part.partition_by, part.rules, rewrites=committing.rewrites)


def check_seen(part: TablePart) -> None:
    """Check that the driver sees every file, whole: an executor may write to its own disk. Raises FilesUnseen."""
    unseen = list[str]()
    for each in part.files:
        with suppress(OSError):
            if each.path.stat().st_size == each.size:
                continue
        unseen.append(each.name)
    if unseen:
        raise FilesUnseen(str(part.path), len(unseen), unseen[0])


def discard(files: Iterable[DataFile]) -> None:
    """Remove files of a batch, but those that a table points to: Spark also aborts a batch that some tables hold."""
    by_table: dict[str, list[DataFile]] = {}
    for each in files:
        by_table.setdefault(each.table, []).append(each)
    for path, written in by_table.items():
        folder = location(path)
        table = table_at(folder) if is_table(folder) else None
        if table is None or not table.settles_late:
            remove(written, () if table is None else table.file_names())


class Evolve(AppendFiles):
    """Adds every row, after adding the columns that the table lacks."""

    def opened(self, part: TablePart) -> Table:
        _evolve(opened(part.path, part.schema, partition_by=part.partition_by), part)
        return table_at(part.path)


def _evolve(table: Table, part: TablePart) -> None:
    found, wanted = types_of(table.schema_form()), types_of(table.form_of(part.schema))
    changed = [name for name, kind in wanted.items() if name in found and not _grows(found[name], kind)]
    changed += _cased(found, wanted)
    changed += {"value"} & found.keys() - wanted.keys()  # it is raw, and its rows would have no fields
    if changed:
        said = said_types(found, changed), said_types(wanted, changed)
        raise TableDiffers(str(part.path), *said, rebuild_command(part.path))
    new = [name for name, kind in wanted.items() if _is_new(found.get(name), kind)]
    if new:
        with suppress(CommitFailedError):  # another driver did it at the same moment; the commit looks again
            table.add_columns(part.schema, new)


def _grows(found: Any, wanted: Any) -> bool:
    """Return whether a type can become another: the same, or a struct with fields added or removed."""
    has, wants = _fields(found), _fields(wanted)
    if has is None or wants is None:
        return bool(found == wanted)
    return all(_grows(has[name], kind) for name, kind in wants.items() if name in has) and not _cased(has, wants)


def _cased(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the names of both that differ only by case: a reader could not distinguish the columns."""
    old = {name.lower(): name for name in found.keys() - wanted.keys()}
    new = [name for name in sorted(wanted.keys() - found.keys()) if name.lower() in old]
    return [each for name in new for each in (old[name.lower()], name)]


def _is_new(found: Any, wanted: Any) -> bool:
    has = _fields(found)
    if has is None:
        return found is None
    return any(_is_new(has.get(name), kind) for name, kind in (_fields(wanted) or {}).items())


def _fields(form: Any) -> dict[str, Any] | None:
    if isinstance(form, Mapping) and form.get("type") == "struct":
        return {field["name"]: field["type"] for field in form["fields"]}
    return None
