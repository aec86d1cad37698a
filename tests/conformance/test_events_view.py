"""The view `penstock_events`, on every engine: all events as JSON, whatever bytes they have."""

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Outbox
from penstock.database.drift import differences
from penstock.model.limits import ERASED
from penstock.model.record import Record
from penstock.operate.erase import erase
from penstock.wire.kafka.headers import encode_headers
from tests.conformance.engines import StoreEngine

BAD_HEADERS = [b"\x02", b"\x02\x02", b"\x02\x02a", b"\x02\x02a\x08b", b"\x00\x00", b"\x04\x02a\x01", b"\x80" * 9, b""]


def events(engine: StoreEngine, condition: str = "true") -> list[dict[str, Any]]:
    """Return what a person sees, JSON read."""
    with engine.connect() as conn:
        cursor = conn.execute(f"SELECT * FROM penstock_events WHERE {condition}")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if not engine.url.startswith("postgresql"):  # whose driver has read it
        for row in rows:
            row |= {name: row[name] and json.loads(row[name]) for name in ("value", "headers")}
            row |= {name: row[name] and datetime.fromisoformat(row[name]) for name in ("timestamp", "due")}
    return rows


def put(engine: StoreEngine, *, value: bytes | None = None, headers: bytes | None = None, ms: int = 0) -> None:
    """Put a row straight into the log, in the topic that the first event has made."""
    with engine.connect() as conn:
        mark = "%s" if engine.url.startswith("postgresql") else "?"
        columns = 'topic_id, partition, "offset", id, type, value, headers, timestamp_ms'
        conn.execute(
            f"INSERT INTO penstock_log ({columns}) SELECT max(id), 999, "
            f"(SELECT count(*) FROM penstock_log), 'put', 't', {mark}, {mark}, {mark} FROM penstock_topic",
            (value, headers, ms),
        )
        conn.commit()


def logged(engine: StoreEngine, **options: Any) -> Record:
    """Publish one event, move it into the log, and return its record."""
    with engine.outbox.transaction() as conn:
        engine.outbox.publish(conn, "t", options.pop("value", None), key="k", **options)
    engine.outbox.drain()
    bounds = engine.outbox.log.bounds("events", 209)
    return engine.outbox.log.read("events", 209, bounds[0])[-1]


def test_an_event_is_seen_in_each_state_under_the_same_names(engine: StoreEngine) -> None:
    outbox = engine.outbox
    record = logged(engine, value={"cents": 42}, owner="anna", headers={"action": "INSERT", "user": "ada"})
    with outbox.transaction() as conn:
        outbox.publish(conn, "order.remind", [1], key="k", at=timedelta(hours=1))
        outbox.publish(conn, "order.placed", "é", key="k")
    by_state = {row["state"]: row for row in events(engine)}
    now_ms = engine.clock.now_ms()
    assert by_state["logged"] == {
        "state": "logged",
        "topic": "events",
        "partition": 209,
        "offset": 0,
        "id": record.id,
        "name": f"event:t:0209:{now_ms:013}:{record.id}",
        "type": "t",
        "key": "k",
        "value": {"cents": 42},
        "headers": {"action": "INSERT", "user": "ada"},
        "action": "INSERT",
        "entity": None,
        "timestamp": record.timestamp,
        "due": None,
        "owner": "anna",
        "data": b'{"cents":42}',
    }
    waiting, staged = by_state["scheduled"], by_state["staged"]
    assert (waiting["partition"], waiting["offset"], waiting["value"]) == (None, None, [1])
    assert waiting["due"] == record.timestamp + timedelta(hours=1)
    assert waiting["name"] == f"event:order.remind:-:{now_ms + 3_600_000:013}:{waiting['id']}"
    assert (staged["topic"], staged["value"], staged["headers"], staged["due"]) == ("events", "é", {}, None)
    assert len(by_state) == len(events(engine)) == 3


def test_headers_are_those_of_the_record(engine: StoreEngine) -> None:
    """Repeated names, no value, long ones, any letters; drawn by a fixed seed."""
    draw = random.Random(7)
    texts = ["", "a", "ü", "€uro", "😀", "x" * 63, "y" * 64, "ö" * 5000, 'say "\\" \t', None, "\x7f", "~ "]
    for count in (0, 1, 2, 3, 70):
        pairs = [(f"h{draw.randrange(50)}ü", draw.choice(texts)) for _ in range(count)]
        record = logged(engine, headers=pairs)
        (row,) = events(engine, f"id = '{record.id}'")
        assert row["headers"] == record.headers


