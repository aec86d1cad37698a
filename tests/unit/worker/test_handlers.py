"""What may be registered as a handler, and which one is for a record."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from penstock import Outbox, Record
from penstock.errors import DuplicateHandler, InvalidHandler, InvalidTopic, InvalidType
from penstock.testing.records import a_record
from penstock.worker.handlers import Handlers


def one(record: Record) -> None:
    """A handler with a name."""


def two(record: Record) -> None:
    """Another one."""


class Mailer:
    """A class whose method is a handler."""

    def send(self, record: Record) -> None: ...

    def __call__(self, record: Record) -> None: ...


@pytest.fixture
def add() -> Callable[..., Any]:
    """Give the registration of a handler, with what a test does not name filled in."""
    handlers = Handlers()

    def registered(function: Any = one, **options: Any) -> Handlers:
        given = {"match": None, "group": "g", "id": None, "topic": "events", "start": "earliest"}
        handlers.add(function, **given | options)
        return handlers

    return registered


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no function": ({"function": 5, "id": "x"}, InvalidHandler, "cannot be called"),
    "a match that is none": ({"match": 5}, InvalidHandler, "match=5"),
    "an empty type": ({"match": ""}, InvalidType, "1 to 255"),
    "a topic that is none": ({"topic": "a b"}, InvalidTopic, "'a b'"),
    "an unknown start": ({"start": "now"}, InvalidHandler, "earliest, latest"),
    "an empty group": ({"group": ""}, InvalidHandler, "1 to 255"),
    "a group of spaces": ({"group": "  "}, InvalidHandler, "1 to 255"),
    "a long group": ({"group": "x" * 256}, InvalidHandler, "1 to 255"),
    "a group that is no string": ({"group": None}, InvalidHandler, "1 to 255"),
    "a group with a NUL": ({"group": "a\x00b"}, InvalidHandler, "printable"),
    "a group with half a character": ({"group": "a\ud800"}, InvalidHandler, "printable"),
    "a lambda without an id": ({"function": lambda record: None}, InvalidHandler, "needs id="),
    "a partial without an id": ({"function": functools.partial(one)}, InvalidHandler, "needs id="),
    "an object without an id": ({"function": Mailer()}, InvalidHandler, "needs id="),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_handler_is_refused(case: str, add: Callable[..., Handlers]) -> None:
    options, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        add(**options)
    assert not list(add(two).subscriptions())[1:]


def test_an_id_may_be_given_or_is_taken_from_the_name(add: Callable[..., Handlers]) -> None:
    add()
    add(Mailer().send, match="a")
    add(Mailer(), match="b", id="mailer")
    (subscription,) = add(lambda record: None, match="c", id="lambda").subscriptions()
    ids = {handler.id for handler in subscription.handlers}
    assert ids == {f"{__name__}.one", f"{__name__}.Mailer.send", "mailer", "lambda"}


def test_two_handlers_with_one_id_are_refused(add: Callable[..., Handlers]) -> None:
    add(id="x")
    with pytest.raises(DuplicateHandler, match="same id: x"):
        add(two, id="x", group="other", topic="other", match="m")


def test_two_equal_matches_in_one_group_are_refused(add: Callable[..., Handlers]) -> None:
    add(match="order.*")
    with pytest.raises(DuplicateHandler, match=r"same match: 'order\.\*' in group 'g'"):
        add(two, match="order.*")
    add(two, match="order.*", group="other")
    add(two, match="order.*", topic="other", id="third")


def test_handlers_of_one_group_agree_on_where_it_starts(add: Callable[..., Handlers]) -> None:
    add(match="a", start="latest")
    with pytest.raises(InvalidHandler, match="disagree on start"):
        add(two, match="b", start="earliest")
    assert len(list(add(two, match="b", start="earliest", topic="other").subscriptions())) == 2


def test_the_first_registered_predicate_wins(add: Callable[..., Handlers]) -> None:
    add(match=lambda record: True)
    (subscription,) = add(two, match=lambda record: True).subscriptions()
    chosen = subscription.handler_for(a_record())
    assert chosen is not None
    assert chosen.function is one


@pytest.mark.parametrize(
    ("match", "wanted"),
    [
        ("order.*", {"order.placed", "order.", "order.item.added"}),
        ("order.placed", {"order.placed"}),
        ("*", {"*"}),
        ("order*", {"order*"}),
        (
            None,
            {
                "order.placed",
                "order.",
                "order.item.added",
                "order",
                "orders.x",
                "Order.placed",
                "*",
                "order*",
            },
        ),
    ],
)
def test_a_match_is_exact_or_a_prefix_that_ends_in_a_dot_and_a_star(
    match: str | None, wanted: set[str], add: Callable[..., Handlers]
) -> None:
    (subscription,) = add(match=match).subscriptions()
    types = {"order.placed", "order.", "order.item.added", "order", "orders.x", "Order.placed", "*", "order*"}
    assert {type for type in types if subscription.handler_for(a_record(type=type))} == wanted


def test_registering_returns_the_function_as_it_was() -> None:
    outbox = Outbox("memory://")
    assert outbox.handler("a", group="g")(one) is one
    outbox.close()
