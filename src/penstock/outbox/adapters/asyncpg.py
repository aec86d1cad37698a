"""Publishing on an asyncpg `Connection`, or on the proxy from its pool.

This driver is in autocommit until `conn.transaction()` begins, so an open transaction is always required.
The bell watches the pool's proxy, not the connection beneath: once released, a proxy is never reused.
"""

from typing import Any

from asyncpg.exceptions import UndefinedTableError

from penstock.database.contract import Row
from penstock.database.naming import Names
from penstock.errors import NoTransaction

from ..contract import NoCommitHook, Step
from .postgres_calls import numbered_sql, postgres_call, schema_missing


class AsyncpgAdapter(NoCommitHook):
    """Runs staging on asyncpg."""

    dialect = "postgres"

    def dialect_of(self, conn: Any) -> str:
        """Return the dialect behind the connection."""
        return "postgres"

    async def acheck(self, conn: Any) -> None:
        """Refuse a connection on which no transaction is open."""
        if not conn.is_in_transaction():
            raise NoTransaction("publish inside `async with conn.transaction():`")

    def driver_connection(self, conn: Any) -> Any:
        """Return the connection itself."""
        return conn

    def is_open(self, driver_connection: Any) -> bool:
        """Ask the driver, which knows without asking the server."""
        return bool(driver_connection.is_in_transaction())

    async def arun(self, conn: Any, step: Step, names: Names) -> int:
        """Run one statement for one row or many; the driver answers with its tag, such as `INSERT 0 3`."""
        name, params = postgres_call(step)
        try:
            tag: str = await conn.execute(numbered_sql(name, names), *params)
        except UndefinedTableError as exc:
            raise schema_missing(exc) from exc
        return int(tag.rpartition(" ")[2])

    async def arows(self, conn: Any, step: Step, names: Names) -> list[Row]:
        """Run one statement for one row of values or many."""
        name, params = postgres_call(step)
        try:
            return [tuple(row) for row in await conn.fetch(numbered_sql(name, names), *params)]
        except UndefinedTableError as exc:
            raise schema_missing(exc) from exc


ASYNC_ADAPTER = AsyncpgAdapter()
