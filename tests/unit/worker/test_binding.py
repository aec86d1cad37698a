"""How a function is called, and what its id is."""

import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional

import msgspec
import pytest

from penstock.errors import InvalidHandler, Undecodable
from penstock.model.event_types import EventTypes
from penstock.model.record import Record
from penstock.worker.binding import Binding, id_of
from tests.suites.records import a_record


@dataclass
class Placed:
    """A typed event."""

    order_id: str


class Paid(msgspec.Struct):
    """Another one."""

    amount: int


RECORD = a_record(data=b'{"order_id": "o-1"}')
EVENT = Placed("o-1")


def bound(function: Callable[..., Any], *, batch: bool = False) -> Binding:
    """Return a binding that knows the two classes."""
    types = EventTypes()
    types.register(Placed, "order.placed", aliases=["order.made"])
    types.register(Paid, "order.paid")
    binding = Binding(function, "g", batch=batch)
    binding.resolve(types)
    return binding


def plain(record):  # type: ignore[no-untyped-def]
    return record


def annotated(record: Record) -> Any:
    return record


def anything(record: Any) -> Any:
    return record


def typed(event: Placed) -> Any:
    return event


def optional(event: Placed | None) -> Any:
    return event


def optional_in_words(event: "Placed | None") -> Any:
    return event


def old_optional(event: Optional[Placed]) -> Any:  # noqa: UP045
    return event


def marked(event: Annotated[Placed, "note"]) -> Any:
    return event


def both(record: Record, event: Placed) -> Any:
    return record, event


def other_way(event: Placed, record: Record) -> Any:
    return record, event


def half_annotated(event: Placed, record) -> Any:  # type: ignore[no-untyped-def]
    return record, event


def with_default(event: Placed, session: int = 5, *, mailer: str = "m") -> Any:
    return event


def only_default(record: Record | None = None) -> Any:
    return record


def rest(*args: Any) -> Any:
    return args[0]


def in_words(event: "Placed") -> Any:
    return event


def unseen(record: "typing_only.Record", event: "typing_only.Placed") -> Any:  # type: ignore[name-defined]  # noqa: F821
    return record, event


def needs_more(mailer: str, event: Placed) -> Any:
    return event


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def with_session(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(event: Placed) -> Any:
        return function("a", "b", event)

    return wrapper


@with_session
def injected(one: str, two: str, event: Placed) -> Any:
    return event


class Mailer:
    def send(self, event: Placed) -> Any:
        return event

    @classmethod
    def of_class(cls, event: Placed) -> Any:
        return event

    @staticmethod
    def static(event: Placed) -> Any:
        return event

    def __call__(self, record: "Record", event: "Placed") -> Any:
        return record, event


CALLS: dict[str, tuple[Callable[..., Any], Any]] = {
    "unannotated": (plain, RECORD),
    "Record": (annotated, RECORD),
    "Any": (anything, RECORD),
    "a class": (typed, EVENT),
    "a class or None": (optional, EVENT),
    "a class or None, in words": (optional_in_words, EVENT),
    "Optional": (old_optional, EVENT),
    "Annotated": (marked, EVENT),
    "both": (both, (RECORD, EVENT)),
    "both the other way": (other_way, (RECORD, EVENT)),
    "one of both annotated": (half_annotated, (RECORD, EVENT)),
    "others have defaults": (with_default, EVENT),
    "nothing but a default": (only_default, RECORD),
    "any arguments": (rest, RECORD),
    "in words": (in_words, EVENT),
    "names for type checkers only": (unseen, (RECORD, EVENT)),
    "a partial": (functools.partial(needs_more, "m"), EVENT),
    "decorated": (logged(typed), EVENT),
    "decorated twice, and partly filled": (functools.partial(logged(logged(needs_more)), "m"), EVENT),
    "a decorator that fills parameters": (injected, EVENT),
    "a method": (Mailer().send, EVENT),
    "a class method": (Mailer.of_class, EVENT),
    "a static method": (Mailer.static, EVENT),
    "an object": (Mailer(), (RECORD, EVENT)),
    "a lambda": (lambda record: record, RECORD),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_function_is_given_what_it_asks_for(case: str) -> None:
    function, answer = CALLS[case]
    assert bound(function).call(RECORD) == answer


def test_a_class_inside_a_function_is_found_by_its_name() -> None:
    @dataclass
    class Local:
        amount: int

    def handler(event: "Local") -> Any:
        return event

    types = EventTypes()
    types.register(Local, "local")
    binding = Binding(handler, "g", batch=False)
    binding.resolve(types)
    assert binding.call(a_record(data=b'{"amount": 3}')) == Local(3)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: None, "needs 0 parameters"),
        (lambda a, b, c: None, "needs 3 parameters"),
        (lambda a, b: None, "a and b are both records; .*annotate which is which"),
        (lambda record, *, mailer: None, "named parameters without a default"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(InvalidHandler, match=words):
        Binding(function, "g", batch=False)


def two_events(one: Placed, two: Paid) -> None: ...
def of_a_dict(value: dict[str, Any]) -> None: ...
def of_a_string(value: str) -> None: ...
def of_a_list(records: list[Record]) -> None: ...
def of_either(event: Placed | Paid) -> None: ...
def of_no_list(record: Record) -> None: ...
def of_a_set(records: set[Record]) -> None: ...


@pytest.mark.parametrize(
    ("function", "batch", "words"),
    [
        (two_events, False, "one and two are both events"),
        (of_a_dict, False, r"cannot be given dict\[str, .*Any\]: annotate it as Record or with a class"),
        (of_a_string, False, "cannot be given str"),
        (of_a_list, False, "lists are given with batch="),
        (of_either, False, "cannot be given"),
        (of_no_list, True, r"annotate it as list\[Record\]"),
        (of_a_set, True, r"annotate it as list\[Record\]"),
    ],
)
def test_an_annotation_that_nothing_fits_is_refused(function: Callable[..., Any], batch: bool, words: str) -> None:
    with pytest.raises(InvalidHandler, match=words):
        Binding(function, "g", batch=batch)


def many_plain(records):  # type: ignore[no-untyped-def]
    return records


def many_records(records: list[Record]) -> Any:
    return records


def many_events(events: Sequence[Placed]) -> Any:
    return events


def many_both(events: list[Placed], records: list[Record]) -> Any:
    return records, events


def many_unseen(events: "list[typing_only.Placed]") -> Any:  # type: ignore[name-defined]  # noqa: F821
    return events


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (many_plain, [RECORD]),
        (many_records, [RECORD]),
        (many_events, [EVENT]),
        (many_both, ([RECORD], [EVENT])),
        (many_unseen, [EVENT]),
    ],
)
def test_a_batch_handler_is_given_lists(function: Callable[..., Any], answer: Any) -> None:
    binding = bound(function, batch=True)
    assert binding.call_many is not None
    events = [] if binding.decode is None else [binding.decode(RECORD)]
    assert binding.call_many([RECORD], events) == answer
    assert binding.call(RECORD) == answer


