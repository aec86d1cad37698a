"""N-12, U-08: which types a match stands for: by name, by an alias, as a parent; and who is asked first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from penstock import Outbox, Record
from penstock.errors import DuplicateHandler, InvalidHandler, Undecodable
from penstock.worker.membership_loop import filters_of
from tests.crash.waiting import wait_until
from tests.suites.records import a_record


class Priced(Protocol):
    """What some events have in common; no event itself."""

    cents: int


@dataclass
class OrderEvent:
    """A parent that is an event, too."""

    order_id: str


@dataclass
class Placed(OrderEvent):
    """A child of it."""

    cents: int


@dataclass
class Gift(Placed):
    """A child of that."""

    card: str


@pytest.fixture
def outbox() -> Any:
    """Give an outbox with a family of types: order.event > order.placed (order.made) > gift.given."""
    made = Outbox("memory://")
    made.event("order.event")(OrderEvent)
    made.event("order.placed", aliases=["order.made"], parents=[OrderEvent, Priced])(Placed)
    made.event("gift.given", parents="order.placed")(Gift)
    yield made
    made.close()


def chosen(outbox: Outbox, *types: str) -> list[str | None]:
    """Return the id of the handler for each type."""
    (subscription,) = outbox.handlers.subscriptions()
    found = [subscription.handler_for(a_record(type=type)) for type in types]
    return [None if each is None else each.id for each in found]


def add(outbox: Outbox, id: str, function: Callable[..., Any] = lambda record: None, **options: Any) -> None:
    outbox.handler(**{"group": "g", "id": id} | options)(function)


FAMILY = ("order.event", "order.placed", "order.made", "gift.given", "order.paid")


@pytest.mark.parametrize(
    ("match", "wanted"),
    [
        ("order.event", ["h", "h", "h", "h", None]),
        ("order.placed", [None, "h", "h", "h", None]),
        ("order.made", [None, "h", "h", "h", None]),  # an alias is as good as the name
        ("gift.given", [None, None, None, "h", None]),
        ("order.*", ["h", "h", "h", None, "h"]),
    ],
)
def test_a_name_stands_for_its_type_its_aliases_and_all_beneath(
    outbox: Outbox, match: str, wanted: list[str | None]
) -> None:
    add(outbox, "h", match=match)
    assert chosen(outbox, *FAMILY) == wanted


def test_a_prefix_finds_a_type_by_its_older_names_too() -> None:
    outbox = Outbox("memory://")
    outbox.event("billing.placed", aliases=["order.placed"])(Placed)
    add(outbox, "h", match="order.*")
    assert chosen(outbox, "billing.placed", "order.placed", "billing.paid") == ["h", "h", None]
    outbox.close()


def test_a_class_stands_for_itself_and_all_beneath_each_decoded_into_its_own(outbox: Outbox) -> None:
    got: list[Any] = []

    def take(event: OrderEvent) -> None:
        got.append(event)

    add(outbox, "h", take)
    events = [OrderEvent("o-1"), Placed("o-1", 5), Gift("o-1", 7, "thanks")]
    outbox.migrate()
    with outbox.transaction() as conn:
        for event in events:
            outbox.publish(conn, event)
    outbox.drain()
    assert sorted(got, key=lambda each: type(each).__name__) == sorted(events, key=lambda each: type(each).__name__)


def test_a_class_that_is_only_a_parent_may_be_asked_for(outbox: Outbox) -> None:
    def take(event: Priced) -> None: ...

    add(outbox, "h", take)
    assert chosen(outbox, *FAMILY) == [None, "h", "h", "h", None]
    ((handler,),) = [each.handlers for each in outbox.handlers.subscriptions()]
    assert handler.binding.decode is not None
    with pytest.raises(Undecodable, match=r"'order\.paid' as Priced cannot be decoded: no class"):
        handler.binding.decode(a_record(type="order.paid"))


def test_the_nearest_is_asked_first_then_predicates_then_prefixes(outbox: Outbox) -> None:
    add(outbox, "all")
    add(outbox, "prefix", match="order.*")
    add(outbox, "predicate", match=lambda record: record.key == "p")
    add(outbox, "grandparent", match="order.event")
    add(outbox, "parent", match="order.placed")
    (subscription,) = outbox.handlers.subscriptions()

    def asked(type: str) -> list[str]:
        return [each.id for each in subscription.asked(type)]

    assert asked("gift.given") == ["parent", "grandparent", "predicate", "all"]
    assert asked("order.made") == ["parent", "grandparent", "predicate", "prefix", "all"]
    assert asked("order.event") == ["grandparent", "predicate", "prefix", "all"]
    assert asked("order.paid") == ["predicate", "prefix", "all"]


def test_a_handler_for_the_very_name_is_asked_before_one_for_an_alias(outbox: Outbox) -> None:
    add(outbox, "new", match="order.placed")
    add(outbox, "old", match="order.made")
    assert chosen(outbox, "order.placed", "order.made") == ["new", "old"]


def test_the_filter_names_all_that_is_beneath(outbox: Outbox) -> None:
    add(outbox, "h", match="order.placed")
    add(outbox, "p", match="gift.*", group="p")
    add(outbox, "w", match=lambda record: True, group="w", aliases=["first", "second"])
    assert filters_of(list(outbox.handlers.subscriptions())) == {
        "g": ("events:gift.given", "events:order.made", "events:order.placed"),
        "p": ("events:gift.*",),
        "w": ("events:?first",),  # as the process of before, which did not know the new id
    }


def test_a_type_that_is_registered_later_is_found_beneath(outbox: Outbox) -> None:
    add(outbox, "h", match="order.event")
    assert chosen(outbox, "order.late") == [None]

    @dataclass
    class Late:
        order_id: str

    outbox.event("order.late", parents=["order.event"])(Late)
    assert chosen(outbox, "order.late") == ["h"]


def test_types_that_are_parents_of_each_other_end() -> None:
    outbox = Outbox("memory://")
    outbox.event("a", parents=["b"])(OrderEvent)
    outbox.event("b", parents=["a"])(Placed)
    add(outbox, "h", match="a")
    assert chosen(outbox, "a", "b") == ["h", "h"]
    outbox.close()


def test_an_id_that_another_handler_had_before_is_refused(outbox: Outbox) -> None:
    add(outbox, "x", aliases="y")
    for id, aliases in (("y", ()), ("z", ["x"]), ("z", ["y"])):
        with pytest.raises(DuplicateHandler, match=f"same id: {'x' if aliases == ['x'] else 'y'}"):
            add(outbox, id, match="other", aliases=aliases)


@pytest.mark.parametrize("aliases", [5, "", [" "], ["a\x00"], [None]], ids=repr)
def test_what_can_be_no_alias_is_refused(outbox: Outbox, aliases: Any) -> None:
    with pytest.raises(InvalidHandler, match="must be ids that it had before"):
        add(outbox, "x", aliases=aliases)


def test_a_listener_hears_of_what_is_beneath(outbox: Outbox) -> None:
    heard: list[str] = []

    def hear(record: Record) -> None:
        heard.append(str(record.type))

    outbox.migrate()
    outbox.listener("order.event")(hear)
    with outbox.transaction() as conn:
        outbox.publish(conn, "order.paid", 1)
        outbox.publish(conn, Placed("o-1", 5))
    wait_until(lambda: bool(heard), "a listener is called")
    assert heard == ["order.placed"]
