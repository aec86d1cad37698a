import dataclasses
import enum
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from penstock.errors import InvalidValue, Undecodable
from penstock.model.content import BINARY, JSON, decode_value, encode_value, is_json
from tests.unit.model.samples import ModelCustomer, ModelOrder, PlainCustomer, StructCustomer


class Colour(enum.Enum):
    RED = "red"


class Aliased(pydantic.BaseModel):
    order_id: str = pydantic.Field(alias="orderId")


@dataclasses.dataclass
class HoldsAModel:
    customer: ModelCustomer


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"order_id": "o-1", "total": 42}, b'{"order_id":"o-1","total":42}'),
        ([1, 2.5, True, None, "ä"], '[1,2.5,true,null,"ä"]'.encode()),
        ("", b'""'),
        ("\0🛒注", '"\\u0000🛒注"'.encode()),
        (0, b"0"),
        (False, b"false"),
        (2**70, b"1180591620717411303424"),
        ({1: "a"}, b'{"1":"a"}'),
        ((1, 2), b"[1,2]"),
        (datetime(2030, 1, 2, tzinfo=UTC), b'"2030-01-02T00:00:00Z"'),
        (Decimal("1.50"), b'"1.50"'),
        (uuid.UUID(int=7), b'"00000000-0000-0000-0000-000000000007"'),
        (Colour.RED, b'"red"'),
        (PlainCustomer("c-1"), b'{"id":"c-1"}'),
        (StructCustomer("c-1"), b'{"id":"c-1"}'),
        (ModelCustomer(id="c-1"), b'{"id":"c-1"}'),
        (ModelOrder(order_id="o", customer=ModelCustomer(id="c")), b'{"order_id":"o","customer":{"id":"c"}}'),
        ({"deep": [ModelCustomer(id="c-1")]}, b'{"deep":[{"id":"c-1"}]}'),
        (HoldsAModel(ModelCustomer(id="c-1")), b'{"customer":{"id":"c-1"}}'),
        (Aliased(orderId="o-1"), b'{"orderId":"o-1"}'),
    ],
)
def test_what_has_a_json_form_is_stored_as_json(value: Any, data: bytes) -> None:
    assert encode_value("t", value) == (data, JSON)


@pytest.mark.parametrize("value", [b"", b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
def test_bytes_are_stored_as_they_are_and_marked(value: Any) -> None:
    data, content_type = encode_value("t", value)

    assert (data, content_type) == (bytes(value), BINARY)
    assert type(data) is bytes


def test_none_is_a_tombstone_and_not_the_json_null() -> None:
    assert encode_value("t", None) == (None, JSON)
    assert decode_value(None, JSON) is None
    assert decode_value(b"null", JSON) is None


@dataclasses.dataclass
class Priced:
    price: float
    note: str | None = None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "wrap", [lambda n: n, lambda n: {"a": [1, n], "b": None}, Priced], ids=["bare", "deep", "class"]
)
def test_nan_and_the_infinities_are_refused(wrap: Callable[[float], Any], number: float) -> None:
    """D16: they have no JSON form, and null is another value."""
    with pytest.raises(InvalidValue, match="NaN and the infinities have no JSON form"):
        encode_value("order.placed", wrap(number))


@pytest.mark.parametrize("value", [None, [None], {"a": None}, "null", {"null": 1}, Priced(1.5)])
def test_null_is_kept(value: Any) -> None:
    data, content_type = encode_value("order.placed", value)
    assert decode_value(data, content_type) == (
        value if not isinstance(value, Priced) else {"price": 1.5, "note": None}
    )


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"x": object()},
        {(1, 2): 3},
        1j,
        "\ud800",
        {"\udfff": 1},
        ModelCustomer(id="\ud800"),
        circle(),
        lambda: None,
        PlainCustomer,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_json_form_is_refused_with_the_remedy(value: Any) -> None:
    with pytest.raises(
        InvalidValue, match=r"^the value of 'order\.placed' cannot be written as JSON: .*pass JSON-like"
    ):
        encode_value("order.placed", value)


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True, "ä\0🛒"]}, [], "", 0, -1, False, {"nested": {"deep": [[[]]]}}]
)
def test_json_is_given_back_as_it_was(value: Any) -> None:
    data, content_type = encode_value("t", value)

    assert decode_value(data, content_type) == value


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b'"\xff"', b"{'a':1}", b'"\\ud800"', b"NaN", b"[" * 100_000, b"1 2", b"9" * 10_000]
)
def test_bytes_that_are_no_json_are_undecodable(data: bytes) -> None:
    with pytest.raises(Undecodable, match=r"^a JSON value cannot be decoded: "):
        decode_value(data, JSON)


@pytest.mark.parametrize("content_type", [BINARY, "text/plain", "application/jsonlines", ""])
def test_bytes_of_another_type_are_given_back_as_they_are(content_type: str) -> None:
    assert decode_value(b'{"a":1}', content_type) == b'{"a":1}'
    assert decode_value(b"", content_type) == b""


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/vnd.shop.order+json", True),
        (" application/json ", True),
        ("application/jsonx", False),
        ("text/json", False),
        ("application/xml", False),
        ("", False),
    ],
)
def test_which_content_types_mean_json(content_type: str, expected: bool) -> None:
    assert is_json(content_type) is expected