def test_what_cannot_be_decoded_says_so() -> None:
    for data in (b"{", b"{}", b'{"order_id": 5}', b"\xff", b""):
        with pytest.raises(Undecodable, match=r"order\.placed"):
            bound(typed).call(a_record(data=data))


def test_a_tombstone_is_none_for_those_who_say_so() -> None:
    assert bound(optional).call(a_record(data=None)) is None
    with pytest.raises(Undecodable, match="it is a tombstone"):
        bound(typed).call(a_record(data=None))


def test_the_names_are_the_type_and_its_aliases() -> None:
    assert bound(typed).names == frozenset({"order.placed", "order.made"})
    assert bound(plain).names is None


def test_async_functions_are_told_apart_by_what_calling_them_gives() -> None:
    async def async_one(record: Record) -> None: ...

    class AsyncObject:
        async def __call__(self, record: Record) -> None: ...

    runs_it = logged(async_one)  # a sync wrapper: perhaps it runs the coroutine by itself
    found = [bound(each).is_async for each in (async_one, functools.partial(async_one), AsyncObject(), runs_it)]
    assert found == [True, True, True, False]
    assert not bound(typed).is_async


def test_ids_are_equal_over_decorators_and_partials() -> None:
    wrapped: list[Callable[..., Any]] = [
        typed,
        logged(typed),
        logged(logged(typed)),
        functools.partial(typed),
        functools.partial(logged(typed)),
    ]
    assert {id_of(each, "g") for each in wrapped} == {f"{__name__}.typed"}
    assert id_of(Mailer().send, "g") == id_of(Mailer.send, "g") == f"{__name__}.Mailer.send"


@pytest.mark.parametrize(
    "function",
    [lambda record: None, functools.partial(lambda record: None), logged(lambda record: None), Mailer()],
    ids=["lambda", "partial", "decorated", "object"],
)
def test_what_has_no_name_needs_an_id(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidHandler, match="needs id="):
        id_of(function, "g")


SHOP = """
import sys
from penstock.worker.binding import id_of
def mail(record): ...
if __name__ == "__main__":
    sys.stdout.write(id_of(mail, "g"))
"""


def test_ids_are_equal_over_reloads_and_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b08_shop.py").write_text(SHOP, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    shop = importlib.import_module("b08_shop")
    first = id_of(shop.mail, "g")
    again = id_of(importlib.reload(shop).mail, "g")
    told = {
        subprocess.run(
            [sys.executable, *how], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for how in (["b08_shop.py"], ["-m", "b08_shop"])
    }
    assert {first, again} | told == {"b08_shop.mail"}
