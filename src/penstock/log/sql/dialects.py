"""From a store's address to its database."""

import os

from penstock.errors import InvalidName, InvalidUrl

from .address import without_password
from .contract import Dialect
from .database import Database
from .naming import Names

FORMS = (
    "sqlite:///file.db",
    "sqlite:////absolute/file.db",
    "postgresql://user@host/database",
    "memory://",
)
_POSTGRES = ("postgresql", "postgres")


def open_database(
    url: str, names: Names, *, limit_seconds: float | None = None, listen_url: str | None = None
) -> Database:
    """Return the database that a URL means; nothing is opened yet.

    `limit_seconds` bounds how long a transaction of ours may wait for a lock or stand idle, where the
    database can enforce it. `listen_url` is where a server is listened to, if not there: it is for a server
    behind a pooler, and files have no use for it. Raises InvalidUrl, InvalidName, MissingExtra.
    """
    dialect = _dialect(url, limit_seconds, listen_url or None)
    if names.schema is not None and not dialect.has_schemas:
        raise InvalidName("schema", names.schema, "cannot be had in this database; set a prefix instead")
    return Database(dialect, names)


def _dialect(url: str, limit_seconds: float | None, listen_url: str | None) -> Dialect:
    scheme, found, rest = str(url).partition("://")
    if found and scheme == "sqlite" and rest.startswith("/") and _is_file(rest[1:]):
        from .sqlite.dialect import SqliteDialect

        return SqliteDialect(os.path.abspath(rest[1:]))  # the same file also after a change of folder
    if found and scheme in _POSTGRES:
        from .postgres.dialect import DEFAULT_LIMIT_SECONDS, PostgresDialect

        if listen_url is not None and str(listen_url).partition("://")[0] not in _POSTGRES:
            raise InvalidUrl(without_password(str(listen_url)), [FORMS[2]])
        limit = limit_seconds or DEFAULT_LIMIT_SECONDS
        return PostgresDialect(url, limit_seconds=limit, listen_url=listen_url)
    if found and scheme == "memory":
        from ..memory import MemoryDialect

        return MemoryDialect(rest)
    raise InvalidUrl(without_password(str(url)), FORMS)


def _is_file(path: str) -> bool:
    """Return whether a path names a file: not the memory of one connection, and without options."""
    return path not in ("", ":memory:") and "?" not in path and "\x00" not in path
