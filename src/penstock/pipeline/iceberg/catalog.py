"""Where the Iceberg tables of a lake are known by name: a catalog in a file beside them, or a REST catalog.

`_penstock/catalog.json` says which: it is written before the first table, and makes the folder a lake of
Iceberg tables. What a REST catalog wants to know of us (a token) is pyiceberg's own matter: its settings for
a catalog of the name `penstock`, as in `PYICEBERG_CATALOG__PENSTOCK__TOKEN`.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from penstock.errors import InvalidOption, MissingExtra
from penstock.log.sql.address import without_password

from ..on_disk import bring_to_disk
from ..paths import CATALOG, CATALOG_DATABASE, CONTROL, catalog_root, check_catalog, is_delta
from ..storage import Location, storage_of

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import NamespaceAlreadyExistsError
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool
except ImportError as exc:
    raise MissingExtra("a lake of Iceberg tables", "iceberg") from exc

NAME = "penstock"
_WAIT_SECONDS = 60


class LakeCatalog(msgspec.Struct, frozen=True):
    """Which catalog, and the namespace of the tables in it. `uri` None: the file beside the lake."""

    namespace: str
    uri: str | None = None


def begin(root: Location, uri: str | None, namespace: str | None) -> None:
    """Let a folder be a lake of Iceberg tables, or see that it is one of this catalog.

    Raises InvalidOption.
    """
    if uri is not None and urlsplit(uri).scheme not in ("http", "https"):
        raise InvalidOption("catalog", without_password(uri), "the address of a REST catalog: https://…")
    if uri is not None and "@" in urlsplit(uri).netloc:  # it would stand in the lake, for all who read it
        remedy = f"an address without a login; give it as PYICEBERG_CATALOG__{NAME.upper()}__CREDENTIAL"
        raise InvalidOption("catalog", without_password(uri), remedy)
    check_catalog(root)
    if any(sign in str(root) for sign in "?#"):
        raise InvalidOption("path", str(root), "a path without ? and #: readers of Iceberg tables decode it")
    if is_delta(root) or any(is_delta(each) for each in (root.iterdir() if root.is_dir() else ())):
        raise InvalidOption("format", "iceberg", f"delta, as the tables in {root} are, or another folder")
    wanted = LakeCatalog(namespace or re.sub(r"\W+", "_", root.name) or "lake", uri)
    file = root / CONTROL / CATALOG
    if file.is_file():
        known = _read(file)
        if known.uri != uri or namespace not in (None, known.namespace):
            said = f"{known.uri or 'the file beside the lake'}, namespace {known.namespace}"
            raise InvalidOption("catalog", uri or "none", f"what the lake {root} was made with: {said}")
        return
    storage_of(root).replace(file, msgspec.json.encode(wanted))


def catalog_of(path: Location) -> tuple[Catalog, tuple[str, str]]:
    """Return the catalog that knows the table at a path, and its name there."""
    root = catalog_root(path)
    assert root is not None, "it was asked for as an Iceberg table"
    known = _read(root / CONTROL / CATALOG)
    catalog = _FileCatalog(root) if known.uri is None else load_catalog(NAME, type="rest", uri=known.uri)
    return catalog, (known.namespace, path.name)


def make_namespace(catalog: Catalog, namespace: str) -> None:
    """Make a namespace, if it is not there."""
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        return


def _read(file: Location) -> LakeCatalog:
    return msgspec.json.decode(file.read_bytes(), type=LakeCatalog)


class _FileCatalog(SqlCatalog):
    """A catalog in an SQLite file, which points to nothing that is not on the disk."""

    def __init__(self, root: Location) -> None:
        uri = f"sqlite:///{root / CONTROL / CATALOG_DATABASE}"
        # pyiceberg's own pool keeps connections open, which do not survive a fork.
        self._unpooled = create_engine(uri, poolclass=NullPool, connect_args={"timeout": _WAIT_SECONDS})
        super().__init__(NAME, uri=uri, warehouse=f"file://{root}")

    @property
    def engine(self) -> Any:
        """The database."""
        return self._unpooled

    @engine.setter
    def engine(self, made: Any) -> None:
        made.dispose()

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        SqlCatalog._write_metadata(metadata, io, metadata_path)
        bring_to_disk(Path(urlsplit(metadata_path).path))
