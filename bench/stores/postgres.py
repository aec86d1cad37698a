"""PostgreSQL: a private server with its defaults (fsync on), its data on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from psycopg import sql

from bench.errors import NotMeasured
from bench.run import Run
from bench.stores.contract import Store
from bench.stores.recording import Call, Tape
from penstock import Outbox
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from tests.services.postgres import PostgresServer, PostgresUnavailable


class PostgresStore:
    """One database of the server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.outbox = Outbox(url)

    @property
    def name(self) -> str:
        """The database's name."""
        return urlsplit(self.url).path.removeprefix("/")

    def connect(self, *, autocommit: bool = False) -> "psycopg.Connection[Any]":
        """Open a connection with the driver's defaults."""
        return psycopg.connect(self.url, application_name="bench", autocommit=autocommit)

    def database(self) -> Database:
        """Return Penstock's own way to it."""
        return open_database(self.url, Names())

    def tidy(self) -> None:
        """Vacuum and analyze, as autovacuum does."""
        with self.connect(autocommit=True) as conn:
            conn.execute("VACUUM (ANALYZE)")

    @contextmanager
    def recording(self, tape: Tape) -> Iterator[None]:
        """Record every cursor: Penstock makes its own, whatever the connection's are."""
        execute = psycopg.Cursor.execute

        def recorded(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
            binary = options.get("binary") or cursor.format == psycopg.pq.Format.BINARY
            tape.append(Call(query, params, binary=binary))
            return execute(cursor, query, params, **options)

        with patch.object(psycopg.Cursor, "execute", recorded):
            yield

    def play(self, conn: "psycopg.Connection[Any]", tape: Tape) -> None:
        """Run a tape."""
        for call in tape:
            cursor = conn.cursor(binary=call.binary)
            cursor.execute(call.sql, call.params)
            if cursor.description:
                cursor.fetchall()


class PostgresEngine:
    """The server."""

    name = "PostgreSQL"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        found = self._rows("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int")
        self.pid: int = found[0][0]

    def create(self) -> PostgresStore:
        """Make a database."""
        store = PostgresStore(self._server.create_database())
        store.outbox.migrate()
        store.outbox.close()
        return store

    def copy(self, store: Store) -> PostgresStore:
        """Copy a database file by file; that ends with a checkpoint, so each copy begins alike."""
        assert isinstance(store, PostgresStore)
        name = f"bench_{uuid4().hex[:12]}"
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self._rows(copy.format(sql.Identifier(name), sql.Identifier(store.name)))
        return PostgresStore(self._server.url(name))

    def drop(self, store: Store) -> None:
        """Drop a database."""
        store.outbox.close()
        self._server.drop_database(store.url)

    def create_bare(self) -> str:
        """Make a database without our tables, for others, and return its address."""
        return self._server.create_database()

    def copy_bare(self, url: str) -> str:
        """Copy a database by its address; nobody may be connected to it."""
        return self.copy(PostgresStore(url)).url

    def drop_bare(self, url: str) -> None:
        """Drop a database by its address."""
        self._server.drop_database(url)

    def watch(self, run: Run) -> None:
        """Count the server and all its processes."""
        run.watch("postgres", self.pid)

    def version(self) -> str:
        """Return the server's version."""
        return str(self._rows("SHOW server_version")[0][0])

    def wal_bytes(self) -> int:
        """Return how much the server has written to its write-ahead log so far."""
        return int(self._rows("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")[0][0])

    def _rows(self, statement: "sql.SQL | sql.Composed | str") -> list[Any]:
        with psycopg.connect(self._server.url(), autocommit=True) as conn:
            cursor = conn.execute(statement)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def postgres(run: Run) -> Iterator[PostgresEngine]:
    """Start the server of a case. Raises NotMeasured where there is none to start."""
    try:
        server = PostgresServer(fsync=True)
        server.start()
    except PostgresUnavailable as exc:
        raise NotMeasured(f"no PostgreSQL: {exc}") from exc
    with server:
        engine = PostgresEngine(server)
        run.note("PostgreSQL", engine.version())
        run.note("psycopg", psycopg.__version__)
        yield engine
