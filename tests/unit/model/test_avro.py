"""N-29: events in Avro, by the real library."""

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pydantic
import pytest
from fastavro.schema import fingerprint

from penstock import Avro, Outbox, Record
from penstock.errors import InvalidValue, MissingExtra, NotAnEventClass, Undecodable
from penstock.model.event_types import EventTypes
from penstock.operate.dead import dead_letters

LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
}
PLACED: dict[str, Any] = {
    "type": "record",
    "name": "Placed",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "photo", "type": ["null", "bytes"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": LINE}, "default": []},
    ],
}
OLD = PLACED | {"fields": PLACED["fields"][:3]}
AT = datetime(2026, 11, 16, 12, tzinfo=UTC)


@dataclass
class Line:
    sku: str
    count: int


@dataclass
class Placed:
    order_id: str
    at: datetime
    total: Decimal
    photo: bytes | None
    lines: list[Line]


class PlacedStruct(msgspec.Struct):
    order_id: str
    at: datetime
    total: Decimal
    photo: bytes | None
    lines: list[Line]


class PlacedModel(pydantic.BaseModel):
    order_id: str
    at: datetime
    total: Decimal
    photo: bytes | None
    lines: list[Line]


CLASSES: list[Any] = [Placed, PlacedStruct, PlacedModel]


def an_event(cls: Any = Placed) -> Any:
    return cls(order_id="o-1", at=AT, total=Decimal("42.50"), photo=b"\x00\xff", lines=[Line("a", 1), Line("b", 2)])


def undecodable(codec: Avro, data: bytes) -> str:
    kind = EventTypes().register(Placed, "order.placed", codec=codec)
    with pytest.raises(Undecodable) as caught:
        kind.decode(data)
    return str(caught.value)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("schema", [PLACED, json.dumps(PLACED)], ids=["dict", "text"])
def test_decode_undoes_encode(cls: Any, schema: Any) -> None:
    codec = Avro(cls, schema)
    assert codec.decode(codec.encode(an_event(cls))) == an_event(cls)


def test_the_bytes_are_the_single_object_encoding() -> None:
    data = Avro(Placed, PLACED).encode(an_event())
    canonical = fastavro.schema.to_parsing_canonical_form(PLACED)
    assert data[:2] == b"\xc3\x01"
    assert data[2:10].hex() == fingerprint(canonical, "CRC-64-AVRO")


def test_the_fingerprint_is_that_of_the_specification() -> None:
    """The CRC of the schema "int" is 7275d51a3f395c8f; on the wire its lowest byte is first."""

    @dataclass
    class Number: ...

    codec = Avro(Number, "int")
    assert codec._head.hex() == "c3018f5c393f1ad57572"


def test_what_an_older_schema_wrote_is_read_by_the_present_one() -> None:
    @dataclass
    class OldPlaced:
        order_id: str
        at: datetime
        total: Decimal

    old = Avro(OldPlaced, OLD).encode(OldPlaced("o-1", AT, Decimal("1.00")))
    assert Avro(Placed, PLACED, older=[OLD]).decode(old) == Placed("o-1", AT, Decimal("1.00"), None, [])
    assert "which is unknown here: add it to older=" in undecodable(Avro(Placed, PLACED), old)


def test_what_is_not_avro_is_undecodable() -> None:
    codec = Avro(Placed, PLACED)
    data = codec.encode(an_event())
    for bad in (b"", b"{}", data[:9], b'{"order_id": "o-1"}'):
        assert "not Avro's single-object encoding" in undecodable(codec, bad)
    assert "bytes after the value" in undecodable(codec, data + b"x")
    for cut in range(10, len(data)):
        undecodable(codec, data[:cut])


def test_a_value_outside_the_schema_is_refused() -> None:
    kind = EventTypes().register(Placed, "order.placed", codec=Avro(Placed, PLACED))
    with pytest.raises(InvalidValue):
        kind.encode(Placed(5, AT, Decimal("1.00"), None, []))  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"type": "record"}, "{", "nothing", 5])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(NotAnEventClass, match="its Avro schema cannot be read"):
        Avro(Placed, schema)
    with pytest.raises(NotAnEventClass, match="its Avro schema cannot be read"):
        Avro(Placed, PLACED, older=[schema])


def test_another_class_is_refused() -> None:
    with pytest.raises(NotAnEventClass, match="a dataclass, a msgspec Struct or a pydantic v2 model"):
        Avro(dict, PLACED)


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingExtra, match=r"pip install 'penstock-outbox\[avro\]'"):
        Avro(Placed, PLACED)


def test_events_go_through_an_outbox() -> None:
    """What cannot be decoded is a dead letter with its bytes, and its key goes on."""
    outbox, got = Outbox("memory://avro"), list[Any]()
    outbox.migrate()
    outbox.event("order.placed", key="order_id", codec=Avro(Placed, PLACED))(Placed)

    @outbox.handler(group="g")
    def see(event: Placed, record: Record) -> None:
        got.append((event, record.key, record.headers))

    with outbox.transaction() as conn:
        outbox.publish(conn, "order.placed", b"not avro", key="o-1")
        outbox.publish(conn, an_event())
    outbox.drain()
    assert got == [(an_event(), "o-1", {"content-type": "application/avro"})]
    (letter,) = dead_letters(outbox.store).items
    assert "single-object" in letter.reason
    outbox.close()
