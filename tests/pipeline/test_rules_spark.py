"""Constraints that others set on tables of a pipeline, through the command: rows that break them are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.pipeline.columns import COLUMNS, arrow_schema
from penstock.pipeline.lake import modes
from penstock.pipeline.lake.broken_rows import rules_in
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_continue import places
from tests.pipeline.test_typed_lake import PLACED, an_event, rows
from tests.pipeline.test_typed_lake import words as typed_words

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
EARLY = "offset < 15"


def constrain(table: Path, **checks: str) -> None:
    DeltaTable(table).alter.add_constraint(checks)


def late_types(store: LogStore) -> list[str]:
    return [
        str(record.type)
        for (_, offset), record in store.records().items()
        if offset >= 15 and record.type != "order.placed"
    ]


def reasons(to: Path) -> set[str]:
    return {row["reason"].replace(f"{to}/", "") for row in rows(to, "rejected")}


def test_rows_that_break_a_constraint_of_a_raw_lake_go_to_rejected_with_the_reason(
    sqlite_store: LogStore, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, calls = tmp_path / "lake", list[Any]()
    where = ["--url", sqlite_store.url, "--topic", TOPIC]
    words = ["pipeline", "lake", *where, "--to", str(to), "--once"]
    DeltaTable.create(to / "a~2Fb", arrow_schema(tuple(COLUMNS)))
    constrain(to / "a~2Fb", early=EARLY)
    DeltaTable.create(to / "order.paid", arrow_schema(tuple(COLUMNS)).append(pa.field("note", pa.string())))
    constrain(to / "order.paid", unseen=f"note IS NULL AND {EARLY}")

    def seen_late(*at: Any, **how: Any) -> Any:
        """As if the constraints had come just after the query was planned."""
        calls.append(at)
        return rules_in(*at, **how) if calls[1:] else {}

    sqlite_store.fill(120)
    monkeypatch.setattr(modes, "rules_in", seen_late)
    done = command(*words)
    assert done.code == 0, done.err
    assert "was given other constraints while the pipeline ran: early CHECK (offset < 15)" in done.err
    assert places(to) == sorted(sqlite_store.records()), "each record is in one place, whatever its table"
    late = late_types(sqlite_store)
    assert sorted(row["type"] for row in rows(to, "rejected")) == sorted(late)
    assert {*late} == {"order.paid", "a/b"}
    assert reasons(to) == {
        f"it breaks the constraint early of table a~2Fb: {EARLY}",
        f"it breaks the constraint unseen of table order.paid: note IS NULL AND {EARLY}",
    }
    assert {row["note"] for row in rows(to, "order.paid")} == {None}
    counted = command("reconcile", *where, "--lake", str(to))
    assert (counted.code, counted.out) == (0, "reconciled: logged=120 table=120\n"), counted.err

    constrain(to / "order.placed", only_there="arrow_typeof(offset) = 'Int64'")
    sqlite_store.fill(1)
    done = command(*words)
    assert done.code == 1
    assert "order.placed has a constraint only_there (arrow_typeof(offset) = 'Int64') that Spark" in done.err
    assert len(places(to)) == 120


def test_typed_rows_are_held_to_constraints_on_their_fields_and_to_columns_that_are_never_null(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    """In a table that a data team made before the first record came."""
    to = tmp_path / "lake"
    columns = [pa.field("order_id", pa.string(), nullable=False), ("total", pa.decimal128(38, 18))]
    DeltaTable.create(to / "order.placed", pa.schema([*columns, ("note", pa.string())]))
    constrain(to / "order.placed", paid="total > 0", named="order_id <> '' AND note IS NULL")
    odd = [PLACED | {"total": "-1"}, PLACED | {"order_id": ""}, PLACED | {"order_id": 5}, None]
    events = [an_event("order.placed", each, key=f"k{n}") for n, each in enumerate([*odd, PLACED])]
    sqlite_store.outbox.log.append(TOPIC, events)
    done = command(*typed_words(sqlite_store, to, "outbox"))
    assert done.code == 0, done.err
    assert [row["key"] for row in rows(to, "order.placed")] == [b"k4"]
    found = {row["key"]: (row["reason"].partition(" of table ")[0], row["value"]) for row in rows(to, "rejected")}
    assert found == {
        b"k0": ("it breaks the constraint paid", events[0].data),
        b"k1": ("it breaks the constraint named", events[1].data),
        b"k2": ("order_id: must be a text, and is a number", events[2].data),
        b"k3": ("it breaks the constraint named", None),  # both; the first by name is told
    }
    counted = command("reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(to))
    assert counted.code == 0, counted.out + counted.err


def test_an_upsert_holds_rows_and_deletions_to_the_constraints_of_its_table(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    log, to = sqlite_store.outbox.log, tmp_path / "lake"
    words = [*typed_words(sqlite_store, to, "outbox"), "--mode", "upsert"]
    log.append(TOPIC, [an_event("order.placed", PLACED, key=f"k{n}") for n in range(3)])
    assert command(*words).code == 0
    constrain(to / "order.placed", paid="total > 0", stays="NOT deleted")
    log.append(TOPIC, [an_event("order.placed", PLACED | {"total": "-1"}, key="k0")])
    log.append(TOPIC, [an_event("order.placed", None, key="k1")])
    log.append(TOPIC, [an_event("order.placed", PLACED | {"total": "7"}, key="k2")])
    done = command(*words)
    assert done.code == 0, done.err
    assert {row["key"]: int(row["total"]) for row in rows(to, "order.placed")} == {b"k0": 12, b"k1": 12, b"k2": 7}
    assert {row["key"] for row in rows(to, "rejected")} == {b"k0", b"k1"}


def test_the_one_table_of_a_function_is_refused_rows_that_break_its_constraints(
    sqlite_store: LogStore, command: Command, module: str, tmp_path: Path
) -> None:
    sqlite_store.fill(60)
    types = [("type", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
    DeltaTable.create(tmp_path / "plain", pa.schema(types))
    constrain(tmp_path / "plain", early="offset < 5")
    done = command("pipeline", "run", f"{module}:plain", "--url", sqlite_store.url, "--once")
    assert done.code == 1
    assert f"it breaks the constraint early of table {tmp_path / 'plain'}: offset < 5, so nothing" in done.err
    assert DeltaTable(tmp_path / "plain").file_uris() == []
