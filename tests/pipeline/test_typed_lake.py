"""`penstock pipeline lake --types`: fields as columns, what does not fit in `rejected`, columns that grow."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock import Record
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore
from tests.suites.records import a_record

pytestmark = pytest.mark.slow
PLACED = {
    "order_id": "ö-1",
    "total": "12.50",
    "at": "2026-01-31T23:59:59.999999+05:30",
    "customer": {"name": "Zoë 😀"},
    "timestamp": 5,
}


def words(store: LogStore, to: Path, types: str) -> list[str]:
    where = ["--url", store.url, "--topic", TOPIC, "--to", str(to)]
    return ["pipeline", "lake", *where, "--once", "--types", f"tests.pipeline.typed_shop:{types}"]


def rows(to: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(to / table)).to_pyarrow_table().to_pylist()
    return found


def an_event(type: str, value: Any, **others: Any) -> Record:
    data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    return a_record(type=type, data=data, **{"key": "k"} | others)


def test_fields_are_columns_and_what_does_not_fit_is_rejected_with_the_reason(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    log, to = sqlite_store.outbox.log, tmp_path / "lake"
    records = [
        an_event("order.placed", PLACED),
        an_event("order.created", PLACED | {"order_id": "by alias"}),
        an_event("order.made", PLACED),  # its upgrade is Python
        an_event("order.placed", None),
        an_event("order.placed", PLACED | {"total": "1e-30"}),
        an_event("order.placed", b"\xff"),
        an_event("order.placed", {name: each for name, each in PLACED.items() if name != "at"}),
        an_event("order.paid", {"order_id": "ö-1", "amount": 3}),
        an_event("order.shipped", {"orderId": "ö-1", "day": "2024-02-29"}),
        an_event("order.shipped", {"orderId": "ö-1", "day": "2023-02-29"}),
        an_event("order.scanned", b"\x00\x01"),
        an_event("unheard.of", {"a": 1}),
        an_event("rejected", {"a": 1}),
        an_event("", {"a": 1}),  # as programs of Kafka send it
    ]
    log.append(TOPIC, records)
    done = command(*words(sqlite_store, to, "outbox"))
    assert done.code == 0, done.err

    placed = sorted(rows(to, "order.placed"), key=lambda row: row["offset"])
    assert [(row["order_id"], row["deleted"]) for row in placed] == [("ö-1", False), ("by alias", False), (None, True)]
    assert {name: placed[0][name] for name in ("total", "at", "customer", "event_timestamp", "type")} == {
        "total": Decimal("12.5"),
        "at": dt.datetime(2026, 1, 31, 18, 29, 59, 999999, dt.UTC),
        "customer": {"name": "Zoë 😀"},
        "event_timestamp": 5,
        "type": "order.placed",
    }
    assert "value" not in placed[0]
    assert [row["amount"] for row in rows(to, "order.paid")] == [3.0]
    assert [row["day"] for row in rows(to, "order.shipped")] == [dt.date(2024, 2, 29)]
    assert [row["value"] for row in rows(to, "order.scanned")] == [b"\x00\x01"]
    assert [json.loads(row["value"])["order_id"] for row in rows(to, "order.made")] == ["ö-1"]
    raw = [row for table in ("unheard.of", "~rejected", TOPIC) for row in rows(to, table)]
    assert [row["value"] for row in raw] == [b'{"a": 1}'] * 3

    rejected = sorted(rows(to, "rejected"), key=lambda row: row["offset"])
    assert [row["reason"] for row in rejected] == [
        "total: does not fit a decimal of 38 digits, 18 of them after the point",
        "not JSON, or an object in it has a key twice",
        "at: missing",
        "day: must be a date as 2026-01-31, and is another text",
    ]
    assert [row["value"] for row in rejected] == [records[n].data for n in (4, 5, 6, 9)]

    counted = command("reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(to))
    assert counted.code == 0, counted.out + counted.err


def test_new_fields_get_columns_without_a_stop_and_a_changed_type_is_refused(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    log, to = sqlite_store.outbox.log, tmp_path / "lake"
    log.append(TOPIC, [an_event("order.placed", PLACED)])
    assert command(*words(sqlite_store, to, "outbox")).code == 0
    more = {"note": "new", "lines": ["a"], "customer": {"name": "n", "vip": True}, "order_id": "later"}
    log.append(TOPIC, [an_event("order.placed", PLACED | more), an_event("order.placed", PLACED)])
    done = command(*words(sqlite_store, to, "later"))
    assert done.code == 0, done.err
    found = sorted(rows(to, "order.placed"), key=lambda row: row["offset"])
    wanted = [("note", [None, "new", None]), ("lines", [None, ["a"], []]), ("event_timestamp", [5, None, None])]
    assert [(name, [row[name] for row in found]) for name, _ in wanted] == wanted
    assert [row["customer"]["vip"] for row in found] == [None, True, False]
    assert "table order.placed has event_timestamp, which " in done.err

    log.append(TOPIC, [an_event("order.placed", {"order_id": 5})])
    refused = command(*words(sqlite_store, to, "changed"))
    assert refused.code == 1
    assert "order_id" in refused.err
    assert f"reset {to} --rebuild --table order.placed" in refused.err
    assert len(rows(to, "order.placed")) == 3
    again = command(*words(sqlite_store, to, "later"))
    assert again.code == 0, again.err  # it goes on, with the class it had
    assert [row["reason"] for row in rows(to, "rejected")] == ["order_id: must be a text, and is a number"]
    older = command(*words(sqlite_store, to, "outbox"))
    assert "table order.placed has note, lines, which " in older.err
    assert "does not: NULL in new rows. If newer code than this has filled the table, run that" in older.err


def test_a_record_without_a_key_keeps_its_value_in_rejected_whatever_its_type(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    to, scanned = tmp_path / "lake", b"\x00\x01"
    kinds = ("order.placed", "order.created", "order.made", "rejected", "unheard.of")
    keyless = [an_event(kind, PLACED, key=None) for kind in kinds]
    keyless += [an_event("order.scanned", scanned, key=None), an_event("order.paid", b"{", key=None)]
    sqlite_store.outbox.log.append(TOPIC, [*keyless, an_event("order.placed", PLACED)])
    done = command(*words(sqlite_store, to, "outbox"), "--mode", "upsert")
    assert done.code == 0, done.err
    rejected = sorted((row["type"], row["value"]) for row in rows(to, "rejected"))
    assert rejected == sorted((each.type, each.data) for each in keyless)
    assert [row["order_id"] for row in rows(to, "order.placed")] == ["ö-1"]
    counted = command("reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(to))
    assert counted.code == 0, counted.out + counted.err

    untyped = tmp_path / "untyped"
    done = command(*words(sqlite_store, untyped, "outbox")[:-2], "--mode", "upsert")
    assert done.code == 0, done.err
    assert sorted((row["type"], row["value"]) for row in rows(untyped, "rejected")) == rejected


def test_a_lake_that_was_raw_is_not_typed_in_silence(sqlite_store: LogStore, command: Command, tmp_path: Path) -> None:
    to = tmp_path / "lake"
    sqlite_store.outbox.log.append(TOPIC, [an_event("order.placed", PLACED)])
    assert command(*words(sqlite_store, to, "outbox")[:-2]).code == 0
    sqlite_store.outbox.log.append(TOPIC, [an_event("order.placed", PLACED)])
    done = command(*words(sqlite_store, to, "outbox"))
    assert done.code == 1
    assert "the table has value binary" in done.err
    assert len(rows(to, "order.placed")) == 1
