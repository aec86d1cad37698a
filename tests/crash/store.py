"""A database under test: Penstock's tables, and beside them the writers' own account of what they committed.

`counter` holds a version per topic and key; a writer locks it before it publishes, as the order promise
asks. `promised` holds the id of every published event. Both are written in the publishing transaction, so
they say exactly what committed, whoever was killed when. `effect` holds what handlers wrote through
`record.tx`, a row for each time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from threading import Lock
from typing import Any

import psycopg

from penstock import Outbox
from penstock.backoff import PollingSettings
from penstock.clock import SYSTEM, Clock
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.log.store import store_of
from penstock.membership.member import ClusterSettings, Member
from penstock.outbox.sequencer import Sequencer, SequencerSettings
from penstock.worker.mover import Mover

TABLES = (
    "CREATE TABLE counter (topic text NOT NULL, name text NOT NULL, version integer NOT NULL DEFAULT 0, "
    "PRIMARY KEY (topic, name))",
    "CREATE TABLE promised (id text NOT NULL PRIMARY KEY, topic text NOT NULL, name text NOT NULL, "
    "version integer NOT NULL)",
    "CREATE TABLE effect (topic text NOT NULL, place integer NOT NULL, at integer NOT NULL, name text NOT NULL)",
)
RESET = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "TRUNCATE penstock_staged, penstock_scheduled, penstock_log, penstock_log_time, penstock_member, "
    "penstock_group, penstock_cursor, penstock_lane, penstock_lane_entry, penstock_dead, penstock_note, "
    "penstock_domain, penstock_token, penstock_audit, penstock_periodic, promised, effect",
    "UPDATE penstock_head SET start_offset = 0, next_offset = 0, max_ms = 0",
    "UPDATE penstock_topic SET retention_ms = NULL",
    "UPDATE penstock_slot SET owner = NULL, epoch = epoch + 1",
    "UPDATE counter SET version = 0",
)
LEASE = timedelta(seconds=30)
LONG_LEASE = timedelta(seconds=120)  # for limits that no test waits for, and no busy machine reaches


class Store:
    """One database, for any number of threads and processes; each opens its own by the same URL."""

    def __init__(self, url: str, *, clock: Clock = SYSTEM) -> None:
        self.url = url
        self.on_postgres = url.startswith("postgresql")
        self.outbox = Outbox(url, clock=clock)
        self._eye: Any = None
        self._eye_lock = Lock()

    def prepare(self, *, topics: dict[str, int], keys: Sequence[str]) -> None:
        """Make Penstock's tables, the writers' tables, and the topics with so many partitions."""
        self.outbox.migrate()
        for topic, partitions in topics.items():
            self.outbox.log.create_topic(topic, partitions=partitions)
        with self.connection() as conn:
            for table in TABLES:
                conn.execute(table)
            for topic in topics:
                for key in keys:
                    conn.execute(self.sql("INSERT INTO counter (topic, name) VALUES (?, ?)"), (topic, key))
            conn.commit()

    def reset(self) -> None:
        """Empty a prepared PostgreSQL store and end every other session: cheaper than a new database."""
        with self.connection() as conn:
            for statement in RESET:
                conn.execute(statement)
            conn.commit()

    def close(self) -> None:
        """Close what this store has opened."""
        self.outbox.close()
        if self._eye is not None:
            self._eye.close()

    def connect(self) -> Any:
        """Open a connection as a user of Penstock would."""
        if self.on_postgres:
            return psycopg.connect(self.url)
        return sqlite3.connect(
            self.url.removeprefix("sqlite:///"), timeout=30, isolation_level=None, check_same_thread=False
        )

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Give a connection with a transaction begun, and close it at the end."""
        with closing(self.connect()) as conn:
            self.begin(conn)
            yield conn

    def begin(self, conn: Any) -> None:
        """Begin; psycopg does by itself."""
        if not self.on_postgres:
            conn.execute("BEGIN IMMEDIATE")

    def sql(self, text: str) -> str:
        """Return a statement with the driver's own placeholders."""
        return text.replace("?", "%s") if self.on_postgres else text

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Return what a query sees of committed work, on a connection kept for looking."""
        with self._eye_lock:
            if self._eye is None or (self.on_postgres and self._eye.closed):
                self._eye = self.connect()
                if self.on_postgres:
                    self._eye.autocommit = True
            return [tuple(row) for row in self._eye.execute(self.sql(text), values).fetchall()]

    def run(self, text: str, *values: object) -> None:
        """Run one statement in a transaction of its own."""
        with self.connection() as conn:
            conn.execute(self.sql(text), values)
            conn.commit()

    def publish_next(self, conn: Any, topic: str, key: str) -> str:
        """Publish the next version of a key in the open transaction, after locking the key's counter."""
        raise_version = "UPDATE counter SET version = version + 1 WHERE topic = ? AND name = ? RETURNING version"
        ((version,),) = conn.execute(self.sql(raise_version), (topic, key)).fetchall()
        event_id = self.outbox.publish(conn, "counted", {"version": version}, key=key, topic=topic)
        conn.execute(self.sql("INSERT INTO promised VALUES (?, ?, ?, ?)"), (event_id, topic, key, version))
        return event_id

    def publish_committed(self, topic: str, keys: Sequence[str]) -> list[str]:
        """Publish the next version of each key and commit, all in one transaction."""
        with self.connection() as conn:
            ids = [self.publish_next(conn, topic, key) for key in keys]
            conn.commit()
        return ids

    def waiting(self) -> int:
        """Return how many events are staged and not in the log yet."""
        return int(self.rows("SELECT count(*) FROM penstock_staged")[0][0])

    def lock_waiters(self) -> int:
        """Return how many sessions of this database wait for a lock."""
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        return int(self.rows(f"{waiting} AND wait_event_type = 'Lock'")[0][0])

    def database(self, *, lease: timedelta = LONG_LEASE) -> Database:
        """Open a database of its own for one member, with the limits that belong to its lease."""
        return open_database(self.url, Names(), limit_seconds=lease.total_seconds() / 2)


def cluster(*, lease: timedelta = LEASE, beat: timedelta | None = None) -> ClusterSettings:
    """Return settings with this lease and, unless said otherwise, five heartbeats in it."""
    return ClusterSettings.load(lease_ttl=lease, heartbeat_interval=beat or lease / 5)


def a_member(database: Database, *, lease: timedelta = LEASE, clock: Clock = SYSTEM) -> Member:
    """Return a member that has joined and taken all that is free."""
    member = Member(database, cluster(lease=lease), clock)
    member.join()
    member.take()
    return member


def a_sequencer(database: Database, kind: type[Sequencer] = Sequencer) -> Sequencer:
    """Return a sequencer with default settings."""
    return kind(store_of(database), SequencerSettings.load(), SYSTEM)


def a_service(
    database: Database,
    *,
    lease: timedelta = LEASE,
    beat: timedelta | None = None,
    clock: Clock = SYSTEM,
    batch: int = 2000,
) -> Mover:
    """Return a sequencing service that looks often."""
    return Mover(
        store_of(database),
        clock,
        cluster=cluster(lease=lease, beat=beat),
        sequencer=SequencerSettings.load(batch_records=batch),
        polling=PollingSettings.load(shortest_seconds=0.005, longest_seconds=0.1),
    )


@contextmanager
def running(service: Mover) -> Iterator[Mover]:
    """Run a service for the length of a block."""
    service.start()
    try:
        yield service
    finally:
        service.stop()
