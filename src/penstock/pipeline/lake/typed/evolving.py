"""Tables whose columns grow: a new field gets a column, which is NULL in older rows.

The column of a removed field stays, and is NULL from then on. A column of another type is refused: existing
values would have to be read as another type. So is a field whose name has another case: to readers it is the
same column.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from deltalake.exceptions import CommitFailedError

from penstock.errors import TableDiffers

from ..commit import TablePart
from ..contract import Table
from ..identity import BatchIdentity
from ..kinds import opened, table_at
from ..paths import made_again_by


class Evolve:
    """Adds every row, after adding the columns that the table lacks."""

    whole = rewrites = False

    def opened(self, part: TablePart) -> Table:
        """Return the table, with at least the columns of the part. Raises TableDiffers."""
        opened(part.path, part.schema, partition_by=part.partition_by)
        evolve(part)
        return table_at(part.path)

    def put(self, table: Table, part: TablePart, identity: BatchIdentity) -> None:
        """Add the files. Raises CommitFailedError."""
        table.append(part.files, identity)


def evolve(part: TablePart) -> None:
    """Add the columns that a table lacks. Raises TableDiffers."""
    table = table_at(part.path)
    found, wanted = _types(table.schema_form()), _types(table.form_of(part.schema))
    changed = [name for name, kind in wanted.items() if name in found and not _grows(found[name], kind)]
    changed += _cased(found, wanted)
    changed += {"value"} & found.keys() - wanted.keys()  # it is raw, and its rows would have no fields
    if changed:
        said = _said(changed, found), _said(changed, wanted)
        raise TableDiffers(str(part.path), *said, made_again_by(part.path))
    new = [name for name, kind in wanted.items() if found.get(name) != kind]
    if any(_is_new(found.get(name), wanted[name]) for name in new):
        with suppress(CommitFailedError):  # another driver did it at the same moment; the commit looks again
            table.add_columns(part.schema, new)


def _types(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns with their types, without their metadata."""
    form = _plain(schema)
    return {field["name"]: field["type"] for field in form["fields"]}


def _plain(form: Any) -> Any:
    if isinstance(form, dict):
        return {name: _plain(each) for name, each in form.items() if name not in ("metadata", "nullable")}
    return [_plain(each) for each in form] if isinstance(form, list) else form


def _grows(found: Any, wanted: Any) -> bool:
    """Return whether a type can become another: the same, or a struct with fields added or removed."""
    if _is_struct(found) and _is_struct(wanted):
        has, wants = _fields(found), _fields(wanted)
        grow = all(_grows(has[name], kind) for name, kind in wants.items() if name in has)
        return grow and not _cased(has, wants)
    return bool(found == wanted)


def _cased(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the names of both that differ only by case: a reader could not distinguish the columns."""
    old = {name.lower(): name for name in found.keys() - wanted.keys()}
    new = [name for name in sorted(wanted.keys() - found.keys()) if name.lower() in old]
    return [each for name in new for each in (old[name.lower()], name)]


def _is_new(found: Any, wanted: Any) -> bool:
    if found is None:
        return True
    if not _is_struct(found):
        return False
    has = _fields(found)
    return any(_is_new(has.get(name), kind) for name, kind in _fields(wanted).items())


def _is_struct(form: Any) -> bool:
    return isinstance(form, Mapping) and form.get("type") == "struct"


def _fields(form: Mapping[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in form["fields"]}


def _said(names: Sequence[str], types: Mapping[str, Any]) -> str:
    words = {
        name: kind if isinstance(kind, str) else msgspec.json.encode(kind).decode()
        for name, kind in types.items()
    }
    return ", ".join(f"{name} {words[name]}" for name in names if name in types) or "none of these"
