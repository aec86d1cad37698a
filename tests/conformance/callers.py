"""The kinds of connection a caller may have, each with the ways it begins, ends and undoes a transaction."""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy.orm import Session

from penstock import Outbox

Block = AbstractContextManager[Any]


def _itself(outbox: Outbox) -> Any:
    return outbox


def _execute(conn: Any, sql: str) -> None:
    conn.execute(sqlalchemy.text(sql) if isinstance(conn, sqlalchemy.Connection | Session) else sql)


@dataclass(frozen=True)
class Caller:
    """One kind: `transaction` gives what is handed to publish, commits at its end, rolls back on an error.

    `face` makes of an outbox what takes such connections by `publish`, `cancel` and their neighbours.
    """

    name: str
    engine: str
    transaction: Callable[[str], Block]
    savepoint: Callable[[Any], Block]
    face: Callable[[Outbox], Any] = _itself
    execute: Callable[[Any, str], None] = _execute


@dataclass(frozen=True)
class Autocommitter:
    """One kind in autocommit, and a word of the remedy: `connection` gives it with no transaction open."""

    name: str
    engine: str
    connection: Callable[[str], Block]
    remedy: str
    face: Callable[[Outbox], Any] = _itself
    execute: Callable[[Any, str], None] = _execute


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


@contextmanager
def _sql_savepoint(conn: Any) -> Iterator[None]:
    conn.execute("SAVEPOINT inner_part")
    try:
        yield
    except BaseException:
        conn.execute("ROLLBACK TO SAVEPOINT inner_part")
        raise
    finally:
        conn.execute("RELEASE SAVEPOINT inner_part")


@contextmanager
def _sqlite_default(url: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(_path(url), timeout=30)) as conn, conn:
        yield conn


