"""Tables whose columns grow: a field that is new gets a column, and rows from before have NULL there.

A field that is gone leaves its column, which is NULL from then on. A column of another type is refused:
what is there would have to be read as something else.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from penstock.errors import MissingExtra, TableDiffers

from ..committing import TablePart
from ..identity import BatchIdentity
from ..table import LakeTable

try:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Schema
    from deltalake.exceptions import CommitFailedError
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc


class Evolve:
    """Every row is added; a column that the table does not have is added before."""

    whole = False

    def opened(self, part: TablePart) -> LakeTable:
        """Return the table, with at least the columns of the part. Raises TableDiffers."""
        LakeTable.opened(part.path, part.schema)
        evolve(part)
        return LakeTable(part.path)

    def put(self, table: LakeTable, part: TablePart, identity: BatchIdentity) -> None:
        """Add the files. Raises CommitFailedError."""
        table.append(part.files, identity)


def evolve(part: TablePart) -> None:
    """Give a table the columns that it does not have. Raises TableDiffers."""
    wanted_form = msgspec.json.decode(Schema.from_arrow(part.schema).to_json())
    found, wanted = _types(LakeTable(part.path).schema_form()), _types(wanted_form)
    changed = [name for name, kind in wanted.items() if name in found and not _grows(found[name], kind)]
    changed += {"value"} & found.keys() - wanted.keys()  # it is raw, and its rows would have no fields
    if changed:
        said = [_said(changed, each) for each in (found, wanted)]
        raise TableDiffers(str(part.path), *said)
    new = [name for name, kind in wanted.items() if found.get(name) != kind]
    if any(_is_new(found.get(name), wanted[name]) for name in new):
        fields = [each for each in Schema.from_arrow(part.schema).fields if each.name in new]
        with suppress(CommitFailedError):  # another driver did it at the same moment; the commit looks again
            table = DeltaTable(str(part.path))
            table.alter.add_columns(fields, commit_properties=CommitProperties(max_commit_retries=0))


def all_columns(part: TablePart) -> pa.Schema:
    """Return the columns of a table, of which a part may have fewer."""
    return pa.schema(DeltaTable(str(part.path)).schema().to_arrow())


def _types(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns with their types, without what is said about them."""
    form = _plain(schema)
    return {field["name"]: field["type"] for field in form["fields"]}


def _plain(form: Any) -> Any:
    if isinstance(form, dict):
        return {name: _plain(each) for name, each in form.items() if name not in ("metadata", "nullable")}
    return [_plain(each) for each in form] if isinstance(form, list) else form


def _grows(found: Any, wanted: Any) -> bool:
    """Return whether a type can become another: the same, or a struct with fields that come or go."""
    if _is_struct(found) and _is_struct(wanted):
        has = _fields(found)
        return all(_grows(has[name], kind) for name, kind in _fields(wanted).items() if name in has)
    return bool(found == wanted)


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
