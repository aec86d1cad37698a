"""A table as several engines read it: all of them must say the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.routing import BUCKET, DELETED

Rows = list[tuple[Any, ...]]


def read_back(path: Path, columns: Sequence[str], where: str = "true") -> Rows:
    """Return some columns of a table, sorted, as deltalake says, and DuckDB and Polars after it."""
    table = DeltaTable(str(path))
    arrow = table.to_pyarrow_table()
    chosen = ", ".join(f'"{name}"' for name in columns)
    with duckdb.connect() as conn:
        conn.execute("SET TimeZone = 'UTC'")
        conn.register("rows", arrow)
        by_arrow = conn.execute(f"SELECT {chosen} FROM rows WHERE {where}").fetchall()
        # The files themselves, without deltalake between: what the log of the table points to.
        files = [str(path / file) for file in table.file_uris()]
        by_files = conn.execute(
            f"SELECT {chosen} FROM read_parquet($files, union_by_name => true) WHERE {where}", {"files": files}
        ).fetchall()
    frame = polars.read_delta(str(path))
    by_polars = frame.sql(f"SELECT {chosen} FROM self WHERE {where}").rows()
    found = _sorted(by_arrow)
    assert _sorted(by_files) == found
    assert _sorted(by_polars) == found
    if where == "true":
        assert _sorted(tuple(row[name] for name in columns) for row in arrow.to_pylist()) == found
    return found


def live_rows(path: Any) -> pa.Table:
    """Return the latest row of each key that is not deleted."""
    table = table_at(path)
    schema = table.arrow_schema()
    rows = pa.Table.from_batches(table.batches(schema.names), schema)
    return rows.filter(pc.invert(rows.column(DELETED))).drop([DELETED, BUCKET])


def _sorted(rows: Any) -> Rows:
    return sorted((tuple(row) for row in rows), key=repr)
