"""Publishing on a psycopg 3 `Connection` or `AsyncConnection`.

Outside autocommit the driver opens the transaction before our statement, as before any other.
"""

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from penstock.database.contract import Row
from penstock.database.naming import Names
from penstock.errors import NoTransaction

from ..contract import DriverAdapter, Step
from .postgres_calls import postgres_call, postgres_sql, schema_missing


class _LibpqAdapter(DriverAdapter):
    dialect = "postgres"

    def is_open(self, driver_connection: Any) -> bool:
        """Ask libpq, which knows without asking the server."""
        status = driver_connection.info.transaction_status
        return bool(status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN))


class PsycopgAdapter(_LibpqAdapter):
    """Runs staging on psycopg 3."""

    def check(self, conn: "psycopg.Connection[Any]") -> None:
        """Refuse autocommit without an open transaction."""
        if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
            raise NoTransaction("publish inside `with conn.transaction():`, or use outbox.transaction()")

    def run(self, conn: "psycopg.Connection[Any]", step: Step, names: Names) -> int:
        """Run one statement for one row or many."""
        name, params = postgres_call(step)
        try:
            cursor = conn.execute(postgres_sql(name, names), params)
            if step.counts and cursor.rowcount < 0:  # pipeline mode: no answer yet
                with conn.pipeline():
                    pass
            return cursor.rowcount
        except psycopg.errors.UndefinedTable as exc:
            raise schema_missing(exc) from exc

    def rows(self, conn: "psycopg.Connection[Any]", step: Step, names: Names) -> list[Row]:
        """Run one statement for one row of values or many; the caller may have set a row factory."""
        name, params = postgres_call(step)
        try:
            with conn.cursor(row_factory=tuple_row) as cursor:
                return cursor.execute(postgres_sql(name, names), params).fetchall()
        except psycopg.errors.UndefinedTable as exc:
            raise schema_missing(exc) from exc


ADAPTER = PsycopgAdapter()


class PsycopgAsyncAdapter(_LibpqAdapter):
    """Runs staging on psycopg 3, async."""

    async def acheck(self, conn: "psycopg.AsyncConnection[Any]") -> None:
        """Refuse autocommit without an open transaction."""
        if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
            raise NoTransaction("publish inside `async with conn.transaction():`")

    async def arun(self, conn: "psycopg.AsyncConnection[Any]", step: Step, names: Names) -> int:
        """Run one statement for one row or many."""
        name, params = postgres_call(step)
        try:
            cursor = await conn.execute(postgres_sql(name, names), params)
            if step.counts and cursor.rowcount < 0:  # pipeline mode: no answer yet
                async with conn.pipeline():
                    pass
            return cursor.rowcount
        except psycopg.errors.UndefinedTable as exc:
            raise schema_missing(exc) from exc

    async def arows(self, conn: "psycopg.AsyncConnection[Any]", step: Step, names: Names) -> list[Row]:
        """Run one statement for one row of values or many; the caller may have set a row factory."""
        name, params = postgres_call(step)
        try:
            async with conn.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(postgres_sql(name, names), params)
                return await cursor.fetchall()
        except psycopg.errors.UndefinedTable as exc:
            raise schema_missing(exc) from exc


ASYNC_ADAPTER = PsycopgAsyncAdapter()
