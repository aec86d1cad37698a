"""Converts every accepted form of a store's address to its one plain form.

An application has one address for its database, often with a SQLAlchemy driver in it, or an engine of it. All mean the
same database, so all are accepted. SQLAlchemy is never imported here: its objects are read by their attributes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from penstock.errors import InvalidUrl

from .address import FORMS, Options, UrlParts, without_password
from .sqlite.url import sqlite_url

POSTGRES = ("postgresql", "postgres")
DRIVERS = {"sqlite": ("aiosqlite", "pysqlite"), "postgresql": ("asyncpg", "psycopg", "psycopg_async", "psycopg2")}

# SQLAlchemy's pattern, but with several hosts.
_URL = re.compile(
    r"(?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?(?P<hosts>[^/?]*)(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?",
    re.DOTALL,
)


class SqlAlchemyUrl(Protocol):
    """A `sqlalchemy.URL`."""

    @property
    def drivername(self) -> str:
        """The kind of database, with or without a driver."""

    def render_as_string(self, hide_password: bool = True) -> str:
        """Return it as text."""


class HasSqlAlchemyUrl(Protocol):
    """A SQLAlchemy engine, sync or async."""

    @property
    def url(self) -> SqlAlchemyUrl:
        """Its address."""


StoreUrl = str | SqlAlchemyUrl | HasSqlAlchemyUrl


def plain_url(given: StoreUrl) -> str:
    """Return the address of a store in its plain form: one of `FORMS`, perhaps with options.

    Raises InvalidUrl for an unknown driver or an option without meaning here, and MissingExtra.
    """
    parts = _parts(given)
    if isinstance(parts, str):
        return _plain_text(parts)
    if parts.kind == "sqlite":
        return sqlite_url(parts.shown, parts.database or "", parts.options)
    from .postgres.url import postgres_url

    return postgres_url(parts)


def _plain_text(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/"):
        path, _, query = rest[1:].partition("?")
        options = parse_qsl(query, keep_blank_values=True)
        return sqlite_url(without_password(url), path, options) if query else url
    if scheme in POSTGRES:
        from .postgres.url import with_known_options

        return with_known_options(url)
    return url


def _parts(given: Any) -> UrlParts | str:
    if not isinstance(given, str):
        url = getattr(given, "url", given)
        if not callable(getattr(url, "render_as_string", None)):
            raise _refused_object(given)
        return _of_object(url)
    scheme, found, rest = given.partition("://")
    if not (found and "+" in scheme):
        return given
    shown, kind = without_password(given), _kind(scheme, given)
    matched = _URL.fullmatch(rest)
    if matched is None or (kind == "sqlite" and not rest.startswith("/")):
        raise InvalidUrl(shown, FORMS)
    user, password, database = (
        None if text is None else unquote(text) for text in matched.group("user", "password", "database")
    )
    options = parse_qsl(matched["query"] or "", keep_blank_values=True)
    return UrlParts(shown, kind, user, password, matched["hosts"], database, options)


def _refused_object(given: object) -> InvalidUrl:
    shown = without_password(str(given))
    why = f"it is a {type(given).__name__}; pass it as text: str(…)" if "://" in shown else ""
    return InvalidUrl(shown, FORMS, why=why)


def _of_object(url: Any) -> UrlParts:
    shown = without_password(url.render_as_string(hide_password=True))  # the password may be an option, too
    kind, host = _kind(url.drivername, shown), url.host or ""
    if not url.database:  # a `creator` may connect it to an unknown place
        raise InvalidUrl(shown, FORMS, why="it names no database; give the URL of the store as text")
    hosts = f"[{host}]" if ":" in host else host.replace("/", "%2F")
    if url.port is not None:
        hosts = f"{hosts}:{url.port}"
    password = None if url.password is None else str(url.password)
    return UrlParts(shown, kind, url.username, password, hosts, url.database, _pairs(url.query))


def _pairs(query: Mapping[str, str | Sequence[str]]) -> Options:
    return [
        (name, value) for name, values in query.items() for value in ([values] if isinstance(values, str) else values)
    ]


def _kind(scheme: str, url: str) -> str:
    kind, _, driver = scheme.partition("+")
    kind = "postgresql" if kind in POSTGRES else kind
    if kind not in DRIVERS:
        raise InvalidUrl(without_password(url), FORMS)
    if driver and driver not in DRIVERS[kind]:
        known = ", ".join(DRIVERS[kind])
        why = f"the driver {driver!r} is not one of {known}; write {kind}:// without a driver"
        raise InvalidUrl(without_password(url), FORMS, why=why)
    return kind
