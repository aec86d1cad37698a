"""JSON and Protobuf by a registered schema, at REST and gRPC; what does not fit is refused and says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from penstock.clock import SYSTEM
from penstock.errors import InvalidInput, NotConvertible
from penstock.gateway.conversion import Conversion
from penstock.gateway.grpc.door import GrpcDoor
from penstock.gateway.grpc.listener import GrpcListener
from penstock.model.protobuf import ProtobufJson
from tests.gateway.grpc_client import GrpcClient, event, reason
from tests.gateway.served import JSON, ServedRest

PROTOBUF = "application/x-protobuf"
CANARY = "canary-7f3a"
pytestmark = pytest.mark.usefixtures("brisk")


def described(*names: str) -> bytes:
    """Return the FileDescriptorSet of `shop.Order` with fields of text, and `total`, a number."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="total", number=1, type=FieldDescriptorProto.TYPE_INT32, label=1)
    for number, name in enumerate(names, 2):
        order.field.add(name=name, number=number, type=FieldDescriptorProto.TYPE_STRING, label=1)
    return FileDescriptorSet(file=[file]).SerializeToString()


def order(**fields: Any) -> bytes:
    """Return an order of a later release, with one field more."""
    pool = DescriptorPool()
    pool.Add(FileDescriptorSet.FromString(described("customer", "note")).file[0])
    made: bytes = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**fields).SerializeToString()
    return made


SCHEMA = described("customer")


def test_values_go_there_and_back() -> None:
    schema = ProtobufJson("shop.Order", SCHEMA)
    data = schema.convert(b'{"total": 42, "customer": "ann"}', "application/json", PROTOBUF)
    assert data == order(total=42, customer="ann")
    assert schema.convert(data, PROTOBUF, "application/json") == b'{"total": 42, "customer": "ann"}'


@pytest.mark.parametrize(
    ("value", "content_type", "wanted"),
    [
        (b'{"total": "%s"}' % CANARY.encode(), "application/json", PROTOBUF),
        (b'{"unheard": 1}', "application/json", PROTOBUF),
        (b"[1]", "application/json", PROTOBUF),
        (b"\xff", "application/json", PROTOBUF),
        (b'{"customer":' * 5000, "application/json", PROTOBUF),
        (b"\xff\xff\xff", PROTOBUF, "application/json"),
        (order(total=1, note="x"), PROTOBUF, "application/json"),
        (b"x", "text/plain", PROTOBUF),
        (b"x", "text/plain", "application/json"),
    ],
)
def test_what_does_not_fit_is_refused_and_not_quoted(value: bytes, content_type: str, wanted: str) -> None:
    with pytest.raises(NotConvertible) as caught:
        ProtobufJson("shop.Order", SCHEMA).convert(value, content_type, wanted)
    assert CANARY not in str(caught.value)


def test_a_schema_that_is_none_is_refused() -> None:
    for message, descriptors in (("shop.Order", b"\xff"), ("shop.Bill", SCHEMA), ("", b"")):
        with pytest.raises(InvalidInput):
            ProtobufJson(message, descriptors)


@pytest.fixture
def client(rest: ServedRest) -> Iterator[GrpcClient]:
    """Give a gRPC client of the store that REST serves, too."""
    listener = GrpcListener(GrpcDoor(rest.store), "127.0.0.1", 0)
    listener.start()
    with GrpcClient(listener.address) as made:
        yield made
    listener.stop()


def put(rest: ServedRest, schema: bytes = SCHEMA, message: str = "shop.Order", **more: str) -> int:
    asked = rest.client.put(
        "/topics/orders/schemas",
        content=schema,
        params={"message": message, **more},
        headers={"content-type": PROTOBUF},
    )
    return asked.status_code


