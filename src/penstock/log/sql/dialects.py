"""From a store's address to its database."""

from penstock.errors import InvalidUrl
from penstock.log.sql.contract import Dialect
from penstock.log.sql.database import Database
from penstock.log.sql.naming import Names

FORMS = ("sqlite:///file.db", "sqlite:////absolute/file.db")


def open_database(url: str, names: Names) -> Database:
    """Return the database that a URL means; nothing is opened yet. Raises InvalidUrl."""
    return Database(_dialect(url), names)


def _dialect(url: str) -> Dialect:
    scheme, found, rest = url.partition("://")
    if found and scheme == "sqlite" and rest.startswith("/") and rest != "/":
        from penstock.log.sql.sqlite.dialect import SqliteDialect

        return SqliteDialect(rest[1:])
    raise InvalidUrl(url, FORMS)
