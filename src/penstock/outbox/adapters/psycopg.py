"""Publishing on a psycopg 3 `Connection`.

Outside autocommit the driver opens the transaction before our statement, as before any other. Many events
are one statement: an array a column.
"""

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from penstock.errors import NoTransaction
from penstock.log.sql.naming import Names, statement
from penstock.log.sql.postgres.dialect import missing_table

from ..staging import Step

_SQL = "penstock.outbox.sql.postgres"


class PsycopgAdapter:
    """Runs staging on psycopg 3."""

    def dialect_of(self, conn: "psycopg.Connection[Any]") -> str:
        """Return the dialect behind the connection."""
        return "postgres"

    def check(self, conn: "psycopg.Connection[Any]") -> None:
        """Refuse autocommit without an open transaction."""
        if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
            raise NoTransaction("publish inside `with conn.transaction():`, or use outbox.transaction()")

    def driver_connection(self, conn: "psycopg.Connection[Any]") -> "psycopg.Connection[Any]":
        """Return the connection itself."""
        return conn

    def is_open(self, driver_connection: Any) -> bool:
        """Ask libpq, which knows without asking the server."""
        status = driver_connection.info.transaction_status
        return bool(status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN))

    def run(self, conn: "psycopg.Connection[Any]", step: Step, names: Names) -> int:
        """Run one statement for one row or many."""
        name, params = postgres_call(step)
        try:
            cursor = conn.execute(statement(_SQL, name, names), params)
            if step.counts and cursor.rowcount < 0:  # in pipeline mode nothing has been answered yet
                with conn.pipeline():
                    pass
            return cursor.rowcount
        except psycopg.errors.UndefinedTable as exc:
            missing = missing_table(exc)
            if missing is None:
                raise
            raise missing from exc


def postgres_call(step: Step) -> tuple[str, tuple[Any, ...]]:
    """Return the name and parameters of the statement that takes these rows."""
    if len(step.rows) == 1:
        return step.statement, step.rows[0]
    return f"{step.statement}_many", tuple(list(column) for column in zip(*step.rows, strict=True))


ADAPTER = PsycopgAdapter()
