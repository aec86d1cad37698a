"""`penstock handlers`: each handler with what it matches, whose policy counts and its bounds."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import main
from tests.suites.refusal import refusal

Run = Callable[..., tuple[int, str, str]]
SHOP = """
from dataclasses import dataclass
from datetime import timedelta
from penstock import Exponential, Fixed, Linear, Outbox, Record

nine = Linear(max_retries=9, no_retry_on=ValueError)
outbox = Outbox("sqlite:///nowhere/there-is-no-such-folder.db", retry=nine)
number = 5

class OrderEvent: ...

@outbox.event("order.placed", aliases=["OrderPlaced"], parents=[OrderEvent])
@dataclass
class OrderPlaced(OrderEvent):
    id: str

@outbox.handler(group="mailer", timeout=timedelta(seconds=90), rate="5/min")
def any_order(event: OrderEvent): ...

@outbox.handler(
    "order.paid", group="mailer", retry=Exponential(jitter=0.5), fallback=any_order, concurrency=4
)
async def paid(record: Record): ...

class Books:
    retry_policy = Fixed(1, max_retries=1, retry_on=(OSError, "shop.Busy"))
    def __call__(self, records): ...

outbox.handler(
    lambda record: True,
    group="books",
    id="books[all]",
    batch=50,
    timeout=None,
    on_failure="alone",
    aliases=["old-books"],
)(Books())
outbox.handler("order.*", group="tax", id="tax", on_failure="dead", start="latest")(lambda record: None)
"""


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write the program that the commands look at; its store is not there."""
    (tmp_path / "handled_shop.py").write_text(SHOP, "utf-8")
    (tmp_path / "empty_shop.py").write_text("import penstock\noutbox = penstock.Outbox('memory://')", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("handled_shop", "empty_shop"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run the command; it returns the exit code, what was printed and what was complained."""

    def command(*args: str) -> tuple[int, str, str]:
        left = refusal(SystemExit, main, ["handlers", *args])
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out, printed.err

    return command


def listed(run: Run, *args: str) -> list[dict[str, Any]]:
    code, out, _ = run("handled_shop:outbox", "--json", *args)
    assert code == 0
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_each_handler_is_shown_with_the_policy_that_counts_and_whose_it_is(run: Run) -> None:
    shown = [(each["group"], each["id"], each["retry"], each["retry_from"]) for each in listed(run)]
    assert shown == [
        ("books", "books[all]", "1 retry after 1s; only OSError, shop.Busy", "handler"),
        ("mailer", "handled_shop.any_order", "9 retries after 2s, 4s, 6s, 8s, 10s, …; never ValueError", "outbox"),
        ("mailer", "handled_shop.paid", "3 retries after 2s, 4s, 8s ± 500ms", "decorator"),
        ("tax", "tax", "no retries", "outbox"),
    ]


def test_all_that_was_registered_is_shown(run: Run) -> None:
    books, mailer, paid, tax = listed(run)
    assert mailer == {
        "group": "mailer",
        "topic": "events",
        "start": "earliest",
        "id": "handled_shop.any_order",
        "aliases": [],
        "match": "OrderEvent",
        "types": ["OrderPlaced", "order.placed"],
        "kind": "sync",
        "batch": None,
        "transaction": False,
        "lanes": "key",
        "retry": "9 retries after 2s, 4s, 6s, 8s, 10s, …; never ValueError",
        "retry_from": "outbox",
        "max_retries": 9,
        "on_failure": "park",
        "on_exhausted": "hold",
        "fallback": None,
        "timeout_seconds": 90.0,
        "concurrency": None,
        "rate": 5 / 60,
    }
    assert (paid["kind"], paid["fallback"], paid["concurrency"]) == ("async", "any_order", 4)
    assert (books["match"], books["batch"], books["aliases"]) == ("<lambda>(record)", 50, ["old-books"])
    assert (books["timeout_seconds"], books["on_failure"]) == (None, "alone")
    assert (tax["match"], tax["max_retries"], tax["start"]) == ("order.*", 0, "latest")


def test_people_are_given_a_table(run: Run) -> None:
    code, out, _ = run("handled_shop:outbox")
    words = " ".join(out.split())
    assert code == 0
    for text in ("OrderEvent", "(async)", "books[all]", "90s, 5/min", "4 at", "no timeout", "decorator"):
        assert text in words


def test_a_type_is_given_to_the_first_of_its_group(run: Run) -> None:
    found = listed(run, "--type", "OrderPlaced")
    assert [each["id"] for each in found] == ["books[all]", "handled_shop.any_order", "tax"]
    assert [each["id"] for each in listed(run, "--type", "OrderPlaced", "--group", "mailer")] == [
        "handled_shop.any_order"
    ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("empty_shop:outbox",), "no handler is registered\n"),
        (("handled_shop:outbox", "--group", "x"), "no handler is registered in group x\n"),
        (("handled_shop:outbox", "--type", "a", "--group", "tax"), "no handler is registered for 'a' in group tax\n"),
    ],
)
def test_none_found_is_told_and_ends_with_1(run: Run, args: tuple[str, ...], words: str) -> None:
    assert run(*args) == (1, words, "")


@pytest.mark.parametrize("target", ["handled_shop:number", "handled_shop", "handled_shop:none", "nothing:x"])
def test_what_is_no_outbox_is_refused(run: Run, target: str) -> None:
    code, out, err = run(target)
    assert (code, out) == (2, "")
    assert target.partition(":")[0] in err
