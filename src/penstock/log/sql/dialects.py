"""From a store's address to its database."""

from penstock.errors import InvalidUrl
from penstock.log.sql.contract import Dialect
from penstock.log.sql.database import Database
from penstock.log.sql.naming import Names

FORMS = (
    "sqlite:///file.db",
    "sqlite:////absolute/file.db",
    "postgresql://user@host/database",
    "memory://",
)


def open_database(url: str, names: Names, *, limit_seconds: float | None = None) -> Database:
    """Return the database that a URL means; nothing is opened yet.

    `limit_seconds` bounds how long a transaction of ours may wait for a lock or stand idle, where the
    database can enforce it. Raises InvalidUrl, MissingExtra.
    """
    return Database(_dialect(url, limit_seconds), names)


def _dialect(url: str, limit_seconds: float | None) -> Dialect:
    scheme, found, rest = url.partition("://")
    if found and scheme == "sqlite" and rest.startswith("/") and rest != "/":
        from penstock.log.sql.sqlite.dialect import SqliteDialect

        return SqliteDialect(rest[1:])
    if found and scheme in ("postgresql", "postgres"):
        from penstock.log.sql.postgres.dialect import DEFAULT_LIMIT_SECONDS, PostgresDialect

        return PostgresDialect(url, limit_seconds=limit_seconds or DEFAULT_LIMIT_SECONDS)
    if found and scheme == "memory":
        from penstock.log.memory import MemoryDialect

        return MemoryDialect(rest)
    raise InvalidUrl(url, FORMS)
