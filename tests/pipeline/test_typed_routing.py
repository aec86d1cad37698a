"""Where typed rows go, without Spark: `rejected` is ours alone, and a name is never a path."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from penstock import Outbox
from penstock.errors import InvalidOption
from penstock.pipeline.lake.routing import ByType, Layout
from penstock.pipeline.lake.typed.lake import TypedLake


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

    assert [kind.name for kind, _ in TypedLake.of(outbox.event_types).types] == ["order.paid"]


def test_types_share_columns_and_each_table_has_its_own_names_for_them() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(["a", "b", "c"]),
            "value": pa.array([None, None, None], pa.binary()),
            "__table": pa.array(["order.placed", "order.paid", "order.paid"]),
            "reason": pa.nulls(3, pa.string()),
            "__tombstone": pa.array([False, False, True]),
            "__field_0": pa.array(["blue", "card", None]),
            "__field_1": pa.array([None, 7, None], pa.int64()),
        }
    )
    layout = Layout({"order.placed": {"colour": "__field_0"}, "order.paid": {"amount": "__field_1", "by": "__field_0"}})
    parts = {part.table: part.rows.to_pylist() for part in ByType(batch.schema, layout).parts(batch)}
    assert parts == {
        "order.placed": [{"key": "a", "deleted": False, "colour": "blue"}],
        "order.paid": [
            {"key": "b", "deleted": False, "amount": 7, "by": "card"},
            {"key": "c", "deleted": True, "amount": None, "by": None},
        ],
    }


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
