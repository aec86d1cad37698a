"""Publishing on Django's connection: `django.db.connection`, or one of `django.db.connections`.

Our statement goes through Django's own cursor, so that the query log, wrappers and errors work as for any
other. The placeholders are `%s` on every database.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from django.db import DatabaseError
from django.db.transaction import TransactionManagementError

from penstock.database.contract import Row
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import missing_table
from penstock.database.statements import statement
from penstock.errors import NoTransaction

from ..contract import Step
from .driver import dialect_named, is_known, is_open
from .postgres_calls import missing_relation, postgres_call, postgres_sql


class DjangoAdapter:
    """Runs staging through Django, on the driver of its database backend."""

    dialect = None  # depends on the connection

    def dialect_of(self, conn: Any) -> str:
        """Return the dialect behind the connection. Raises UnsupportedConnection."""
        return dialect_named(conn, getattr(conn, "vendor", None))

    def check(self, conn: Any) -> None:
        """Refuse Django's autocommit, which `atomic` turns off."""
        if conn.get_autocommit():
            raise NoTransaction("publish inside `with transaction.atomic():`")

    def driver_connection(self, conn: Any) -> Any:
        """Return the driver's connection."""
        return conn.connection

    def is_open(self, driver_connection: Any) -> bool:
        """Ask the driver, without I/O."""
        return is_open(driver_connection)

    def after_commit(self, conn: Any, call: Callable[[], object]) -> bool:
        """Register the call, once per savepoint, unless the commit is not Django's."""
        last = conn.run_on_commit[-1] if conn.run_on_commit else None
        if last is None or last[1] != call or last[0] != set(conn.savepoint_ids):
            try:
                conn.on_commit(call)
            except TransactionManagementError:  # `models_on(record.tx)`: Penstock commits
                return False
        return True

    def beneath(self, conn: Any) -> Any:
        """Return the driver's connection, if it is known."""
        return conn.connection if is_known(conn.connection) else conn

    def run(self, conn: Any, step: Step, names: Names) -> int:
        """Run the statement for one row or many."""
        with _translated(), conn.cursor() as cursor:
            if conn.vendor == "postgresql":
                name, params = postgres_call(step)
                cursor.execute(postgres_sql(name, names), params)
            elif len(step.rows) == 1:
                cursor.execute(_sqlite_sql(step.statement, names), step.rows[0])
            else:
                cursor.executemany(_sqlite_sql(step.statement, names), step.rows)
            changed: int = cursor.rowcount
            return changed

    def rows(self, conn: Any, step: Step, names: Names) -> list[Row]:
        """Run the statement once per row of values, or once for all if it takes arrays."""
        found: list[Row] = []
        with _translated(), conn.cursor() as cursor:
            if conn.vendor == "postgresql":
                name, params = postgres_call(step)
                cursor.execute(postgres_sql(name, names), params)
                return [tuple(row) for row in cursor.fetchall()]
            for values in step.rows:
                cursor.execute(_sqlite_sql(step.statement, names), values)
                found += cursor.fetchall()
        return found


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DatabaseError as exc:
        drivers = exc.__cause__ if isinstance(exc.__cause__, Exception) else exc
        missing = missing_relation(drivers) or missing_table(drivers)
        if missing is None:
            raise
        raise missing from exc


@lru_cache(maxsize=1024)
def _sqlite_sql(name: str, names: Names) -> str:
    """Return a statement for SQLite with Django's placeholders; SQLite's `?` would break the query log."""
    return statement("outbox", "sqlite", name, names).replace("?", "%s")


ADAPTER = DjangoAdapter()
