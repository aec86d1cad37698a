"""Repositories of plain models: which objects a call has written, what an image holds, what is refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import pydantic
import pytest

from penstock import Outbox
from penstock.errors import InvalidHeaders, InvalidTopic, InvalidTracking, InvalidType
from penstock.model.record import Record


class Status(Enum):
    """One that has a value."""

    OPEN = "open"


@dataclass
class Order:
    """A dataclass."""

    id: int | None
    cents: int = 0
    status: Status = Status.OPEN


class Packed(msgspec.Struct):
    """A Struct."""

    id: int
    cents: int = 0


class Checked(pydantic.BaseModel):
    """A pydantic model."""

    id: int
    cents: int = 0


class Plain:
    """A class that does not say what it holds."""

    def __init__(self, id: int, cents: int = 0) -> None:
        self.id, self.cents, self._secret = id, cents, "x"


class Slotted:
    """One with slots."""

    __slots__ = ("_secret", "cents", "id")

    def __init__(self, id: int, cents: int = 0) -> None:
        self.id, self.cents, self._secret = id, cents, "x"


class Named(Order):
    """One that names its events itself."""

    def events(self) -> tuple[str, ...]:
        """Return the names."""
        return ("order.big", "audit") if self.cents > 100 else ("order.small",)


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    """Give an outbox in memory."""
    opened = Outbox("memory://")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def seen(outbox: Outbox) -> list[Record]:
    """Give what a handler for everything sees."""
    found: list[Record] = []
    outbox.handler(group="g", id="g")(found.append)
    return found


def returning(result: Any) -> Any:
    """Return a function that writes something and returns this."""

    def write(*args: Any, **kwargs: Any) -> Any:
        return result

    return write


@pytest.mark.parametrize("model", [Packed, Checked, Plain, Slotted])
def test_an_image_has_what_the_object_holds(model: Any, outbox: Outbox, seen: list[Record]) -> None:
    with outbox.transaction() as conn:
        outbox.repository(model, "orders").inserted(conn, model(id=1, cents=2))
    outbox.drain()
    assert [(each.value, each.key) for each in seen] == [({"id": 1, "cents": 2}, "1")]


def test_a_model_names_its_own_events(outbox: Outbox, seen: list[Record]) -> None:
    orders = outbox.repository(Named, "orders")
    with outbox.transaction() as conn:
        orders.inserted(conn, Named(1, 500))
        orders.updated(conn, Named(1, 5))
    outbox.drain()
    assert [each.type for each in seen] == ["order.big", "audit", "order.small"]
    assert seen[0].value == {"id": 1, "cents": 500, "status": "open"}


def test_a_key_of_several_attributes(outbox: Outbox, seen: list[Record]) -> None:
    with outbox.transaction() as conn:
        outbox.repository(Order, "orders", id=("id", "status")).inserted(conn, Order(7))
    outbox.drain()
    assert (seen[0].key, seen[0].headers["entity"]) == ("7,open", "orders:7,open")


WRITTEN = {
    "its argument": (None, (Order(1),), {}, ["1"]),
    "a keyword": (None, (), {"order": Order(1)}, ["1"]),
    "several arguments": (None, (Order(1), Order(2)), {}, ["1", "2"]),
    "a list of them": (3, ([Order(1), Order(2)],), {}, ["1", "2"]),
    "what it returns, rather than what it was given": (Order(5), (Order(None),), {}, ["5"]),
    "the list that it returns": ([Order(1), Order(2)], ("draft",), {}, ["1", "2"]),
    "what derives from it": (None, (Named(1),), {}, ["1"]),
    "an empty list": (None, ([],), {}, []),
    "an empty result": ([], ("draft",), {}, []),
    "False": (False, (Order(1),), {}, []),
    "0": (0, (Order(1),), {}, []),
    "True": (True, (Order(1),), {}, ["1"]),
    "None": (None, (Order(1),), {}, ["1"]),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_what_a_call_has_written(case: str, outbox: Outbox, seen: list[Record]) -> None:
    result, args, kwargs, keys = WRITTEN[case]
    write = outbox.repository(Order, "orders").inserts(returning(result))
    with outbox.transaction() as conn:
        assert write(conn, *args, **kwargs) is result
    outbox.drain()
    assert sorted(each.key or "" for each in seen) == keys


def test_a_repository_class_says_where_its_connection_is(outbox: Outbox, seen: list[Record]) -> None:
    orders = outbox.repository(Order, "orders", connection=lambda self, *rest: self.conn)

    class Orders:
        def __init__(self, conn: Any) -> None:
            self.conn = conn

        @orders.inserts
        def add(self, order: Order) -> None:
            """Add one."""

    with outbox.transaction() as conn:
        Orders(conn).add(Order(1))
    outbox.drain()
    assert [each.key for each in seen] == ["1"]
    assert (Orders.add.__name__, Orders.add.__doc__) == ("add", "Add one.")


REFUSED: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no class": ("Order", {}, InvalidTracking, "it is not a class"),
    "no table": (Order, {"table": ""}, InvalidTracking, "table='' must be the name"),
    "an id that is no field": (Order, {"id": "number"}, InvalidTracking, "id='number', but it has no such"),
    "no id": (Order, {"id": ()}, InvalidTracking, "names no attribute"),
    "a key that is no field": (Order, {"key": "x.y"}, InvalidTracking, "key='x', but it has no such"),
    "a field that is not there": (Checked, {"exclude": "x"}, InvalidTracking, "exclude='x'"),
    "an action there is not": (Order, {"on": "upsert"}, InvalidTracking, "on='upsert'"),
    "an unknown value": (Order, {"value": "row"}, InvalidTracking, "value='row'"),
    "a bad name": (Order, {"names": ""}, InvalidType, "event type ''"),
    "a bad topic": (Order, {"topic": "a b"}, InvalidTopic, "a b"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_when_it_is_declared(case: str, outbox: Outbox) -> None:
    model, options, error, words = REFUSED[case]
    with pytest.raises(error) as refused:
        outbox.repository(model, **{"table": "orders"} | options)
    assert words in str(refused.value)


def test_a_class_that_does_not_say_what_it_holds_may_have_any_key(outbox: Outbox) -> None:
    outbox.repository(Plain, "orders", key="cents", exclude="cents", owner="whatever")


def test_what_cannot_be_marked_is_refused(outbox: Outbox) -> None:
    orders = outbox.repository(Order, "orders")

    def later() -> Iterator[Order]:
        yield Order(1)

    for wrong in (None, Order, later):
        with pytest.raises(InvalidTracking, match="must be a function that writes"):
            orders.inserts(wrong)  # type: ignore[arg-type]


def test_a_call_that_shows_no_object_is_refused(outbox: Outbox, seen: list[Record]) -> None:
    remove = outbox.repository(Order, "orders").deletes(returning(None))
    with outbox.transaction() as conn, pytest.raises(InvalidTracking, match="it must take or return"):
        remove(conn, 7)


def test_an_object_without_its_id_is_refused_with_the_remedy(outbox: Outbox) -> None:
    orders = outbox.repository(Order, "orders")
    with outbox.transaction() as conn, pytest.raises(InvalidTracking, match="its id is None; set it before"):
        orders.inserted(conn, Order(None))


def test_what_is_no_object_of_the_model_is_refused(outbox: Outbox) -> None:
    orders = outbox.repository(Order, "orders")
    with outbox.transaction() as conn, pytest.raises(InvalidTracking, match="a Packed is not one of its objects"):
        orders.inserted(conn, Packed(1))  # type: ignore[arg-type]


def test_options_of_a_call_are_checked(outbox: Outbox) -> None:
    orders = outbox.repository(Order, "orders")
    with outbox.transaction() as conn:
        with pytest.raises(InvalidTracking, match="skipped or forced, not both"):
            orders.inserted(conn, Order(1), skip=True, force=True)
        with pytest.raises(InvalidHeaders, match="tracking sets this header"):
            orders.inserted(conn, Order(1), metadata={"action": "x"})


def test_a_field_without_a_json_form_is_named(outbox: Outbox) -> None:
    orders = outbox.repository(Plain, "orders")
    with outbox.transaction() as conn, pytest.raises(InvalidTracking) as refused:
        orders.inserted(conn, Plain(1, cents=object()))  # type: ignore[arg-type]
    assert "orders:1 cannot be tracked: its column 'cents' holds a object" in str(refused.value)
