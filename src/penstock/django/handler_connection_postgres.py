"""Django's cursors on a psycopg connection that Django has not opened."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db.backends.postgresql.base import ServerSideCursor
from psycopg.adapt import AdaptersMap
from psycopg.rows import tuple_row


class PostgresCursors:
    """Cursors that write and read values like those of Django's own connections."""

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
    """Set PostgreSQL's time zone to Django's for the block: Django assumes values in that zone."""
    before, wanted = tx.info.parameter_status("TimeZone"), joined.timezone_name
    if before == wanted:
        yield
        return
    setting = "SELECT set_config('TimeZone', %s, true)"  # until the transaction ends, at the latest
    tx.execute(setting, (wanted,))
    try:
        yield
    finally:
        with suppress(Exception):  # the rollback of a failed transaction restores it, too
            tx.execute(setting, (before,))
