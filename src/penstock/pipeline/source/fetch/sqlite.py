"""Fetching from SQLite as Arrow: memory is a few rows in the driver and one batch.

A driver gathers a fixed number of rows, however large they are. So it gathers few, and these are joined into
batches bounded in rows and in bytes.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.database.address import FORMS
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import SqliteDialect
from penstock.database.statements import statement
from penstock.errors import InvalidUrl
from penstock.log.store import open_store

from ...offsets import Piece, before_starts
from .contract import WANTED, Request
from .sqlite_drivers import open_driver

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
