"""Fetching from SQLite as Arrow: memory is that of a few rows of the driver and one batch.

A driver gathers a fixed number of rows, however large they are. So it gathers few, and these are joined into
batches that are bounded in rows and in bytes.
"""

from collections.abc import Iterator

import msgspec

from penstock.errors import InvalidUrl, MissingExtra
from penstock.log.sql.address import FORMS
from penstock.log.sql.naming import Names
from penstock.log.sql.sqlite.dialect import SqliteDialect
from penstock.log.sql.statements import statement
from penstock.log.store import open_store

from ..offsets import Piece, before_starts
from .contract import WANTED, Request
from .sqlite_drivers import open_driver

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_BATCH_ROWS = 16_384  # each batch costs Python and Java something, however small it is
_BATCH_BYTES = 16 << 20


class SqliteFetcher:
    """One file, opened to read; it must be there."""

    def __init__(self, url: str, names: Names) -> None:
        dialect = open_store(url, names).database.dialect
        if not isinstance(dialect, SqliteDialect):
            raise InvalidUrl(url, FORMS)
        self._names = names
        self._driver = open_driver(dialect.path)

    def batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the records asked for."""
        wanted = [int(request.wants(column)) for column in WANTED]
        asked = request.topic_id, _json(request), *wanted
        for batches in _grouped(self._driver.batches(self._sql("fetch"), asked)):
            yield _with_nulls(pa.concat_batches(batches) if len(batches) > 1 else batches[0])

    def lost(self, request: Request) -> list[Piece]:
        """Return what of a request lies before the start of its partition."""
        return before_starts(request.pieces, self._starts(request.topic_id))

    def _starts(self, topic_id: int) -> dict[int, int]:
        return dict(self._driver.rows(self._sql("starts"), (topic_id,)))

    def close(self) -> None:
        """Close it."""
        self._driver.close()

    def _sql(self, name: str) -> str:
        return statement("log", "sqlite", f"arrow_{name}", self._names)


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches in groups that have rows or bytes enough."""
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
