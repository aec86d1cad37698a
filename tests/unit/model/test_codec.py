"""N-29, U-08, N-15: codecs of the user's own, old names with an upgrade, and headers by paths."""

import struct
from typing import Any, cast

import pytest

from penstock import Outbox, Record
from penstock.errors import InvalidHeaders, InvalidType, InvalidValue, NotAnEventClass, Undecodable
from penstock.model.event_types import EventTypes
from tests.unit.model.samples import PlainCustomer, PlainOrder


class Point:
    """A class that is of no kind that has a JSON form."""

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y


class Packed:
    """Points as eight bytes."""

    content_type = "application/x-point"

    def encode(self, event: Point) -> bytes:
        return struct.pack(">ii", event.x, event.y)

    def decode(self, data: bytes) -> Point:
        return Point(*struct.unpack(">ii", data))


@pytest.fixture
def registry() -> EventTypes:
    return EventTypes()


def test_an_event_goes_through_a_codec_of_its_own_and_says_which() -> None:
    outbox, got = Outbox("memory://"), list[Any]()
    outbox.migrate()
    outbox.event("point.seen", key=lambda point: str(point.x), codec=Packed())(Point)

    @outbox.handler(group="g")
    def see(event: Point, record: Record) -> None:
        got.append((event.x, event.y, record.data, record.value, record.headers, record.key))

    with outbox.transaction() as conn:
        outbox.publish(conn, cast(Any, Point(1, 2)))  # type checkers know no event without fields
        outbox.publish_many(conn, [cast(Any, Point(3, 4))])
    outbox.drain()
    mark = {"content-type": "application/x-point"}
    assert sorted(got) == [
        (1, 2, struct.pack(">ii", 1, 2), struct.pack(">ii", 1, 2), mark, "1"),
        (3, 4, struct.pack(">ii", 3, 4), struct.pack(">ii", 3, 4), mark, "3"),
    ]
    outbox.close()


def test_what_a_codec_cannot_decode_is_undecodable_whatever_it_raises(registry: EventTypes) -> None:
    kind = registry.register(Point, "point.seen", codec=Packed())
    with pytest.raises(Undecodable, match=r"'point\.seen' cannot be decoded: its codec failed with error$"):
        kind.decode(b"123")


@pytest.mark.parametrize("given", ["text", None, ZeroDivisionError("by zero"), TypeError("odd")], ids=repr)
def test_what_a_codec_cannot_encode_is_refused_before_anything_is_written(registry: EventTypes, given: Any) -> None:
    class Odd(Packed):
        def encode(self, event: Point) -> Any:
            if isinstance(given, Exception):
                raise given
            return given

    kind = registry.register(Point, "point.seen", codec=Odd())
    words = f"its codec failed: {type(given).__name__}; pass"
    if not isinstance(given, Exception):
        words = f"returned {type(given).__name__}, not bytes"
    with pytest.raises(InvalidValue, match=words):
        kind.encode(Point(1, 2))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("encode", None, "no method 'encode'"),
        ("decode", 5, "no method 'decode'"),
        ("content_type", None, "content_type=None"),
        ("content_type", "json", "content_type='json'"),
        ("content_type", "a/\n", "content_type="),
    ],
)
def test_what_is_no_codec_is_refused(registry: EventTypes, name: str, value: Any, words: str) -> None:
    codec = Packed()
    setattr(codec, name, value)
    with pytest.raises(NotAnEventClass, match=words):
        registry.register(Point, "point.seen", codec=codec)


def test_a_value_stored_under_an_old_name_is_brought_up_to_date(registry: EventTypes) -> None:
    def from_v1(old: Any) -> Any:
        return {"order_id": old["id"], "customer": {"id": old["customer"]}}

    def from_v0(old: Any) -> PlainOrder:
        return PlainOrder(old, PlainCustomer("?"))

    aliases = {"order.v0": from_v0, "order.v1": from_v1, "order.v2": None}
    kind = registry.register(PlainOrder, "order.v3", aliases=aliases)
    today = PlainOrder("o-1", PlainCustomer("c-1"))
    assert kind.decode(b'"o-1"', "order.v0") == PlainOrder("o-1", PlainCustomer("?"))
    assert kind.decode(b'{"id":"o-1","customer":"c-1"}', "order.v1") == today
    assert kind.decode(kind.encode(today), "order.v2") == kind.decode(kind.encode(today), "order.v3") == today
    assert kind.names == {"order.v0", "order.v1", "order.v2", "order.v3"}
    for data, words in ((b"{}", "its upgrade from 'order.v1' failed with KeyError: 'id'"), (b"{", "truncated")):
        with pytest.raises(Undecodable, match=words):
            kind.decode(data, "order.v1")


