"""Where typed rows go, without Spark: `rejected` is ours alone, and a name is never a path."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pytest

from penstock import Outbox
from penstock.errors import InvalidOption
from penstock.pipeline.typed.lake import TypedLake
from penstock.pipeline.typed.routing import ByType, Layout


def test_a_registered_type_named_rejected_does_not_take_the_table_of_rejected_rows() -> None:
    outbox = Outbox("memory://")

    @outbox.event("rejected", aliases={"refused": None})
    @dataclass
    class Rejected:
        why: str

    @outbox.event("order.paid")
    @dataclass
    class Paid:
        amount: int

    layout = msgspec.json.decode(TypedLake.of(outbox.event_types).layout(), type=Layout)
    assert list(layout.structs) == ["order.paid"]


def a_batch(*tables: str | None) -> pa.RecordBatch:
    many = len(tables)
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"{}"] * many, pa.binary()),
            "__table": pa.array(tables, pa.string()),
            "reason": pa.nulls(many, pa.string()),
        }
    )


def test_a_type_that_looks_like_a_path_gets_a_folder_of_its_own() -> None:
    batch = a_batch("~/../../elsewhere", "~rejected", "rejected")
    parts = list(ByType(batch.schema, Layout({})).parts(batch))
    assert [part.table for part in parts] == ["~7E~2F..~2F..~2Felsewhere", "~rejected", "rejected"]
    assert all(part.rows.column("value").to_pylist() == [b"{}"] for part in parts)


@pytest.mark.parametrize("name", [None, ""])
def test_a_row_without_a_type_is_refused(name: str | None) -> None:
    batch = a_batch(name)
    with pytest.raises(InvalidOption, match="strings that are not empty"):
        list(ByType(batch.schema, Layout({})).parts(batch))
