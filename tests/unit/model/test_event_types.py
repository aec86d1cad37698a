import dataclasses
import importlib
import sys
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from penstock.errors import (
    EventNameTaken,
    InvalidKey,
    InvalidTopic,
    InvalidType,
    InvalidValue,
    NotAnEventClass,
    Undecodable,
    UnregisteredEvent,
)
from penstock.model.content import encode_value
from penstock.model.event_types import EventTypes
from tests.unit.model.samples import ModelCustomer, ModelOrder, PlainCustomer, PlainOrder, StructCustomer, StructOrder

ORDERS = [
    PlainOrder("o-1", PlainCustomer("c-1")),
    StructOrder("o-1", StructCustomer("c-1")),
    ModelOrder(order_id="o-1", customer=ModelCustomer(id="c-1")),
]
CLASSES = [type(order) for order in ORDERS]
a_kind = pytest.mark.parametrize("order", ORDERS, ids=[cls.__name__ for cls in CLASSES])
a_class = pytest.mark.parametrize("cls", CLASSES, ids=[cls.__name__ for cls in CLASSES])


@pytest.fixture
def registry() -> EventTypes:
    return EventTypes()


@a_kind
def test_an_event_is_encoded_and_decoded_as_itself(registry: EventTypes, order: Any) -> None:
    kind = registry.register(type(order), "order.placed")

    data = kind.encode(order)

    assert data == b'{"order_id":"o-1","customer":{"id":"c-1"}}'
    assert data == encode_value("order.placed", order)[0]
    assert kind.decode(data) == order
    assert type(kind.decode(data)) is type(order)


@a_kind
def test_an_event_is_found_by_its_class_its_name_and_its_aliases(registry: EventTypes, order: Any) -> None:
    kind = registry.register(type(order), "order.placed", aliases=["order.created", "OrderPlaced"])

    assert registry.of(order) is kind
    assert [registry.find(name) for name in ("order.placed", "order.created", "OrderPlaced")] == [kind] * 3
    assert registry.find("order.gone") is None
    assert (kind.name, kind.aliases, kind.topic) == ("order.placed", ("order.created", "OrderPlaced"), "events")


def test_a_single_alias_may_be_a_string(registry: EventTypes) -> None:
    kind = registry.register(PlainOrder, "order.placed", aliases="order.created")

    assert kind.aliases == ("order.created",)
    assert registry.find("o") is None


@a_kind
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, None),
        ("order_id", "o-1"),
        ("customer.id", "c-1"),
        (lambda order: f"{order.customer.id}/{order.order_id}", "c-1/o-1"),
        (lambda order: None, None),
    ],
    ids=["none", "field", "path", "function", "function_none"],
)
def test_a_key_is_read_from_the_event(registry: EventTypes, order: Any, key: Any, expected: str | None) -> None:
    assert registry.register(type(order), "order.placed", key=key).key_of(order) == expected


@a_class
@pytest.mark.parametrize(
    ("key", "missing"), [("oder_id", "oder_id"), ("customer.idd", "idd"), ("", ""), ("customer.", "")]
)
def test_a_key_that_names_a_missing_field_is_refused_at_registration(
    registry: EventTypes, cls: type, key: str, missing: str
) -> None:
    with pytest.raises(NotAnEventClass, match=rf"key='{key}', but \w+ has no field '{missing}'; it has \["):
        registry.register(cls, "order.placed", key=key)
    assert registry.find("order.placed") is None


def test_a_key_may_be_a_property_or_lead_where_types_say_nothing(registry: EventTypes) -> None:
    @dataclasses.dataclass
    class Order:
        customer: Any
        maybe: PlainCustomer | None = None

        @property
        def route(self) -> str:
            return f"{self.customer.id}-r"

    order = Order(PlainCustomer("c-1"), PlainCustomer("c-2"))
    keys = ["route", "customer.id", "maybe.id"]

    assert [registry.register(Order, "o", key=key).key_of(order) for key in keys] == ["c-1-r", "c-1", "c-2"]


@pytest.mark.parametrize("customer", [None, PlainCustomer(None)])  # type: ignore[arg-type]
def test_a_key_path_that_leads_to_none_is_refused_since_order_was_asked_for(
    registry: EventTypes, customer: Any
) -> None:
    kind = registry.register(PlainOrder, "order.placed", key="customer.id")

    with pytest.raises(InvalidKey, match=r"PlainOrder\.customer\.id is None"):
        kind.key_of(PlainOrder("o-1", customer))


def test_headers_and_topic_come_from_the_registration(registry: EventTypes) -> None:
    kind = registry.register(
        PlainOrder, "order.placed", topic="orders", headers=lambda order: {"customer": order.customer.id}
    )

    assert kind.topic == "orders"
    assert kind.headers_of is not None
    assert kind.headers_of(PlainOrder("o-1", PlainCustomer("c-1"))) == {"customer": "c-1"}


def test_a_name_belongs_to_one_class(registry: EventTypes) -> None:
    kind = registry.register(PlainOrder, "order.placed", aliases=["order.created"])

    for name in ("order.placed", "order.created"):
        with pytest.raises(EventNameTaken, match=f"event name '{name}' of StructOrder already belongs to PlainOrder"):
            registry.register(StructOrder, name)
        with pytest.raises(EventNameTaken):
            registry.register(StructOrder, "order.other", aliases=[name])

    assert registry.find("order.placed") is kind
    assert registry.find("order.other") is None
    with pytest.raises(UnregisteredEvent):
        registry.of(StructOrder("o-1", StructCustomer("c-1")))


