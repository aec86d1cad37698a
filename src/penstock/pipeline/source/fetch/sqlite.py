"""Fetching from SQLite as Arrow, by the library that this process may use: memory is one batch.

A driver gathers a fixed number of rows, however large they are. So it gathers few, and these are joined into
batches bounded in rows and in bytes.

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
from itertools import chain
from typing import Any, Protocol
from urllib.parse import quote

import adbc_driver_manager
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from adbc_driver_sqlite import dbapi

from penstock.database.address import FORMS
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import BUSY_SECONDS, SqliteDialect
from penstock.database.statements import statement
from penstock.errors import InvalidUrl, StoreLocked, StoreUnreachable
from penstock.log.store import open_store

from ...offsets import Piece, before_starts
from .contract import WANTED, Request

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


_BATCH_ROWS = 16_384  # each batch costs Python and Java something, however small it is
_BATCH_BYTES = 16 << 20


class SqliteFetcher:
    """One file, opened to read; it must exist."""

    def __init__(self, url: str, names: Names) -> None:
        dialect = open_store(url, names).database.dialect
        if not isinstance(dialect, SqliteDialect):
            raise InvalidUrl(url, FORMS)
        self._names = names
        self._driver = open_driver(dialect.path)

    def batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the requested records."""
        wanted = [int(request.wants(column)) for column in WANTED]
        asked = request.topic_id, _json(request), *wanted
        found = self._driver.batches(self._sql("fetch"), asked)
        first = next(found)
        assert first.column("partition")[0].as_py() == -1, "the row that tells the types comes first"
        first = first.slice(1)
        for batches in _grouped(chain([first] if first.num_rows else [], found)):
            yield _typed(pa.concat_batches(batches) if len(batches) > 1 else batches[0])

    def lost(self, request: Request) -> list[Piece]:
        """Return the parts of a request that lie before the starts of their partitions."""
        return before_starts(request.pieces, self._starts(request.topic_id))

    def _starts(self, topic_id: int) -> dict[int, int]:
        return dict(self._driver.rows(self._sql("starts"), (topic_id,)))

    def close(self) -> None:
        """Close it."""
        self._driver.close()

    def _sql(self, name: str) -> str:
        return statement("log", "sqlite", f"arrow_{name}", self._names)


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches in groups with enough rows or bytes."""
    group, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.get_total_buffer_size()  # `nbytes` takes 18 us
        if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


def _json(request: Request) -> str:
    return msgspec.json.encode(list(request.pieces)).decode()


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with NULL where a record has no type."""
    types = batch.column("type")
    untyped = pc.equal(types, "")
    if not pc.any(untyped).as_py():
        return batch
    return batch.set_column(
        batch.schema.get_field_index("type"), "type", pc.if_else(untyped, pa.scalar(None, pa.string()), types)
    )
