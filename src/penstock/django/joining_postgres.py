"""Django's cursors on a connection of psycopg's that Django has not opened."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db.backends.postgresql.base import ServerSideCursor
from psycopg.adapt import AdaptersMap
from psycopg.rows import tuple_row


class PostgresCursors:
    """They write and read values as those of Django's own connections do."""

    connection: Any
    get_connection_params: Callable[[], dict[str, Any]]

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor of Django's own class; with a name, one that stays on the server."""
        params = self.get_connection_params()
        if name is None:
            cursor = params["cursor_factory"](self.connection, row_factory=tuple_row)
        else:
            cursor = ServerSideCursor(self.connection, name=name, scrollable=False, row_factory=tuple_row)
        cursor._adapters = AdaptersMap(params["context"].adapters)
        return cursor


@contextmanager
def with_time_zone(tx: Any, joined: Any) -> Iterator[None]:
    """Let PostgreSQL speak in Django's time zone for a while: Django takes what it says to be in that one."""
    before, wanted = tx.info.parameter_status("TimeZone"), joined.timezone_name
    if before == wanted:
        yield
        return
    ask = "SELECT set_config('TimeZone', %s, true)"  # until the transaction ends, at the latest
    tx.execute(ask, (wanted,))
    try:
        yield
    finally:
        with suppress(Exception):  # a transaction that failed is rolled back, and this with it
            tx.execute(ask, (before,))
