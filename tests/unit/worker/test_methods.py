"""Handlers that are methods of a class."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import Fixed, Outbox, Record
from penstock.errors import DuplicateHandler, InvalidHandler, InvalidInput
from penstock.operate.handlers import handlers


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    """Give an outbox with its tables made."""
    made = Outbox("memory://")
    made.migrate()
    yield made
    made.close()


def publish(outbox: Outbox, *types: str) -> None:
    """Publish an event of each type and deliver them all."""
    with outbox.transaction() as conn:
        for type in types:
            outbox.publish(conn, type, {"order_id": "o-1"}, key="o-1")
    outbox.drain()


def test_methods_are_called_on_the_instance_that_is_registered(outbox: Outbox) -> None:
    @outbox.event("order.placed", key="order_id")
    @dataclass
    class Placed:
        order_id: str

    class Shop:
        retry_policy = Fixed(7)

        def __init__(self, name: str) -> None:
            self.name, self.seen = name, list[tuple[str, str | None]]()

        @outbox.handler(group="shop")
        def anything(self, record: Record) -> None:
            self.seen.append((self.name, record.type))

        @outbox.handler(group="shop")
        async def placed(self, event: Placed, record: Record) -> None:
            self.seen.append((event.order_id, record.handler_id))

        @outbox.handler("order.*", group="shop", batch=5)
        def others(self, records: list[Record]) -> None:
            self.seen += [("batch", record.type) for record in records]

        def not_a_handler(self, record: Record) -> None:
            raise AssertionError

    shop = outbox.register(Shop("corner"))
    publish(outbox, "order.placed", "order.paid", "parcel.sent")
    name = f"{__name__}.{Shop.__qualname__}"
    assert shop.seen == [("o-1", f"{name}.placed"), ("batch", "order.paid"), ("corner", "parcel.sent")]
    assert [each.id.rpartition(".")[2] for each in handlers(outbox.handlers)] == ["placed", "others", "anything"]
    assert {each.retry_from for each in handlers(outbox.handlers)} == {"handler"}


def test_a_method_without_an_instance_is_refused_at_the_start(outbox: Outbox) -> None:
    class Shop:
        @outbox.handler(group="shop")
        def placed(self, record: Record) -> None: ...

    with pytest.raises(InvalidHandler, match=r"Shop\.placed is a method.*outbox\.register\(Shop\(\.\.\.\)\)"):
        outbox.drain()
    with pytest.raises(InvalidHandler, match="is a method"):
        outbox.run()
    outbox.register(Shop())
    outbox.drain()


def test_what_has_no_handlers_or_is_a_class_is_refused(outbox: Outbox) -> None:
    class Shop:
        @outbox.handler(group="shop")
        def placed(self, record: Record) -> None: ...

    with pytest.raises(InvalidInput, match="no method of dict was decorated"):
        outbox.register({})
    with pytest.raises(InvalidInput, match="Shop\\) is a class"):
        outbox.register(Shop)


def test_a_second_instance_would_be_a_second_handler_of_the_same_id(outbox: Outbox) -> None:
    class Shop:
        @outbox.handler(group="shop")
        def placed(self, record: Record) -> None: ...

    outbox.register(Shop())
    with pytest.raises(DuplicateHandler):
        outbox.register(Shop())


def test_subclasses_inherit_and_override(outbox: Outbox) -> None:
    seen = list[str]()

    class Base:
        @outbox.handler("a", group="g")
        def a(self, record: Record) -> None:
            seen.append("Base.a")

        @outbox.handler("b", group="g")
        def b(self, record: Record) -> None:
            seen.append("Base.b")

        @outbox.handler("c", group="g")
        def c(self, record: Record) -> None:
            seen.append("Base.c")

    class Shop(Base):
        def b(self, record: Record) -> None:
            seen.append("Shop.b")

        @outbox.handler("d", group="g")
        def c(self, record: Record) -> None:
            seen.append("Shop.c")

    outbox.register(Shop())
    publish(outbox, "a", "b", "c", "d")
    assert seen == ["Base.a", "Shop.b", "Shop.c"]


def test_fallback_and_match_may_be_methods_too(outbox: Outbox) -> None:
    class Shop:
        def __init__(self) -> None:
            self.seen = list[tuple[str, str | None]]()

        def wants(self, record: Record) -> bool:
            self.seen.append(("asked", record.type))
            return True

        def give_up(self, record: Record, reason: str) -> None:
            self.seen.append(("gave up", reason))

        @outbox.handler(wants, group="g", fallback=give_up, retry=Fixed(max_retries=0))
        def fail(self, record: Record) -> None:
            raise OSError("no")

    shop = outbox.register(Shop())
    publish(outbox, "t")
    assert shop.seen == [("asked", "t"), ("gave up", "OSError: no")]


def test_class_and_static_methods_and_other_decorators(outbox: Outbox) -> None:
    seen = list[str]()

    def loud(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(*args: Any) -> Any:
            seen.append("loud")
            return method(*args)

        return called

    class Shop:
        @classmethod
        @outbox.handler("a", group="g")
        def a(cls, record: Record) -> None:
            seen.append(cls.__name__)

        @staticmethod
        @outbox.handler("b", group="g")
        def b(record: Record) -> None:
            seen.append("static")

        @loud
        @outbox.handler("c", group="g")
        def c(self, record: Record) -> None:
            seen.append("c")

        @outbox.handler("d", group="g")
        @loud
        def d(self, record: Record) -> None:
            seen.append("d")

    outbox.register(Shop())
    publish(outbox, "a", "b", "c", "d")
    assert seen == ["Shop", "static", "loud", "c", "loud", "d"]