def test_a_schema_of_one_door_converts_at_all_of_them(rest: ServedRest, client: GrpcClient) -> None:
    assert put(rest, type="order.placed") == 200
    listed = client("Schemas.List", topic="orders").schemas
    assert [(each.topic, each.type, each.message) for each in listed] == [("orders", "order.placed", "shop.Order")]
    ((partition, offset),) = client.publish("orders", event("e-1", "k", b'{"total": 7}'), convert_to=PROTOBUF)
    (stored,) = rest.store.log.read("orders", partition, offset)
    assert (stored.data, stored.headers["content-type"]) == (order(total=7), PROTOBUF)
    read = rest.client.get(
        f"/topics/orders/partitions/{partition}/records", params={"convert_to": "application/json"}
    ).json()["records"][0]
    assert (read["value"], read["content_type"]) == ({"total": 7}, "application/json")
    rest.client.post(
        "/topics/orders/records?key=k&type=order.placed", content=b'{"total": 8}', headers=JSON
    ).raise_for_status()
    found = client("Consuming.Read", topic="orders", partition=partition, convert_to=PROTOBUF).records
    assert [(each.value, each.content_type) for each in found] == [
        (order(total=7), PROTOBUF),
        (order(total=8), PROTOBUF),
    ]
    lease = rest.client.post(
        "/groups/mailer/topics/orders/leases?convert_to=application/json", json={"wait_seconds": 20}
    ).json()
    assert lease["records"][0]["value"] == {"total": 7}


def test_what_cannot_be_converted_is_refused_when_published_and_given_as_it_is_when_read(
    rest: ServedRest, client: GrpcClient
) -> None:
    asked = rest.client.post(
        "/topics/orders/records", content=b'{"total": 1}', params={"convert_to": PROTOBUF}, headers=JSON
    )
    assert (asked.status_code, asked.json()["code"]) == (415, "not_convertible")
    assert "no schema is registered for topic orders" in asked.json()["detail"]
    assert put(rest) == 200
    with pytest.raises(grpc.RpcError) as caught:
        client.publish("orders", event("e-1", "k", b'{"totale": 1}'), convert_to=PROTOBUF)
    assert (caught.value.code(), reason(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, "not_convertible")
    client.publish("orders", event("e-1", "k", b"plain", content_type="text/plain"))
    client.publish("orders", event("e-2", "k", b'{"total": 2}'))
    subscriber = client.subscribe("orders", "mailer", convert_to=PROTOBUF)
    (first,) = subscriber.records(1)
    assert (first.value, first.content_type) == (b"plain", "text/plain")
    assert "only JSON and Protobuf" in first.not_converted
    subscriber.ack(first)
    (second,) = subscriber.records(1)
    assert (second.value, second.not_converted) == (order(total=2), "")


def test_schemas_are_checked_replaced_and_removed(rest: ServedRest, client: GrpcClient) -> None:
    assert put(rest, b"nonsense") == 400
    assert put(rest, message="shop.Bill") == 400
    schema = {"topic": "orders", "message": "shop.Order"}
    client("Schemas.Register", schema=schema, descriptors=SCHEMA)
    client("Schemas.Register", schema=schema, descriptors=described("customer", "note"))
    client.publish("orders", event("e-1", value=b'{"note": "x"}'), convert_to=PROTOBUF)
    assert rest.client.delete("/topics/orders/schemas").status_code == 204
    assert rest.client.delete("/topics/orders/schemas").status_code == 404
    assert rest.client.get("/topics/orders/schemas").json() == {"schemas": []}
    with pytest.raises(grpc.RpcError) as caught:
        client("Consuming.Read", topic="orders", convert_to="image/png")
    assert reason(caught.value) == "invalid_input"


def test_schemas_are_kept_by_names_that_can_be_registered_alone() -> None:
    """A client says the type of what it publishes: nothing of it is kept unless it is of use."""
    kept = Conversion(cast(Any, None), SYSTEM)  # no store is asked, either
    assert kept._schema("orders", "t" * 256) is None
    assert kept._schema("o" * 256, "paid") is None
    assert not kept._kept
