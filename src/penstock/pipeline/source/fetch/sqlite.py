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
from typing import Any
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

from .contract import WANTED, Fetcher, Request, grouped

_ROWS_TOGETHER = 128  # at a mebibyte each, as large as the largest batch of small rows
_MAPPED_BYTES = 2_147_418_112  # the most that SQLite maps; mapped pages are not copied
_HANDLES = "/dev/fd"


class SqliteDriver:
    """An open connection that only reads."""

    Error: type[Exception]
    _conn: Any

    def __init__(self, path: str) -> None:
        self._path = path
        with self._translated():
            self._connect(f"file:{quote(path)}?mode=ro")

    def _connect(self, address: str) -> None:
        raise NotImplementedError

    def _cursor(self, sql: str, parameters: Sequence[Any]) -> Any:
        cursor = self._conn.cursor()
        cursor.execute(sql, parameters)
        return cursor

    def batches(self, sql: str, parameters: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, a few at a time. Raises StoreLocked, StoreUnreachable."""
        with self._translated(), closing(self._cursor(sql, parameters)) as cursor:
            yield from self._batches(cursor)

    def _batches(self, cursor: Any) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def rows(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises StoreLocked, StoreUnreachable."""
        with self._translated(), closing(self._cursor(sql, parameters)) as cursor:
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def close(self) -> None:
        """Close it."""
        self._conn.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self.Error as exc:
            if "database is locked" in str(exc):
                raise StoreLocked(self._path) from exc
            raise StoreUnreachable(self._path, str(exc).partition("\n")[0]) from exc


class ArrowDriver(SqliteDriver):
    """The Arrow driver: it steps through the rows and gathers a fixed number of them, however large."""

    Error = adbc_driver_manager.Error

    def _connect(self, address: str) -> None:
        # Read-only: a writer that closes as the last one folds the WAL into the file and removes it.
        self._conn = dbapi.connect(address)
        # That takes a moment, in which the file is locked.
        for setting in (f"busy_timeout = {round(BUSY_SECONDS * 1000)}", f"mmap_size = {_MAPPED_BYTES}"):
            with closing(self._cursor(f"PRAGMA {setting}", ())) as cursor:
                cursor.fetchall()

    def _cursor(self, sql: str, parameters: Sequence[Any]) -> Any:
        cursor = self._conn.cursor()
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_ROWS_TOGETHER)})
        cursor.execute(sql, parameters)
        return cursor

    def _batches(self, cursor: Any) -> Iterator[pa.RecordBatch]:
        return (batch for batch in cursor.fetch_record_batch() if batch.num_rows)


class PlainDriver(SqliteDriver):
    """Python's own SQLite, which an outbox in the same process uses."""

    Error = sqlite3.Error

    def _connect(self, address: str) -> None:
        self._conn = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)

    def _batches(self, cursor: Any) -> Iterator[pa.RecordBatch]:
        names = [column[0] for column in cursor.description]
        types: list[pa.DataType | None] = [None] * len(names)
        while rows := cursor.fetchmany(_ROWS_TOGETHER):
            arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
            types = [array.type for array in arrays]  # the types of the first rows apply to all
            yield pa.RecordBatch.from_arrays(arrays, names)


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


_BATCH_ROWS = 16_384  # each batch costs Python and Java something, however small it is
_BATCH_BYTES = 16 << 20


class SqliteFetcher(Fetcher):
    """One file, opened to read; it must exist."""

    def __init__(self, url: str, names: Names) -> None:
        dialect = open_store(url, names).database.dialect
        if not isinstance(dialect, SqliteDialect):
            raise InvalidUrl(url, FORMS)
        self._names = names
        self._driver = open_driver(dialect.path)

    def batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        wanted = [int(request.wants(column)) for column in WANTED]
        asked = request.topic_id, msgspec.json.encode(list(request.pieces)).decode(), *wanted
        found = self._driver.batches(self._sql("fetch"), asked)
        first = next(found)
        assert first.column("partition")[0].as_py() == -1, "the row that tells the types comes first"
        first = first.slice(1)
        kept = chain([first] if first.num_rows else [], found)
        for batches in grouped(kept, _sizes, _BATCH_ROWS, _BATCH_BYTES):
            yield _typed(pa.concat_batches(batches) if len(batches) > 1 else batches[0])

    def starts(self, topic_id: int) -> dict[int, int]:
        return dict(self._driver.rows(self._sql("starts"), (topic_id,)))

    def close(self) -> None:
        self._driver.close()

    def _sql(self, name: str) -> str:
        return statement("log", "sqlite", f"arrow_{name}", self._names)


def _sizes(batch: pa.RecordBatch) -> tuple[int, int]:
    return batch.num_rows, batch.get_total_buffer_size()  # `nbytes` takes 18 us


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    types = batch.column("type")
    untyped = pc.equal(types, "")
    if not pc.any(untyped).as_py():
        return batch
    return batch.set_column(
        batch.schema.get_field_index("type"), "type", pc.if_else(untyped, pa.scalar(None, pa.string()), types)
    )
