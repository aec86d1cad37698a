"""Folders of tables: the paths that are accepted, and the folder of an event type's table in a lake."""

import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from os import scandir
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from penstock.errors import Error, InvalidOption, StorageRefused

from .storage import Location, located, storage_of

CONTROL = "_penstock"  # beside the data: Delta ignores names that begin with _
CATALOG = "catalog.json"  # in CONTROL of a lake of Iceberg tables: the catalog that they are registered in
CATALOG_DATABASE = "catalog.db"
OLD = "_old"  # prefix of tables that a rebuild has set aside (`old_tables.py`)
_DELTA_LOG, _LAST_CHECKPOINT = "_delta_log", "_last_checkpoint"
_COMMIT = re.compile(r"\d{20}(\.json|\.checkpoint\..*parquet)")
_LONGEST = 180
At = TypeVar("At", bound=Location)


def local_path(option: str, given: str) -> Path:
    """Return a path, or the path of a file:// address. Raises InvalidOption for other addresses."""
    found = located(option, given)
    if isinstance(found, Path):
        return found
    raise InvalidOption(option, given, "a folder on a disk that is kept between starts, as Spark needs it")


def table_path(option: str, given: str) -> Location:
    """Return the location of a table or lake. Raises InvalidOption, BucketMissing, StorageRefused, StorageAway."""
    path = located(option, given)
    if "%" in str(path):
        raise InvalidOption(option, given, "a path without %, which readers of Delta tables decode")
    storage_of(path).check(option, path)
    return path


def folder_of(type_name: str) -> str:
    """Return the name of the folder for an event type: the type's name itself where possible.

    Characters other than letters, digits, `.`, `-` and `_` become `~` and their bytes in hex; not `%`, which
    readers of Delta tables decode. A name too long for a file system is cut and ends with its digest.
    """
    plain = quote(type_name, safe="").replace("~", "%7E").replace("%", "~")
    if plain[0] in "._":  # hidden from readers, or no folder at all
        plain = f"~{ord(plain[0]):02X}{plain[1:]}"
    if len(plain) <= _LONGEST:
        return plain
    return f"{plain[:_LONGEST]}~{sha256(type_name.encode()).hexdigest()[:16]}"


def type_of(folder: str) -> str | None:
    """Return the event type of a folder; None, if its name was cut."""
    name = unquote(folder.replace("~", "%"))
    return name if name and folder_of(name) == folder else None


def is_table(path: Location) -> bool:
    """Return whether a folder is a Delta or Iceberg table."""
    return is_delta(path) or (any(descriptions(path)) and catalog_root(path) is not None)


def descriptions(path: At) -> Iterator[At]:
    """Yield the metadata files of an Iceberg table, one for each of its last commits."""
    return (path / "metadata").glob("*.metadata.json")


def is_delta(path: Location) -> bool:
    """Return whether a folder is a Delta table: it has a commit, so its creation was not interrupted."""
    log = path / _DELTA_LOG
    # In a bucket, finding a file is one request, and finding a folder needs a listing.
    return (log / _LAST_CHECKPOINT).is_file() or (_has_commit(log) if isinstance(log, Path) else log.is_dir())


def _has_commit(log: Path) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError), scandir(log) as entries:
        return any(_COMMIT.fullmatch(each.name) for each in entries)
    return False


def check_catalog(path: Location, catalog: str | None) -> None:
    """Refuse Iceberg tables without a catalog where storage cannot keep one. Raises InvalidOption."""
    if catalog is None and not storage_of(path).keeps_catalogs and not (path / CONTROL / CATALOG).is_file():
        why = f"for the object store of {path} cannot keep the catalog"
        raise InvalidOption("catalog", "", f"postgresql://HOST/DATABASE or https://…, {why}")


def catalog_root(path: Location) -> Location | None:
    """Return the folder whose catalog knows the Iceberg table at a path, if there is one."""
    if (path / CONTROL / CATALOG).is_file():
        return path
    with suppress(PermissionError, StorageRefused):  # a reader of the table alone may not see its lake
        return path.parent if (path.parent / CONTROL / CATALOG).is_file() else None
    return None


def below(file: Location, folder: Location) -> str:
    """Return the path of a file below a folder."""
    return str(file).removeprefix(f"{folder}/")


def rebuild_command(table: Location) -> str:
    """Return the command that rebuilds one table, and leaves the others of its lake."""
    with suppress(Error, OSError):  # a reader of the table alone may not see its lake
        if not (table / CONTROL).is_dir() and (table.parent / CONTROL).is_dir():
            return f"penstock pipeline reset {table.parent} --rebuild --table {table.name}"
    return f"penstock pipeline reset {table} --rebuild"


def tables_in(path: At) -> list[At]:
    """Return the tables of a lake, by name; for a table, the table itself."""
    if is_table(path):
        return [path]
    if not path.is_dir():
        return []
    return sorted(child for child in path.iterdir() if not child.name.startswith("_") and is_table(child))
