"""Publishing on a SQLAlchemy `AsyncConnection` or `AsyncSession`.

Beneath each stands a sync one, which `run_sync` gives, and on that the sync adapter works: SQLAlchemy itself
awaits the driver.
"""

from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from penstock.log.sql.naming import Names

from ..staging import Step
from .sqlalchemy import ADAPTER as SYNC
from .sqlalchemy import dialect_named


class SqlalchemyAsyncAdapter:
    """Runs staging through SQLAlchemy, on whatever async driver it uses."""

    def dialect_of(self, conn: AsyncConnection | AsyncSession) -> str:
        """Return the dialect behind the connection; a session says it without opening one."""
        bind = conn.get_bind() if isinstance(conn, AsyncSession) else conn
        return dialect_named(conn, bind.dialect.name)

    async def acheck(self, conn: AsyncConnection | AsyncSession) -> None:
        """Refuse a connection in autocommit."""
        await conn.run_sync(SYNC.check)

    def driver_connection(self, conn: AsyncConnection | AsyncSession) -> Any:
        """Return what the driver made; a session has its connection by now, so nothing is awaited."""
        sync = conn.sync_session if isinstance(conn, AsyncSession) else conn.sync_connection
        assert sync is not None
        return SYNC.driver_connection(sync)

    def is_open(self, driver_connection: Any) -> bool:
        """Ask as the driver can tell without I/O."""
        return SYNC.is_open(driver_connection)

    async def arun(self, conn: AsyncConnection | AsyncSession, step: Step, names: Names) -> int:
        """Run the statement for one row or many."""
        return await conn.run_sync(SYNC.run, step, names)


ADAPTER = SqlalchemyAsyncAdapter()
