"""Django's connections on each of its backends that we know, through `django.db.connection` and directly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from django.utils.connection import ConnectionProxy
from django.utils.functional import empty
from psycopg.conninfo import conninfo_to_dict

from tests.conformance.callers import Autocommitter, Block, Caller

_ALIAS = "penstock_test"


@contextmanager
def _configured(*, debug: bool) -> Iterator[None]:
    """Give Django settings for a while: it takes them once a process, and other tests have their own."""
    before, settings._wrapped = settings._wrapped, empty
    settings.configure(DEBUG=debug, USE_TZ=True)
    was_ready = apps.ready
    apps.populate(())  # without it Django warns of queries
    try:
        yield
    finally:
        settings._wrapped = before
        if not was_ready:  # a page of the documentation has apps of its own
            apps.apps_ready = apps.models_ready = apps.ready = apps.loading = False


def database_of(url: str) -> dict[str, Any]:
    """Return the address of a store as Django wants it."""
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:///")
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": {"timeout": 30}}
    parts = conninfo_to_dict(url)
    given = {name: parts.pop(name, "") for name in ("dbname", "user", "password", "host", "port")}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given.pop("dbname"),
        **{name.upper(): value for name, value in given.items()},
        "OPTIONS": parts,
    }


@contextmanager
def _connection(url: str, *, debug: bool = False) -> Iterator[Any]:
    """Open one of Django's connections, known to `transaction.atomic` by its alias."""
    with _configured(debug=debug):
        conn = ConnectionHandler({"default": database_of(url), _ALIAS: database_of(url)})[_ALIAS]
        connections[_ALIAS] = conn
        try:
            yield conn
        finally:
            conn.close()
            del connections[_ALIAS]


@contextmanager
def _direct(url: str) -> Iterator[Any]:
    with _connection(url) as conn, transaction.atomic(using=_ALIAS):
        yield conn


@contextmanager
def _proxy(url: str) -> Iterator[Any]:
    with _connection(url), transaction.atomic(using=_ALIAS):
        yield ConnectionProxy(connections, _ALIAS)  # as django.db.connection is


@contextmanager
def _with_query_log(url: str) -> Iterator[Any]:
    with _connection(url, debug=True) as conn, transaction.atomic(using=_ALIAS):
        yield conn


@contextmanager
def _by_hand(url: str) -> Iterator[Any]:
    """Without `atomic`: the program has turned autocommit off and says commit itself."""
    with _connection(url) as conn:
        conn.set_autocommit(False)
        try:
            yield conn
            conn.commit()
        except BaseException:
            conn.rollback()
            raise


@contextmanager
def _savepoint(conn: Any) -> Iterator[None]:
    with transaction.atomic(using=_ALIAS):
        yield


def _execute(conn: Any, sql: str) -> None:
    with conn.cursor() as cursor:
        cursor.execute(sql)


@contextmanager
def _savepoint_by_hand(conn: Any) -> Iterator[None]:
    """In SQL: outside `atomic` Django's own savepoints do nothing on SQLite."""
    _execute(conn, "SAVEPOINT inner_part")
    try:
        yield
    except BaseException:
        _execute(conn, "ROLLBACK TO SAVEPOINT inner_part")
        raise
    finally:
        _execute(conn, "RELEASE SAVEPOINT inner_part")


def _caller(name: str, engine: str, opened: Callable[[str], Block]) -> Caller:
    savepoint = _savepoint_by_hand if opened is _by_hand else _savepoint
    return Caller(f"Django {name} on {engine}", engine, opened, savepoint, execute=_execute)


DJANGO_CALLERS = [
    _caller(name, engine, opened)
    for engine in ("sqlite", "postgres")
    for name, opened in {
        "connection": _proxy,
        "connection by alias": _direct,
        "with its query log": _with_query_log,
        "by hand": _by_hand,
    }.items()
]
DJANGO_AUTOCOMMITTERS = [
    Autocommitter(f"Django on {engine}", engine, _connection, r"transaction\.atomic\(\)", execute=_execute)
    for engine in ("sqlite", "postgres")
]
