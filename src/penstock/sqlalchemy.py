"""What a program on SQLAlchemy sets up once: how its transactions on SQLite begin."""

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.ext.asyncio import AsyncEngine

from penstock.outbox.adapters.driver_state import innermost


def begin_immediate(engine: Engine | AsyncEngine) -> None:
    """Let every transaction of an engine on SQLite begin as a writer; on another database, nothing.

    Then one that reads first and writes later waits for its turn at its beginning, and is never refused with
    "database is locked" in the middle. Connections in isolation level AUTOCOMMIT stay as they are.
    """
    own: Any = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    if own.dialect.name == "sqlite" and not event.contains(own, "begin", _begin):
        event.listen(own, "begin", _begin)


def _begin(connection: Connection) -> None:
    driver = innermost(connection.connection.driver_connection)
    if driver.isolation_level is not None and not driver.in_transaction:  # None: it commits by itself
        connection.exec_driver_sql("BEGIN IMMEDIATE")
