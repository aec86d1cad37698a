"""The stores that are kept here: loaded anew for each test, with what is known of them."""

import gzip
import json
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from penstock import Outbox, Record
from penstock.clock import Clock
from penstock.testing import FakeClock
from tests.conformance.engines import connect, memory_url

HERE = Path(__file__).parent
ACCOUNT: dict[str, Any] = json.loads((HERE / "v6.json").read_text("utf-8"))
VERSION: int = ACCOUNT["version"]
MADE_AT, SCHEDULED_AT, RETRY_AT = (
    datetime.fromisoformat(ACCOUNT[name]) for name in ("made_at", "scheduled_at", "retry_at")
)
GROUPS: dict[str, str] = ACCOUNT["groups"]

Arrivals = dict[str, list[str]]


@cache
def chain() -> list[str]:
    """Return the titles of all migrations that there are now, oldest first."""
    with closing(Outbox(memory_url())) as fresh:
        return fresh.migrate()


def load(kind: str, url: str) -> None:
    """Put the kept store of a kind into an empty place."""
    if kind == "sqlite":
        packed = (HERE / "v6.sqlite.db.gz").read_bytes()
        Path(url.removeprefix("sqlite:///")).write_bytes(gzip.decompress(packed))
        return
    with psycopg.connect(url) as conn:
        conn.execute((HERE / "v6.postgres.sql").read_bytes())


class KeptStore:
    """A store as the old version has left it; its time begins when its killed worker's lease is over."""

    def __init__(self, kind: str, url: str) -> None:
        load(kind, url)
        self.kind, self.url = kind, url
        self.clock = FakeClock(MADE_AT + timedelta(minutes=2))
        self.seen: list[tuple[str, Record]] = []
        self._opened: list[Outbox] = []
        self.outbox = self.another()

    def another(self, clock: Clock | None = None) -> Outbox:
        """Open one more outbox on the store."""
        outbox = Outbox(self.url, clock=clock or self.clock)
        self._opened.append(outbox)
        return outbox

    def connect(self) -> Any:
        """Open a connection as a caller would."""
        return connect(self.url)

    def subscribe(self, *groups: str, outbox: Outbox | None = None) -> None:
        """Let some groups, or all, note what they are given."""
        for group in groups or GROUPS:
            (outbox or self.outbox).handler(group=group, id=group, topic=GROUPS[group])(self._note(group))

    def drain_to(self, moment: datetime) -> dict[str, Arrivals]:
        """Drain at a moment; return what each group was given, by key."""
        self.clock.advance(moment - self.clock.now())
        return self.drained()

    def drained(self) -> dict[str, Arrivals]:
        """Drain; return what each group was given, by key."""
        self.seen.clear()
        self.outbox.drain()
        return self.arrivals()

    def arrivals(self) -> dict[str, Arrivals]:
        """Return what each group was given, by key; a record without one stands alone."""
        found: dict[str, Arrivals] = {}
        for group, record in self.seen:
            found.setdefault(group, {}).setdefault(record.key or record.value, []).append(record.value)
        return found

    def id(self, label: str) -> str:
        """Return a record's id."""
        return str(_record(label)["id"][self.kind])

    def version(self, change: Callable[[int], int] = lambda found: found) -> int:
        """Change the number of the schema, if at all, and nothing else; return it."""
        conn = self.connect()
        ((found,),) = conn.execute("SELECT value FROM penstock_meta WHERE name = 'schema_version'").fetchall()
        number = change(int(found))
        conn.execute(f"UPDATE penstock_meta SET value = '{number}' WHERE name = 'schema_version'")
        conn.commit()
        conn.close()
        return number

    def contract(self) -> None:
        """Say that only code of the version that the tables have now can use them."""
        conn = self.connect()
        conn.execute(f"UPDATE penstock_meta SET value = '{self.version()}' WHERE name = 'usable_from'")
        conn.commit()
        conn.close()

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table."""
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        if self.kind == "sqlite":
            tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
        conn = self.connect()
        names = [name for (name,) in conn.execute(tables).fetchall()]
        rows = {name: sorted(conn.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}
        conn.close()
        return rows

    def close(self) -> None:
        """Close all that was opened."""
        for outbox in self._opened:
            outbox.close()

    def _note(self, group: str) -> Callable[[Record], None]:
        def note(record: Record) -> None:
            self.seen.append((group, record))

        return note


def expected(*fates: str) -> dict[str, Arrivals]:
    """Return what each group is still to be given, of records with these fates, by key and in order."""
    found: dict[str, Arrivals] = {}
    for last in (False, True):
        for record in ACCOUNT["records"]:
            for group, fate in record["fates"].items():
                if fate in fates and last == (fate == "last"):
                    key = record["key"] or record["label"]
                    found.setdefault(group, {}).setdefault(key, []).append(record["label"])
    return found


def _record(label: str) -> dict[str, Any]:
    return next(each for each in ACCOUNT["records"] if each["label"] == label)
