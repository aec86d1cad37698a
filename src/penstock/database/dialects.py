"""Opens the database of a store's address."""

import os

from penstock.errors import InvalidName, InvalidUrl

from .address import FORMS, without_password
from .contract import Dialect
from .database import Database
from .naming import Names
from .sqlite.url import path_and_timeout
from .url import POSTGRES, StoreUrl, plain_url


def open_database(
    url: StoreUrl, names: Names, *, limit_seconds: float | None = None, listen_url: str | None = None
) -> Database:
    """Return the database of a URL; nothing is opened yet.

    `limit_seconds` bounds the lock waits and idle time of our transactions, where the database can. `listen_url`:
    for notifications, if `url` leads to a pooler. Raises InvalidUrl, InvalidName, MissingExtra.
    """
    dialect = _dialect(plain_url(url), limit_seconds, listen_url or None)
    if names.schema is not None and not dialect.has_schemas:
        raise InvalidName("schema", names.schema, "is not supported by this database; set a prefix instead")
    return Database(dialect, names)


def dialect_name(url: str) -> str:
    """Return the name of the dialect of a plain URL, without importing its driver. Raises InvalidUrl."""
    scheme, found, rest = url.partition("://")
    if found and scheme == "sqlite" and rest.startswith("/"):
        return "sqlite"
    if found and scheme in POSTGRES:
        return "postgres"
    if found and scheme == "memory":
        return "memory"
    raise InvalidUrl(without_password(url), FORMS)


def _dialect(url: str, limit_seconds: float | None, listen_url: str | None) -> Dialect:
    scheme, found, rest = url.partition("://")
    if found and scheme == "sqlite" and rest.startswith("/"):
        from .sqlite.dialect import BUSY_SECONDS, SqliteDialect

        path, seconds = path_and_timeout(rest[1:])
        if path not in ("", ":memory:") and "\x00" not in path:  # a file, not the memory of one connection
            busy_seconds = BUSY_SECONDS if seconds is None else seconds
            # still the same file after a change of folder
            return SqliteDialect(os.path.abspath(path), busy_seconds=busy_seconds)
    if found and scheme in POSTGRES:
        from .postgres.dialect import DEFAULT_LIMIT_SECONDS, PostgresDialect

        if listen_url is not None:
            listen_url = plain_url(listen_url)
            if listen_url.partition("://")[0] not in POSTGRES:
                raise InvalidUrl(without_password(listen_url), [FORMS[2]])
        limit = limit_seconds or DEFAULT_LIMIT_SECONDS
        return PostgresDialect(url, limit_seconds=limit, listen_url=listen_url)
    if found and scheme == "memory":
        from .sqlite.memory import MemoryDialect

        return MemoryDialect(rest)
    if not found and os.path.exists(url):
        raise InvalidUrl(url, FORMS, why=f"it is a path; for a SQLite file write sqlite:///{url}")
    raise InvalidUrl(without_password(url), FORMS)
