"""A store with events, and what its tables say and hold."""

from contextlib import closing
from typing import Any

from penstock import Outbox, Record
from tests.conformance.engines import connect
from tests.conformance.next_release import KNOWN

VALUES = ["first", "second", "third"]


Contents = dict[str, list[tuple[Any, ...]]]


def contents(kind: str, url: str) -> Contents:
    """Return every row of every table of a store."""
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    if kind == "sqlite":
        tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    with closing(connect(url)) as conn:
        names = [name for (name,) in conn.execute(tables).fetchall()]
        return {name: sorted(conn.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


class UsedStore:
    """A store of this release: some events are in the log, others staged; no group has read them."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url = kind, url
        self.outbox = Outbox(url)
        self.seen: list[Any] = []
        self.outbox.migrate()
        self._publish(*VALUES[:2])
        self.outbox.drain()
        self._publish(*VALUES[2:])

    def subscribe(self) -> None:
        """Register a handler that notes the values it is given."""
        self.outbox.handler(group="mail", id="mail")(self._note)

    def state(self, *, version: int = KNOWN, usable_from: int = KNOWN) -> None:
        """Let the tables say that they are of another version, or for other code."""
        with closing(connect(self.url)) as conn:
            for name, value in (("schema_version", version), ("usable_from", usable_from)):
                conn.execute(f"UPDATE penstock_meta SET value = '{value}' WHERE name = '{name}'")
            conn.commit()

    def contents(self) -> Contents:
        """Return every row of every table."""
        return contents(self.kind, self.url)

    def close(self) -> None:
        """Close the outbox."""
        self.outbox.close()

    def _publish(self, *values: str) -> None:
        with self.outbox.transaction() as conn:
            for value in values:
                self.outbox.publish(conn, "t", value, key="k")

    def _note(self, record: Record) -> None:
        self.seen.append(record.value)