def test_a_module_that_is_loaded_again_registers_its_classes_again(
    registry: EventTypes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "shop_events_for_test.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Order:\n    order_id: str\n"
    )
    module = importlib.import_module("shop_events_for_test")
    try:
        first = registry.register(module.Order, "order.placed")
        old_order = module.Order("o-1")
        importlib.reload(module)
        second = registry.register(module.Order, "order.placed")
    finally:
        del sys.modules["shop_events_for_test"]

    assert registry.find("order.placed") is second
    assert registry.of(module.Order("o-1")) is second
    assert registry.of(old_order) is first


@pytest.mark.parametrize(
    "cls",
    [int, dict, object, type("Plain", (), {}), PlainOrder("o", PlainCustomer("c")), "PlainOrder", None, list[int]],
    ids=str,
)
def test_what_is_no_event_class_is_refused(registry: EventTypes, cls: Any) -> None:
    with pytest.raises(NotAnEventClass, match="must be a dataclass, a msgspec Struct or a pydantic v2 model"):
        registry.register(cls, "order.placed")


def test_a_class_whose_fields_cannot_be_given_back_is_refused(registry: EventTypes) -> None:
    @dataclasses.dataclass
    class Unknown:
        what: "Nowhere"  # type: ignore[name-defined] # noqa: F821

    @dataclasses.dataclass
    class Ambiguous:
        either: PlainOrder | dict[str, int]

    with pytest.raises(NotAnEventClass, match="Unknown cannot be an event: name 'Nowhere' is not defined"):
        registry.register(Unknown, "a")
    with pytest.raises(NotAnEventClass, match="Ambiguous cannot be an event: Type unions may not contain"):
        registry.register(Ambiguous, "b")


def test_names_and_topic_are_checked(registry: EventTypes) -> None:
    with pytest.raises(InvalidType):
        registry.register(PlainOrder, "")
    with pytest.raises(InvalidType):
        registry.register(PlainOrder, "order.placed", aliases=["x" * 256])
    with pytest.raises(InvalidTopic):
        registry.register(PlainOrder, "order.placed", topic="or ders")
    assert registry.find("order.placed") is None


@pytest.mark.parametrize("event", ["order.placed", {"type": "order.placed"}, PlainCustomer("c-1"), None])
def test_an_object_of_a_class_that_is_not_registered_is_refused_with_the_remedy(
    registry: EventTypes, event: object
) -> None:
    registry.register(PlainOrder, "order.placed")

    with pytest.raises(UnregisteredEvent, match=f"^{type(event).__qualname__} is not registered.*outbox.event"):
        registry.of(event)


def test_a_subclass_is_a_class_of_its_own(registry: EventTypes) -> None:
    @dataclasses.dataclass
    class Special(PlainCustomer):
        pass

    registry.register(PlainCustomer, "customer.seen")

    with pytest.raises(UnregisteredEvent):
        registry.of(Special("c-1"))


@a_class
@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b"\xff", b'{"order_id":1,"customer":{"id":"c"}}', b"[" * 100_000]
)
def test_bytes_that_give_no_event_are_undecodable(registry: EventTypes, cls: type, data: bytes) -> None:
    kind = registry.register(cls, "order.placed")

    with pytest.raises(Undecodable, match=r"^an event 'order\.placed' cannot be decoded: "):
        kind.decode(data)


def test_a_member_that_a_newer_producer_added_is_left_out(registry: EventTypes) -> None:
    for order in ORDERS:
        kind = registry.register(type(order), f"order.{type(order).__name__}")

        assert kind.decode(b'{"order_id":"o-1","customer":{"id":"c-1"},"added":1}') == order


@pytest.mark.parametrize("order", [PlainCustomer("\ud800"), StructCustomer("\ud800"), ModelCustomer(id="\ud800")])
def test_an_event_that_has_no_json_form_is_refused(registry: EventTypes, order: Any) -> None:
    kind = registry.register(type(order), "customer.seen")

    with pytest.raises(InvalidValue, match=r"the value of 'customer\.seen' cannot be written as JSON"):
        kind.encode(order)


def test_a_field_that_is_not_json_like_is_refused_when_it_is_published(registry: EventTypes) -> None:
    @dataclasses.dataclass
    class Wave:
        phase: complex

    with pytest.raises(InvalidValue, match="complex"):
        registry.register(Wave, "wave").encode(Wave(1j))


class AliasedModel(pydantic.BaseModel):
    order_id: str = pydantic.Field(alias="orderId")


class RenamedStruct(msgspec.Struct, rename="camel"):
    order_id: str


@pytest.mark.parametrize("order", [AliasedModel(orderId="o-1"), RenamedStruct("o-1")])
def test_fields_that_are_stored_under_another_name_come_back(registry: EventTypes, order: Any) -> None:
    kind = registry.register(type(order), "order.placed", key="order_id")

    assert kind.encode(order) == encode_value("order.placed", order)[0] == b'{"orderId":"o-1"}'
    assert kind.decode(kind.encode(order)) == order
    assert kind.key_of(order) == "o-1"
