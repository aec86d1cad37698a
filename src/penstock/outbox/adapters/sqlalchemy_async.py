"""Publishing on a SQLAlchemy `AsyncConnection` or `AsyncSession`.

Beneath each is a sync one, which `run_sync` passes to the sync adapter; SQLAlchemy awaits the driver.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

from penstock.database.contract import Row
from penstock.database.naming import Names
from penstock.errors import UnsupportedConnection

from ..contract import Step
from .driver import dialect_named
from .sqlalchemy import ADAPTER as SYNC
from .sqlalchemy import SEVERAL

AsyncConn = AsyncConnection | AsyncSession | async_scoped_session[AsyncSession]


class SqlalchemyAsyncAdapter:
    """Runs staging through SQLAlchemy, on any async driver."""

    dialect = None  # depends on the connection

    def dialect_of(self, conn: AsyncConn) -> str:
        """Return the dialect behind the connection; a session tells it without opening one."""
        if isinstance(conn, AsyncConnection):
            return dialect_named(conn, conn.dialect.name)
        try:
            return dialect_named(conn, conn.get_bind().dialect.name)
        except UnboundExecutionError as exc:
            raise UnsupportedConnection(conn, SEVERAL.format("await ")) from exc

    async def acheck(self, conn: AsyncConn) -> None:
        """Refuse a connection in autocommit."""
        await _itself(conn).run_sync(SYNC.check)

    def driver_connection(self, conn: AsyncConn) -> Any:
        """Return the driver's connection; a session has its connection by now, so nothing is awaited."""
        own = _itself(conn)
        sync = own.sync_session if isinstance(own, AsyncSession) else own.sync_connection
        assert sync is not None
        return SYNC.driver_connection(sync)

    def is_open(self, driver_connection: Any) -> bool:
        """Ask the driver, without I/O."""
        return SYNC.is_open(driver_connection)

    def after_commit(self, conn: AsyncConn, call: Callable[[], object]) -> bool:
        """Register the call on the sync session beneath."""
        own = _itself(conn)
        return isinstance(own, AsyncSession) and SYNC.after_commit(own.sync_session, call)

    async def arun(self, conn: AsyncConn, step: Step, names: Names) -> int:
        """Run the statement for one row or many."""
        return await _itself(conn).run_sync(SYNC.run, step, names)

    async def arows(self, conn: AsyncConn, step: Step, names: Names) -> list[Row]:
        """Run the statement for one row of values or many."""
        return await _itself(conn).run_sync(SYNC.rows, step, names)


def _itself(conn: AsyncConn) -> AsyncConnection | AsyncSession:
    return conn() if isinstance(conn, async_scoped_session) else conn


ASYNC_ADAPTER = SqlalchemyAsyncAdapter()
