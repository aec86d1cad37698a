"""The catalog of a lake's Iceberg tables: a file beside them, a PostgreSQL database, or a REST service.

`_penstock/catalog.json` names it: the file is written before the first table, and makes the folder a lake of
Iceberg tables. All readers of the lake see it, so it contains no password. For PostgreSQL, libpq finds the
password (`PGPASSWORD`, `PGPASSFILE`); for a REST catalog, pyiceberg's settings for a catalog of the name
`penstock` hold the credentials, as in `PYICEBERG_CATALOG__PENSTOCK__TOKEN`.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import Timeout
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import IntegrityError, ProgrammingError
from sqlalchemy.pool import NullPool

from penstock.database.address import short_name, without_password
from penstock.errors import CatalogAway, InvalidOption, MissingExtra

from ..paths import CATALOG, CATALOG_DATABASE, CONTROL, catalog_root, check_catalog, is_delta
from ..storage import Location, location, storage_of

NAME = "penstock"
_WAIT_SECONDS = 60
_CONNECT_SECONDS = 10
_REST, _POSTGRES = ("http", "https"), ("postgresql", "postgres")


def at(address: str) -> Location:
    """Return the location of an address in a table."""
    return location(address.removeprefix("file://"))


def address_of(path: Location) -> str:
    """Return the address that tables use for a location."""
    return str(path) if "://" in str(path) else f"file://{path}"


class LakeCatalog(msgspec.Struct, frozen=True):
    """A catalog, and the namespace of the tables in it. `uri` None: the file beside the lake."""

    namespace: str
    uri: str | None = None


def begin(root: Location, uri: str | None, namespace: str | None) -> None:
    """Make a folder a lake of Iceberg tables, or check that it is this one. Raises InvalidOption, CatalogAway."""
    _check(uri)
    check_catalog(root, uri)
    if any(sign in str(root) for sign in "?#"):
        raise InvalidOption("path", str(root), "a path without ? and #: readers of Iceberg tables decode it")
    file = root / CONTROL / CATALOG
    if file.is_file():
        known = _read(file)
        if uri not in (None, known.uri) or namespace not in (None, known.namespace):
            said = f"{known.uri or 'the file beside the lake'}, namespace {known.namespace}"
            raise InvalidOption("catalog", uri or "none", f"what the lake {root} was made with: {said}")
        return
    if is_delta(root) or any(is_delta(each) for each in (root.iterdir() if root.is_dir() else ())):
        raise InvalidOption("format", "iceberg", f"delta, as the tables in {root} are, or another folder")
    wanted = LakeCatalog(namespace or re.sub(r"\W+", "_", root.name) or "lake", uri)
    if uri is not None:  # refuse an unusable catalog now, not after Spark has started
        make_namespace(_catalog(root, uri), wanted.namespace)
    storage_of(root).replace(file, msgspec.json.encode(wanted))


def _check(uri: str | None) -> None:
    if uri is None:
        return
    scheme, shown = urlsplit(uri).scheme, without_password(uri)
    if scheme not in _REST + _POSTGRES:
        wanted = "the address of a REST catalog, https://…, or of a database, postgresql://HOST/DATABASE"
        raise InvalidOption("catalog", shown, wanted)
    if scheme in _REST and "@" in urlsplit(uri).netloc:  # all readers of the lake would see it
        remedy = f"an address without a login; give it as PYICEBERG_CATALOG__{NAME.upper()}__CREDENTIAL"
        raise InvalidOption("catalog", shown, remedy)
    if shown != uri:
        raise InvalidOption("catalog", shown, "an address without a password; give it as PGPASSWORD")


def catalog_of(path: Location) -> tuple[Catalog, tuple[str, str]]:
    """Return the catalog of the table at a path, and its name there. Raises CatalogAway."""
    root = catalog_root(path)
    assert root is not None, "it was asked for as an Iceberg table"
    known = _read(root / CONTROL / CATALOG)
    return _catalog(root, known.uri), (known.namespace, path.name)


def is_beside(catalog: Catalog) -> bool:
    """Return whether a catalog is a file: a commit that it reports as failed has surely failed."""
    return isinstance(catalog, _SqlCatalog) and catalog.engine.dialect.name == "sqlite"


def _catalog(root: Location, uri: str | None) -> Catalog:
    """Open a catalog, without a pool: pyiceberg's own keeps connections open, which do not survive a fork."""
    options = {"warehouse": address_of(root), **storage_of(root).iceberg_options}
    if uri is None:
        address, how = f"sqlite:///{root / CONTROL / CATALOG_DATABASE}", {"timeout": _WAIT_SECONDS}
        return _SqlCatalog(create_engine(address, poolclass=NullPool, connect_args=how), options)
    if urlsplit(uri).scheme in _POSTGRES:
        return _SqlCatalog(_postgres_engine(uri), options)
    return _rest_catalog(uri, storage_of(root).iceberg_options)


def make_namespace(catalog: Catalog, namespace: str) -> None:
    """Make a namespace, if it is missing."""
    with suppress(NamespaceAlreadyExistsError, IntegrityError):  # or another driver makes it just now
        catalog.create_namespace(namespace)


def _read(file: Location) -> LakeCatalog:
    return msgspec.json.decode(file.read_bytes(), type=LakeCatalog)


class _SqlCatalog(SqlCatalog):
    """A catalog in a database, which only points to files that are on the disk."""

    def __init__(self, engine: Engine, options: Mapping[str, str]) -> None:
        self._unpooled = engine
        super().__init__(NAME, uri=f"{engine.dialect.name}+{engine.driver}://", **options)

    @property
    def engine(self) -> Any:
        return self._unpooled

    @engine.setter
    def engine(self, made: Any) -> None:
        made.dispose()

    def create_tables(self) -> None:
        """Make the tables of the catalog, unless another driver makes them just now."""
        with suppress(IntegrityError, ProgrammingError):
            super().create_tables()

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        SqlCatalog._write_metadata(metadata, io, metadata_path)
        file = at(metadata_path)
        storage_of(file).bring_to_disk(file)


def _postgres_engine(uri: str) -> Engine:
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as exc:
        raise MissingExtra("a catalog in PostgreSQL", "postgres") from exc
    try:
        given: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, **conninfo_to_dict(uri)}
    except psycopg.ProgrammingError as exc:
        why = str(exc).partition("\n")[0]
        raise InvalidOption("catalog", without_password(uri), f"as libpq reads it ({why})") from None
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(**given), poolclass=NullPool)

    @event.listens_for(engine, "handle_error")
    def say(context: Any) -> None:
        error = context.original_exception
        if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            raise CatalogAway(short_name(uri), str(error).strip().partition("\n")[0]) from None

    return engine


def _rest_catalog(uri: str, options: Mapping[str, str]) -> RestCatalog:
    try:
        catalog = load_catalog(NAME, type="rest", uri=uri, **options)
    except (NoConnection, Timeout):
        raise CatalogAway(short_name(uri)) from None
    assert isinstance(catalog, RestCatalog)
    for scheme in _REST:
        catalog._session.mount(f"{scheme}://", _CatalogAdapter(uri))
    return catalog


class _CatalogAdapter(HTTPAdapter):
    """Raises CatalogAway when a REST catalog does not answer, so that the object store is not blamed."""

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = uri

    def send(self, *given: Any, **named: Any) -> Any:
        try:
            return super().send(*given, **named)
        except (NoConnection, Timeout):
            raise CatalogAway(short_name(self._uri)) from None
