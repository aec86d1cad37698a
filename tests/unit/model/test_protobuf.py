"""N-29: events that are Protobuf messages, by the real library."""

import sys
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from penstock import Outbox, Protobuf, Record
from penstock.errors import InvalidValue, MissingExtra, NotAnEventClass, Undecodable
from penstock.model.event_types import EventTypes
from penstock.operate.dead import dead_letters


def a_message_class(syntax: str = "proto3") -> Any:
    """Return a message class as protoc would make it; in proto2 all its fields are required."""
    field = descriptor_pb2.FieldDescriptorProto
    label = field.LABEL_REQUIRED if syntax == "proto2" else field.LABEL_OPTIONAL
    file = descriptor_pb2.FileDescriptorProto(name=f"{syntax}.proto", package=syntax, syntax=syntax)
    placed = file.message_type.add(name="Placed")
    placed.field.add(name="order_id", number=1, type=field.TYPE_STRING, label=label)
    placed.field.add(name="total", number=2, type=field.TYPE_INT64, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{syntax}.Placed"))


Placed = a_message_class()


def test_decode_undoes_encode_and_the_bytes_are_the_message_alone() -> None:
    codec, event = Protobuf(Placed), Placed(order_id="o-1", total=42)
    assert codec.encode(event) == event.SerializeToString() == b"\x0a\x03o-1\x10\x2a"
    assert codec.decode(codec.encode(event)) == event


def test_what_is_no_message_is_undecodable() -> None:
    kind = EventTypes().register(Placed, "order.placed", codec=Protobuf(Placed))
    for bad in (b"{}", b"\x0a\x03o-", b"\xff" * 20):
        with pytest.raises(Undecodable, match="DecodeError"):
            kind.decode(bad)


def test_a_message_that_lacks_what_it_requires_is_refused() -> None:
    required = a_message_class("proto2")
    kind = EventTypes().register(required, "order.placed", codec=Protobuf(required))
    with pytest.raises(InvalidValue, match="required"):
        kind.encode(required(order_id="o-1"))


@pytest.mark.parametrize("cls", [dict, object(), Placed()], ids=["class", "object", "message"])
def test_another_class_is_refused(cls: Any) -> None:
    with pytest.raises(NotAnEventClass, match="takes a message class"):
        Protobuf(cls)


def test_a_key_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(NotAnEventClass, match=r"has no field 'id'; it has \['order_id', 'total'\]"):
        EventTypes().register(Placed, "order.placed", key="id", codec=Protobuf(Placed))


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    with pytest.raises(MissingExtra, match=r"pip install 'penstock-outbox\[protobuf\]'"):
        Protobuf(Placed)


def test_events_go_through_an_outbox() -> None:
    """What cannot be decoded is a dead letter with its bytes, and its key goes on."""
    outbox, got = Outbox("memory://protobuf"), list[Any]()
    outbox.migrate()
    outbox.event("order.placed", key="order_id", codec=Protobuf(Placed))(Placed)

    def see(event: Any, record: Record) -> None:
        got.append((event, record.key, record.headers))

    see.__annotations__["event"] = Placed
    outbox.handler(group="g")(see)
    with outbox.transaction() as conn:
        outbox.publish(conn, "order.placed", b"\xff\xff", key="o-1")
        outbox.publish(conn, Placed(order_id="o-1", total=42))
    outbox.drain()
    assert got == [(Placed(order_id="o-1", total=42), "o-1", {"content-type": "application/x-protobuf"})]
    assert len(dead_letters(outbox.store).items) == 1
    outbox.close()
