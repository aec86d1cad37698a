"""What may be registered as a handler, and which one is for a record."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from penstock import Exponential, Fixed, Outbox, Record
from penstock.delivery.verdict import OnExhausted, OnFailure, Rules
from penstock.errors import DuplicateHandler, InvalidHandler, InvalidTopic, InvalidType
from penstock.worker.handler_options import HandlerOptions
from penstock.worker.handlers import Handlers
from tests.suites.records import a_record


def one(record: Record) -> None:
    """A handler with a name."""


def two(record: Record) -> None:
    """Another one."""


def many(records: list[Record]) -> None:
    """A handler of batches."""


async def awaited_match(record: Record) -> bool:
    """A predicate that cannot answer at once."""
    return True


class Mailer:
    """A class whose method is a handler."""

    def send(self, record: Record) -> None: ...

    def __call__(self, record: Record) -> None: ...


@pytest.fixture
def add() -> Callable[..., Any]:
    """Give the registration of a handler, with what a test does not name filled in."""
    handlers = Handlers()

    def registered(function: Any = one, **options: Any) -> Handlers:
        handlers.add(function, HandlerOptions(**{"group": "g"} | options))
        return handlers

    return registered


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no function": ({"function": 5, "id": "x"}, InvalidHandler, "cannot be called"),
    "a match that is none": ({"match": 5}, InvalidHandler, "match=5"),
    **{
        f"a star or blanks: {match!r}": ({"match": match}, InvalidHandler, "leave match out for all types")
        for match in ("*", "*.b", "a.*.c", "a*", ".*", "a.*.*", " a.b ", "a.b ", "order.* ")
    },
    "an empty type": ({"match": ""}, InvalidType, "1 to 255"),
    "a topic that is none": ({"topic": "a b"}, InvalidTopic, "'a b'"),
    "an unknown start": ({"start": "now"}, InvalidHandler, "must be one of 'earliest', 'latest'"),
    "an empty group": ({"group": ""}, InvalidHandler, "1 to 255"),
    "a group of spaces": ({"group": "  "}, InvalidHandler, "1 to 255"),
    "a long group": ({"group": "x" * 256}, InvalidHandler, "1 to 255"),
    "a group that is no string": ({"group": None}, InvalidHandler, "1 to 255"),
    "a group with a NUL": ({"group": "a\x00b"}, InvalidHandler, "printable"),
    "a group with half a character": ({"group": "a\ud800"}, InvalidHandler, "printable"),
    "a lambda without an id": ({"function": lambda record: None}, InvalidHandler, "needs id="),
    "a partial of a lambda": ({"function": functools.partial(lambda record: None)}, InvalidHandler, "needs id="),
    "an object without an id": ({"function": Mailer()}, InvalidHandler, "needs id="),
    "an id that is none": ({"id": 7}, InvalidHandler, "id=7"),
    "an empty id": ({"id": " "}, InvalidHandler, "id=' '"),
    "a class as match": ({"match": Mailer}, InvalidHandler, "annotate the handler's parameter"),
    "an async predicate": ({"match": awaited_match}, InvalidHandler, "is async"),
    "a timeout of nothing": ({"timeout": 0}, InvalidHandler, "timeout=0 must be seconds"),
    "a timeout below zero": ({"timeout": timedelta(seconds=-1)}, InvalidHandler, "timeout="),
    "a timeout in words": ({"timeout": "10s"}, InvalidHandler, "timeout='10s'"),
    "an endless timeout": ({"timeout": float("inf")}, InvalidHandler, "None for no limit"),
    "no concurrency": ({"concurrency": 0}, InvalidHandler, "concurrency=0 must be a whole number of 1"),
    "half a concurrency": ({"concurrency": 0.5}, InvalidHandler, r"concurrency=0\.5"),
    "a true batch": ({"batch": True}, InvalidHandler, "batch=True"),
    "no rate": ({"rate": 0}, InvalidHandler, "rate=0 must be records per second"),
    "a rate of no known unit": ({"rate": "5/fortnight"}, InvalidHandler, "'100/s' or '5/min'"),
    "a fallback that is none": ({"fallback": 5}, InvalidHandler, "fallback=5 cannot be called"),
    "a fallback that asks too much": ({"fallback": lambda a, b, c: None}, InvalidHandler, "too much"),
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
        (None, {"order.placed", "order.", "order.item.added", "order", "orders.x", "Order.placed", "*", "order*"}),
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


@dataclass
class Placed:
    """A typed event."""

    order_id: str


def typed(event: Placed) -> None:
    """A handler that takes one."""


def test_the_options_of_a_handler_are_kept_in_one_unit() -> None:
    handlers = Handlers()
    bounded = HandlerOptions(
        group="g", id="a", timeout=timedelta(minutes=1), rate="30/min", concurrency=2, aliases="old"
    )
    first = handlers.add(one, bounded)
    plain = handlers.add(one, HandlerOptions("b", group="g", id="b"))
    lasting = handlers.add(many, HandlerOptions("c", group="g", id="c", timeout=None, batch=10))
    assert first.aliases == ("old",)
    assert (first.timeout, first.rate, first.concurrency, first.batch) == (60.0, 0.5, 2, None)
    assert (plain.timeout, plain.rate, plain.concurrency) == (600.0, None, None)
    assert (lasting.timeout, lasting.batch) == (None, 10)
    assert [each.is_plain for each in (first, plain, lasting)] == [False, True, False]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"on_failure": "stop"}, "on_failure='stop' must be one of 'park', 'alone', 'dead'"),
        ({"on_exhausted": "keep"}, "on_exhausted='keep' must be one of 'hold', 'release'"),
        ({"retry": 3}, "retry=3 must be a retry policy"),
    ],
)
def test_rules_that_cannot_be_are_refused_by_name(words: dict[str, Any], named: str) -> None:
    outbox = Outbox("memory://")
    with pytest.raises(InvalidHandler, match=named):
        outbox.handler("a", group="g", **words)(one)
    outbox.close()


def test_rules_follow_the_words_of_the_registration() -> None:
    rules = HandlerOptions(group="g", on_failure="alone", on_exhausted="release").rules_with(Fixed(1))
    assert (rules.retry, rules.on_failure, rules.on_exhausted) == (Fixed(1), OnFailure.ALONE, OnExhausted.RELEASE)


def test_a_handler_without_a_policy_has_that_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_RETRY_MAX_RETRIES", "7")
    outbox = Outbox("memory://")
    outbox.handler("a", group="g")(one)
    ((handler,),) = [each.handlers for each in outbox._handlers.subscriptions()]
    assert handler.rules.retry == Exponential(max_retries=7)
    outbox.close()


def test_a_typed_handler_wants_its_type_and_the_aliases_only() -> None:
    outbox = Outbox("memory://")
    outbox.handler(group="g")(typed)
    outbox.handler(group="g")(two)
    outbox.event("order.placed", aliases=["order.made"])(Placed)  # after the handler
    (subscription,) = outbox._handlers.subscriptions()
    chosen = {
        type: handler.function
        for type in ("order.placed", "order.made", "order.paid")
        if (handler := subscription.handler_for(a_record(type=type)))
    }
    assert chosen == {"order.placed": typed, "order.made": typed, "order.paid": two}
    outbox.close()


def test_a_class_that_nobody_registers_is_told_when_the_handlers_are_used() -> None:
    outbox = Outbox("memory://")
    outbox.handler(group="g")(typed)
    for _ in range(2):
        with pytest.raises(InvalidHandler, match=r"asks for Placed in 'event'.*@outbox\.event"):
            list(outbox._handlers.subscriptions())
    outbox.event("order.placed")(Placed)
    assert len(list(outbox._handlers.subscriptions())) == 1
    outbox.close()


def test_a_type_and_its_class_are_the_same_match() -> None:
    outbox = Outbox("memory://")
    outbox.handler("order.made", group="g")(one)
    outbox.handler(group="g")(typed)
    outbox.event("order.placed", aliases=["order.made"])(Placed)
    with pytest.raises(DuplicateHandler, match=r"same match: 'order\.made' in group 'g'"):
        list(outbox._handlers.subscriptions())
    outbox.close()


def test_two_handlers_for_one_class_in_a_group_are_refused() -> None:
    outbox = Outbox("memory://")
    outbox.handler(group="g")(typed)
    with pytest.raises(DuplicateHandler, match="same match"):
        outbox.handler(group="g", id="other")(typed)
    outbox.close()


def test_a_record_that_no_handler_wants_has_none(add: Callable[..., Handlers]) -> None:
    add(match="a")
    (subscription,) = add(two, match="b.*").subscriptions()
    for type in ("new.type", "b", "A"):
        assert subscription.handler_for(a_record(type=type)) is None


def test_a_predicate_that_raises_is_a_failure_of_its_own_handler(add: Callable[..., Handlers]) -> None:
    def breaks(record: Record) -> bool:
        raise LookupError("the predicate broke")

    rules = Rules(Fixed(9), OnFailure.ALONE)
    add(match="exact")
    (subscription,) = add(many, match=breaks, retry=Fixed(9), on_failure="alone", batch=5).subscriptions()
    handler = subscription.handler_for(a_record())
    assert handler is not None
    assert (handler.id, handler.rules, handler.is_plain) == (f"{__name__}.many", rules, True)
    with pytest.raises(LookupError, match="the predicate broke"):
        handler.binding.call(a_record())
    exact = subscription.handler_for(a_record(type="exact"))
    assert exact is not None
    assert exact.function is one


def test_types_without_end_do_not_fill_the_memory(
    add: Callable[..., Handlers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.worker.handler._CACHED_TYPES", 10)
    (subscription,) = add(match="a").subscriptions()
    for number in range(100):
        subscription.handler_for(a_record(type=f"t-{number}"))
    assert len(subscription._by_type) <= 10