@pytest.mark.parametrize("value", [b"\xff", b"\x80\x81", b"a\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf"])
def test_a_header_that_is_no_text_is_shown_as_digits(engine: StoreEngine, value: bytes) -> None:
    logged(engine, headers={"raw": value, "text": "ü"})
    assert events(engine)[0]["headers"] == {"raw": f"\\x{value.hex()}", "text": "ü"}


@pytest.mark.parametrize("headers", BAD_HEADERS, ids=repr)
def test_headers_that_cannot_be_read_are_null(engine: StoreEngine, headers: bytes) -> None:
    logged(engine)
    put(engine, headers=headers)
    assert [row["headers"] for row in events(engine, "partition = 999")] == [None]


@pytest.mark.parametrize("value", [b"", b"{", b"\xff\x00", b"\x00", b"nothing", b"{} {}"], ids=repr)
def test_a_value_that_is_no_json_is_null_and_its_bytes_are_there(engine: StoreEngine, value: bytes) -> None:
    logged(engine)
    put(engine, value=value, headers=encode_headers((("a", b"1"),)))
    (row,) = events(engine, "partition = 999")
    assert (row["value"], row["data"], row["headers"]) == (None, value, {"a": "1"})


def test_a_declared_event_says_what_was_done_to_which_row(engine: StoreEngine) -> None:
    """The action is a column, and so is the entity."""

    @dataclass
    class Order:
        id: int

    orders = engine.outbox.repository(Order, "orders")
    with engine.outbox.transaction() as conn:
        orders.inserted(conn, Order(7))
        orders.deleted(conn, Order(7))
    found = [(row["action"], row["entity"]) for row in events(engine, "state = 'staged'")]
    assert sorted(found) == [("DELETE", "orders:7"), ("INSERT", "orders:7")]


def test_a_place_is_looked_up_by_the_key_of_the_log(engine: StoreEngine) -> None:
    asked = """SELECT * FROM penstock_events WHERE topic = 'events' AND partition = 3 AND "offset" = 5"""
    with engine.connect() as conn:
        if engine.url.startswith("postgresql"):
            conn.execute("SET enable_seqscan = off")
            plan = "\n".join(row[0] for row in conn.execute(f"EXPLAIN {asked}").fetchall())
            assert "penstock_log_pkey" in plan
            assert '(partition = 3) AND ("offset" = 5)' in plan
        else:
            plan = "\n".join(row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {asked}").fetchall())
            assert "(topic_id=? AND partition=? AND offset=?)" in plan


def test_json_is_asked_in_sql(engine: StoreEngine) -> None:
    logged(engine, value={"order": {"id": 7}, "big": "é" * 3000})
    way = "value->'order'->>'id'"
    if not engine.url.startswith("postgresql"):
        way = "json_extract(value, '$.order.id')"
    with engine.connect() as conn:
        (found,) = conn.execute(f"SELECT {way} FROM penstock_events").fetchone()
    assert str(found) == "7"


@pytest.mark.parametrize(
    ("ms", "moment"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1, datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
        (999_999_999_999, datetime(2001, 9, 9, 1, 46, 39, 999000, tzinfo=UTC)),
        (253_402_300_799_999, datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        (253_402_300_800_000, None),
        (-1, None),
        (2**62, None),
    ],
)
def test_a_time_is_exact_or_null(engine: StoreEngine, ms: int, moment: datetime | None) -> None:
    logged(engine)
    put(engine, ms=ms)
    (row,) = events(engine, "partition = 999")
    assert row["timestamp"] == moment
    if ms >= 0:
        assert row["name"] == f"event:t:0999:{ms:013}:put"


def test_an_erased_event_keeps_its_place_and_nothing_else(engine: StoreEngine) -> None:
    logged(engine, value=1, owner="anna", headers={"a": "b"})
    erase(engine.outbox.database, "anna", clock=engine.clock)
    (row,) = events(engine)
    assert (row["type"], row["offset"]) == (ERASED, 0)
    assert [row[name] for name in ("key", "value", "owner", "data")] == [None] * 4
    assert row["headers"] == {}


def test_a_view_that_was_changed_is_drift(url: str) -> None:
    outbox = Outbox(url)
    outbox.migrate()
    outbox.database.run(lambda tx: tx.conn.execute("DROP VIEW penstock_events"))
    outbox.database.run(lambda tx: tx.conn.execute("CREATE VIEW penstock_events AS SELECT id FROM penstock_log"))
    assert differences(outbox.database) == ["view penstock_events differs from that of the migrations"]
    outbox.close()
