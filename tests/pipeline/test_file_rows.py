"""Files of other writers are read in the types that tables have, and written anew in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.pipeline.lake.data_files import file_rows, file_schema

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
PLAIN = pa.schema(
    [
        pa.field("topic", pa.string(), metadata={"PARQUET:field_id": "7"}),
        pa.field("key", pa.binary()),
        pa.field("headers", pa.list_(pa.field("element", HEADER))),
        pa.field("notes", pa.map_(pa.string(), pa.string())),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)
ROWS: list[dict[str, Any]] = [
    {"topic": "orders", "key": b"k", "headers": [{"key": "h", "value": b"v"}], "notes": [("a", "b")], "offset": 3},
    {"topic": None, "key": None, "headers": None, "notes": None, "offset": 4},
]


def large() -> pa.Schema:
    header = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
    lists = pa.large_list(pa.field("element", header))
    of = [pa.large_string(), pa.large_binary(), lists, pa.map_(pa.string(), pa.large_string()), pa.int64()]
    return pa.schema([each.with_type(kind) for each, kind in zip(PLAIN, of, strict=True)])


@pytest.mark.parametrize("schema", [PLAIN, large()], ids=["ours", "large"])
def test_rows_have_the_types_of_tables_whoever_wrote_them(tmp_path: Path, schema: pa.Schema) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS, schema), file)
    with pq.ParquetFile(file) as source:
        assert file_schema(source).equals(PLAIN)
        assert file_schema(source).field("topic").metadata == {b"PARQUET:field_id": b"7"}
        (whole,) = file_rows(source)
        (some,) = file_rows(source, ["offset", "topic"])
    assert whole.schema.equals(PLAIN)
    assert whole.to_pylist() == ROWS
    assert (set(some.schema.names), some.column("topic").type) == ({"offset", "topic"}, pa.string())


def test_views_of_delta_rs_are_read_as_what_they_show(tmp_path: Path) -> None:
    """Also inside of lists and structs, as headers are."""
    write_deltalake(tmp_path, pa.Table.from_pylist([*ROWS, ROWS[0] | {"offset": 5}], PLAIN))
    table = DeltaTable(tmp_path)
    table.delete('"offset" = 5')
    with pq.ParquetFile(table.file_uris()[0]) as source:
        assert source.schema_arrow.field("topic").type == pa.string_view()
        assert "view" in str(source.schema_arrow.field("headers").type)
        assert "view" not in str(file_schema(source))
        (rows,) = file_rows(source)
    assert rows.to_pylist() == ROWS
    assert rows.filter(pc.equal(rows.column("topic"), "orders")).to_pylist() == ROWS[:1]
