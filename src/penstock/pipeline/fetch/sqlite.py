"""Fetching from SQLite with its Arrow driver: memory is that of a few rows of the driver and one batch.

The driver steps through the rows and gathers a fixed number of them, however large they are. So it gathers
few, and these are joined into batches that are bounded in rows and in bytes.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

import msgspec

from penstock.errors import InvalidUrl, MissingExtra, StoreLocked, StoreUnreachable
from penstock.log.sql.address import FORMS
from penstock.log.sql.naming import Names
from penstock.log.sql.sqlite.dialect import BUSY_SECONDS, SqliteDialect
from penstock.log.sql.statements import statement
from penstock.log.store import open_store

from .contract import WANTED, Request

try:
    import adbc_driver_manager
    import pyarrow as pa
    import pyarrow.compute as pc
    from adbc_driver_sqlite import dbapi
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_BATCH_ROWS = 4096
_DRIVER_ROWS = 128  # at a mebibyte each, as much as a batch of small ones may have
_BATCH_BYTES = 16 << 20


class SqliteFetcher:
    """One file, opened to read; it must be there."""

    def __init__(self, url: str, names: Names) -> None:
        dialect = open_store(url, names).database.dialect
        if not isinstance(dialect, SqliteDialect):
            raise InvalidUrl(url, FORMS)
        self._names, self._path = names, dialect.path
        with self._translated():
            # Read-only: a writer that closes as the last one folds the WAL into the file and removes it.
            self._conn = dbapi.connect(f"file:{quote(dialect.path)}?mode=ro")
            with closing(self._conn.cursor()) as cursor:  # which is a moment in which the file is locked
                cursor.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")
                cursor.fetchall()

    def batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the records asked for."""
        for batches in _grouped(self._steps(request)):
            yield _with_nulls(pa.concat_batches(batches) if len(batches) > 1 else batches[0])

    def starts(self, topic_id: int) -> dict[int, int]:
        """Return the first offset kept of each partition."""
        with self._translated(), closing(self._conn.cursor()) as cursor:
            cursor.execute(self._sql("starts"), (topic_id,))
            return dict(cursor.fetchall())

    def close(self) -> None:
        """Close it."""
        self._conn.close()

    def _sql(self, name: str) -> str:
        return statement("log", "sqlite", f"arrow_{name}", self._names)

    def _steps(self, request: Request) -> Iterator[pa.RecordBatch]:
        wanted = [int(request.wants(column)) for column in WANTED]
        with self._translated(), closing(self._conn.cursor()) as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_DRIVER_ROWS)})
            cursor.execute(self._sql("fetch"), (request.topic_id, _json(request), *wanted))
            yield from (batch for batch in cursor.fetch_record_batch() if batch.num_rows)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except adbc_driver_manager.Error as exc:
            if "database is locked" in str(exc):
                raise StoreLocked(self._path) from exc
            raise StoreUnreachable(self._path, _first_line(exc)) from exc


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches in groups that have rows or bytes enough."""
    group, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


def _json(request: Request) -> str:
    return msgspec.json.encode(list(request.pieces)).decode()


def _with_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with NULL where the statement says so in a column of its own."""
    columns = {name: batch.column(name) for name in ("partition", "offset", "type", "timestamp_ms")}
    untyped = pc.equal(columns["type"], "")
    if pc.any(untyped).as_py():
        columns["type"] = pc.if_else(untyped, pa.scalar(None, pa.string()), columns["type"])
    for name in WANTED:
        absent = pc.equal(batch.column(f"{name}_null"), 1)
        some = pc.any(absent).as_py()
        columns[name] = (
            pc.if_else(absent, pa.scalar(None, pa.binary()), batch.column(name))
            if some
            else batch.column(name)
        )
    return pa.RecordBatch.from_pydict(columns)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