def test_an_upgrade_of_a_codec_of_ones_own_is_given_the_bytes(registry: EventTypes) -> None:
    aliases = {"point.v1": lambda data: data + bytes(4), "point.v0": lambda data: Point(9, 9)}
    kind = registry.register(Point, "point.v2", aliases=aliases, codec=Packed())
    old = kind.decode(struct.pack(">i", 7), "point.v1")
    assert (old.x, old.y, kind.decode(b"", "point.v0").x) == (7, 0, 9)


def test_a_handler_is_given_old_and_new_values_alike() -> None:
    outbox, got = Outbox("memory://"), list[str]()
    outbox.migrate()
    with outbox.transaction() as conn:  # as a program of before has done
        outbox.publish(conn, "customer.v1", {"name": "c-1"}, key="k")
    outbox.event("customer.v2", aliases={"customer.v1": lambda old: {"id": old["name"]}})(PlainCustomer)

    @outbox.handler(group="g")
    def see(event: PlainCustomer) -> None:
        got.append(event.id)

    with outbox.transaction() as conn:
        outbox.publish(conn, PlainCustomer("c-2"))
    outbox.drain()
    assert sorted(got) == ["c-1", "c-2"]
    outbox.close()


@pytest.mark.parametrize("upgrade", [5, "order.v0"])
def test_an_upgrade_that_cannot_be_called_is_refused(registry: EventTypes, upgrade: Any) -> None:
    with pytest.raises(NotAnEventClass, match=r"aliases\['old'\]=.* must be a function"):
        registry.register(PlainOrder, "order.placed", aliases={"old": upgrade})


@pytest.mark.parametrize(
    ("parents", "error", "words"),
    [
        (5, NotAnEventClass, "its parent 5 must be the name of a type"),
        ([None], NotAnEventClass, "its parent None"),
        ("", InvalidType, "1 to 255"),
        (PlainOrder, NotAnEventClass, "parent of itself"),
        (["order.placed"], NotAnEventClass, "parent of itself"),
        (["order.made"], NotAnEventClass, "parent of itself"),
    ],
)
def test_what_can_be_no_parent_is_refused(
    registry: EventTypes, parents: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        registry.register(PlainOrder, "order.placed", aliases="order.made", parents=parents)
    assert registry.find("order.placed") is None


def test_headers_are_read_by_paths(registry: EventTypes) -> None:
    kind = registry.register(PlainOrder, "order.placed", headers={"order": "order_id", "who": "customer.id"})
    assert kind.headers_of is not None
    assert kind.headers_of(PlainOrder("o-1", PlainCustomer("c-1"))) == {"order": "o-1", "who": "c-1"}
    nobody: Any = PlainOrder("o-1", None)  # type: ignore[arg-type]
    assert kind.headers_of(nobody) == {"order": "o-1"}
    number: Any = PlainOrder(7, PlainCustomer("c-1"))  # type: ignore[arg-type]
    with pytest.raises(InvalidHeaders, match=r"PlainOrder\.order_id is of type int; it must be a string"):
        kind.headers_of(number)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"who": "customer.name"}, r"headers\['who'\]='customer\.name', but PlainCustomer has no field 'name'"),
        ({"who": 5}, r"headers\['who'\]=5 must be a path"),
        ("who", "headers='who' must be a function or a mapping"),
        ({"": "order_id"}, "printable characters"),
    ],
)
def test_paths_of_headers_are_checked_when_the_class_is_registered(
    registry: EventTypes, headers: Any, words: str
) -> None:
    with pytest.raises((NotAnEventClass, InvalidHeaders), match=words):
        registry.register(PlainOrder, "order.placed", headers=headers)
