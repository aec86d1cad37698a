"""The check that `record.tx` and one of Django's databases are the same, by a query to both.

Addresses do not tell: a host has several names, a pooler another port. The result is cached for the lifetime
of the process.
"""

from pathlib import Path
from threading import Lock
from typing import Any

from django.db import connections

from penstock.errors import UnsupportedConnection

_known: set[tuple[Any, ...]] = set()  # pairs found to be the same
_lock = Lock()
# The start of the server, the database, and the schemas of names without one.
_IDENTITY = (
    "SELECT extract(epoch FROM pg_postmaster_start_time())::text, current_database(), current_setting('search_path')"
)


def check_same_database(tx: Any, vendor: str, alias: str) -> None:
    """Refuse a transaction in another database. Raises UnsupportedConnection."""
    own = connections.create_connection(alias)
    if own.vendor != vendor:
        raise _refusal(tx, alias, f"Django's is {own.vendor}")
    if vendor == "sqlite":
        _check_file(tx, own, alias)
        return
    if "assume_role" in own.settings_dict["OPTIONS"]:
        raise _refusal(tx, alias, 'its "assume_role" gives it another role than the worker\'s')
    if not hasattr(own.Database, "ClientCursor"):
        raise _refusal(tx, alias, "Django uses psycopg 2; install psycopg 3")
    given = own.settings_dict
    pair = (alias, *(repr(given[name]) for name in ("HOST", "PORT", "NAME", "USER", "OPTIONS")), tx.info.dsn)
    with _lock:
        if pair in _known:
            return
    if _identity_here(tx, own.Database) != _identity_there(own):
        raise _refusal(tx, alias, "Django's is another one, or has another search_path")
    with _lock:
        _known.add(pair)


def _check_file(tx: Any, own: Any, alias: str) -> None:
    cursor = tx.cursor()
    cursor.row_factory = None  # plain rows, whatever the handler's row factory
    here = next((row[2] for row in cursor.execute("PRAGMA database_list") if row[1] == "main"), "")
    there = Path(str(own.settings_dict["NAME"]))
    if own.is_in_memory_db() or not here or not there.exists() or not there.samefile(here):
        raise _refusal(tx, alias, f"Django's is {there}, and record.tx is in {here or 'memory'}")


def _identity_here(tx: Any, driver: Any) -> tuple[Any, ...]:
    cursor = tx.cursor(row_factory=driver.rows.tuple_row)  # whatever the handler's row factory
    found: tuple[Any, ...] = cursor.execute(_IDENTITY).fetchone()
    return found


def _identity_there(own: Any) -> tuple[Any, ...]:
    try:
        with own.cursor() as cursor:
            cursor.execute(_IDENTITY)
            found: tuple[Any, ...] = tuple(cursor.fetchone())
            return found
    finally:
        own.close()


def _refusal(tx: Any, alias: str, why: str) -> UnsupportedConnection:
    wanted = (
        f"its transaction is not in Django's database {alias!r}: {why}; create the outbox with "
        f'Outbox(database_url("{alias}")), or name the database of the outbox: using='
    )
    return UnsupportedConnection(tx, wanted, asked="models_on")
