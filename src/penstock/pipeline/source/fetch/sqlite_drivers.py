"""The two SQLite libraries that a fetcher can read with: that of the Arrow driver, and Python's own.

The Arrow driver is the fast one, and includes its own SQLite. POSIX locks belong to a process: when one
library closes a file, the locks that another one in the same process holds on it are gone. Another process
that opens and closes the file then takes it for unused and removes the write-ahead log, and later writes of
the first process are lost. So a process that already has the file open, such as a Spark worker in which a
user's function keeps an outbox, reads it with the library that has it open.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Protocol
from urllib.parse import quote

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_sqlite import dbapi

from penstock.database.sqlite.dialect import BUSY_SECONDS
from penstock.errors import StoreLocked, StoreUnreachable

_ROWS_TOGETHER = 128  # at a mebibyte each, as large as the largest batch of small rows
_MAPPED_BYTES = 2_147_418_112  # the most that SQLite maps; mapped pages are not copied
_HANDLES = "/dev/fd"


class SqliteDriver(Protocol):
    """An open connection that only reads."""

    def batches(self, sql: str, parameters: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, a few at a time. Raises StoreLocked, StoreUnreachable."""

    def rows(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises StoreLocked, StoreUnreachable."""

    def close(self) -> None:
        """Close it."""


def open_driver(path: str) -> SqliteDriver:
    """Open a file to read, with the library that this process may use for it."""
    return PlainDriver(path) if is_open_here(path) else ArrowDriver(path)


def is_open_here(path: str) -> bool:
    """Return whether this process has a file open."""
    with suppress(FileNotFoundError):
        wanted = os.stat(path)
        for handle in os.listdir(_HANDLES):
            with suppress(OSError):  # the handle of the listing itself
                if os.path.samestat(os.fstat(int(handle)), wanted):
                    return True
    return False


class ArrowDriver:
    """The Arrow driver: it steps through the rows and gathers a fixed number of them, however large."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._translated():
            # Read-only: a writer that closes as the last one folds the WAL into the file and removes it.
            self._conn = dbapi.connect(_address(path))
            # That takes a moment, in which the file is locked.
            for setting in (f"busy_timeout = {round(BUSY_SECONDS * 1000)}", f"mmap_size = {_MAPPED_BYTES}"):
                with closing(self._conn.cursor()) as cursor:
                    cursor.execute(f"PRAGMA {setting}")
                    cursor.fetchall()

    def batches(self, sql: str, parameters: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, a few at a time."""
        with self._translated(), closing(self._conn.cursor()) as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_ROWS_TOGETHER)})
            cursor.execute(sql, parameters)
            yield from (batch for batch in cursor.fetch_record_batch() if batch.num_rows)

    def rows(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._translated(), closing(self._conn.cursor()) as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    def close(self) -> None:
        """Close it."""
        self._conn.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except adbc_driver_manager.Error as exc:
            raise _error(self._path, exc) from exc


class PlainDriver:
    """Python's own SQLite, which an outbox in the same process uses."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._translated():
            self._conn = sqlite3.connect(_address(path), uri=True, timeout=BUSY_SECONDS)

    def batches(self, sql: str, parameters: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, a few at a time."""
        with self._translated(), closing(self._conn.execute(sql, parameters)) as cursor:
            names = [column[0] for column in cursor.description]
            types: list[pa.DataType | None] = [None] * len(names)
            while rows := cursor.fetchmany(_ROWS_TOGETHER):
                columns = zip(*rows, strict=True)
                arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
                types = [array.type for array in arrays]  # the types of the first rows apply to all
                yield pa.RecordBatch.from_arrays(arrays, names)

    def rows(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._translated(), closing(self._conn.execute(sql, parameters)) as cursor:
            return cursor.fetchall()

    def close(self) -> None:
        """Close it."""
        self._conn.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise _error(self._path, exc) from exc


def _address(path: str) -> str:
    return f"file:{quote(path)}?mode=ro"


def _error(path: str, error: Exception) -> Exception:
    if "database is locked" in str(error):
        return StoreLocked(path)
    return StoreUnreachable(path, str(error).partition("\n")[0])