@contextmanager
def _sqlite_begin(url: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(_path(url), timeout=30, isolation_level=None)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        try:
            yield conn
            conn.execute("COMMIT")
        except BaseException:
            conn.execute("ROLLBACK")
            raise


def modern_sqlite(url: str, *, autocommit: bool) -> sqlite3.Connection:
    """Return a connection under the transaction control that Python 3.12 brought."""
    connect: Any = sqlite3.connect
    conn: sqlite3.Connection = connect(_path(url), timeout=30, autocommit=autocommit)
    return conn


@contextmanager
def _sqlite_modern(url: str) -> Iterator[sqlite3.Connection]:
    with closing(modern_sqlite(url, autocommit=False)) as conn, conn:
        yield conn


@contextmanager
def _sqlite_modern_begin(url: str) -> Iterator[sqlite3.Connection]:
    with closing(modern_sqlite(url, autocommit=True)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        try:
            yield conn
            conn.execute("COMMIT")
        except BaseException:
            conn.execute("ROLLBACK")
            raise


class OwnSqlite(sqlite3.Connection):
    """A connection class of the program's own."""


class OwnPsycopg(psycopg.Connection[Any]):
    """A connection class of the program's own."""


class OwnSession(Session):
    """A session class of the program's own."""


@contextmanager
def _sqlite_subclass(url: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(_path(url), timeout=30, factory=OwnSqlite)) as conn, conn:
        yield conn


@contextmanager
def _psycopg_default(url: str) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(url) as conn:
        yield conn


@contextmanager
def _psycopg_block(url: str) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(url, autocommit=True) as conn, conn.transaction():
        yield conn


@contextmanager
def _psycopg_pipeline(url: str) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(url) as conn, conn.pipeline():
        yield conn


@contextmanager
def _psycopg_subclass(url: str) -> Iterator["psycopg.Connection[Any]"]:
    with OwnPsycopg.connect(url, cursor_factory=psycopg.ClientCursor) as conn:
        yield conn


@contextmanager
def sqlalchemy_engine(url: str, **options: Any) -> Iterator[sqlalchemy.Engine]:
    """Give SQLAlchemy's engine for a store."""
    address = url.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(address, **options)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _alchemy_connection(url: str) -> Iterator[sqlalchemy.Connection]:
    with sqlalchemy_engine(url) as engine, engine.begin() as conn:
        yield conn


@contextmanager
def _alchemy_as_you_go(url: str) -> Iterator[sqlalchemy.Connection]:
    with sqlalchemy_engine(url) as engine, engine.connect() as conn:
        yield conn
        conn.commit()


@contextmanager
def _alchemy_immediate(url: str) -> Iterator[sqlalchemy.Connection]:
    """The recipe of SQLAlchemy's manual: the driver does nothing by itself, the `begin` event says BEGIN."""
    with sqlalchemy_engine(url) as engine:

        @sqlalchemy.event.listens_for(engine, "connect")
        def _quiet(raw: Any, _: Any) -> None:
            raw.isolation_level = None

        @sqlalchemy.event.listens_for(engine, "begin")
        def _begin(conn: sqlalchemy.Connection) -> None:
            conn.exec_driver_sql("BEGIN IMMEDIATE")

        with engine.connect() as conn:
            yield conn
            conn.commit()


@contextmanager
def _alchemy_session(url: str) -> Iterator[Session]:
    with sqlalchemy_engine(url) as engine, Session(engine) as session, session.begin():
        yield session


@contextmanager
def _alchemy_subclass(url: str) -> Iterator[Session]:
    with sqlalchemy_engine(url) as engine, OwnSession(engine) as session:
        yield session
        session.commit()


@contextmanager
def _psycopg_savepoint(conn: "psycopg.Connection[Any]") -> Iterator[None]:
    with conn.transaction():
        yield


@contextmanager
def _nested(conn: Any) -> Iterator[None]:
    with conn.begin_nested():
        yield


CALLERS = [
    Caller("sqlite3", "sqlite", _sqlite_default, _sql_savepoint),
    Caller("sqlite3 with BEGIN", "sqlite", _sqlite_begin, _sql_savepoint),
    Caller("sqlite3 of a subclass", "sqlite", _sqlite_subclass, _sql_savepoint),
    Caller("psycopg", "postgres", _psycopg_default, _psycopg_savepoint),
    Caller("psycopg in a block", "postgres", _psycopg_block, _psycopg_savepoint),
    Caller("psycopg in a pipeline", "postgres", _psycopg_pipeline, _psycopg_savepoint),
    Caller("psycopg of a subclass", "postgres", _psycopg_subclass, _psycopg_savepoint),
    Caller("SQLAlchemy with BEGIN IMMEDIATE", "sqlite", _alchemy_immediate, _nested),
    *[
        Caller(f"SQLAlchemy {name} on {engine}", engine, transaction, _nested)
        for engine in ("sqlite", "postgres")
        for name, transaction in {
            "connection": _alchemy_connection,
            "as you go": _alchemy_as_you_go,
            "session": _alchemy_session,
            "session of a subclass": _alchemy_subclass,
        }.items()
    ],
]
if sys.version_info >= (3, 12):
    CALLERS += [
        Caller("sqlite3 without autocommit", "sqlite", _sqlite_modern, _sql_savepoint),
        Caller("sqlite3 in autocommit with BEGIN", "sqlite", _sqlite_modern_begin, _sql_savepoint),
    ]


@contextmanager
def _sqlite_autocommit(url: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(_path(url), isolation_level=None)) as conn:
        yield conn


@contextmanager
def _psycopg_autocommit(url: str) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(url, autocommit=True) as conn:
        yield conn


@contextmanager
def _alchemy_autocommit(url: str) -> Iterator[sqlalchemy.Connection]:
    with sqlalchemy_engine(url, isolation_level="AUTOCOMMIT") as engine, engine.connect() as conn:
        yield conn


@contextmanager
def _alchemy_session_autocommit(url: str) -> Iterator[Session]:
    with sqlalchemy_engine(url, isolation_level="AUTOCOMMIT") as engine, Session(engine) as session:
        yield session


AUTOCOMMITTERS = [
    Autocommitter("sqlite3", "sqlite", _sqlite_autocommit, "BEGIN IMMEDIATE"),
    Autocommitter("psycopg", "postgres", _psycopg_autocommit, r"with conn\.transaction\(\)"),
    *[
        Autocommitter(f"SQLAlchemy {name} on {engine}", engine, connection, "AUTOCOMMIT")
        for engine in ("sqlite", "postgres")
        for name, connection in {"connection": _alchemy_autocommit, "session": _alchemy_session_autocommit}.items()
    ],
]
