"""`penstock check`: a handler that nobody would call, and records that nobody would handle, end it with 1."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Outbox
from penstock.cli import main
from tests.suites.refusal import refusal

Check = Callable[[str], tuple[int, dict[str, Any]]]
HEAD = """
from penstock import Outbox, Record
outbox = Outbox({url!r})
"""
MAILER = """
@outbox.handler("order.placed", group="mailer")
def send(record: Record) -> None: ...
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Give the address of a store with its tables made."""
    address = f"sqlite:///{tmp_path}/shop.db"
    outbox = Outbox(address)
    outbox.migrate()
    outbox.close()
    return address


@pytest.fixture
def write(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Give a way to write a module of a program; it is forgotten afterwards."""
    home = tmp_path / "code"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(home)
    before = set(sys.modules)

    def module(name: str, text: str) -> None:
        path = home / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("{url!r}", repr(url)), "utf-8")
        importlib.invalidate_caches()

    yield module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(home)):
            del sys.modules[name]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """Give a way to run the command; it returns the exit code and what was found."""

    def command(target: str) -> tuple[int, dict[str, Any]]:
        left = refusal(SystemExit, main, ["check", target, "--json"])
        out = capsys.readouterr().out
        return left.code if isinstance(left.code, int) else 0, json.loads(out) if out else {}

    return command


def put(url: str, *types: str, topic: str = "events", group: str | None = None) -> None:
    """Bring events into the log, and let a group read them if one is named."""
    outbox = Outbox(url)
    if group is not None:
        outbox.handler(group=group, topic=topic, id=group)(lambda record: None)
    with outbox.transaction() as conn:
        for type in types:
            outbox.publish(conn, type, 1, topic=topic)
    outbox.drain()
    outbox.close()


def test_a_program_that_serves_its_store_is_well(write: Any, check: Check, url: str) -> None:
    put(url, "order.placed", group="mailer")
    write("shop", HEAD + MAILER)
    code, found = check("shop:outbox")
    assert (code, found["ok"], found["findings"]) == (0, True, [])
    assert [(each["group"], each["topic"], each["match"]) for each in found["handlers"]] == [
        ("mailer", "events", ["order.placed"])
    ]


def test_a_group_without_a_handler_is_a_problem(write: Any, check: Check, url: str) -> None:
    put(url, "order.placed", group="books")
    write("shop", HEAD + MAILER)
    code, found = check("shop:outbox")
    assert code == 1
    (one,) = found["findings"]
    assert (one["weight"], one["about"]) == ("problem", "group books")
    assert "penstock groups delete books" in one["remedy"]


def test_a_filter_that_no_handler_serves_is_a_problem_and_in_part_a_warning(write: Any, check: Check, url: str) -> None:
    put(url, "order.placed", group="mailer")
    outbox = Outbox(url)
    with outbox.transaction() as conn:
        conn.execute("""UPDATE penstock_group SET filters = '[["events:order.paid"]]'""")
    write("shop", HEAD + MAILER)
    code, found = check("shop:outbox")
    assert (code, [each["weight"] for each in found["findings"]]) == (1, ["problem"])
    with outbox.transaction() as conn:
        conn.execute("""UPDATE penstock_group SET filters = '[["events:order.paid", "events:order.placed"]]'""")
    code, found = check("shop:outbox")
    assert (code, [each["weight"] for each in found["findings"]]) == (0, ["warning"])
    assert "events:order.paid" in found["findings"][0]["what"]
    outbox.close()


def test_records_that_nobody_reads_are_a_problem(write: Any, check: Check, url: str) -> None:
    put(url, "order.placed", "order.paid", topic="orders")
    write("shop", HEAD + MAILER)
    code, found = check("shop:outbox")
    (one,) = found["findings"]
    assert (code, one["weight"], one["about"]) == (1, "problem", "topic orders")
    assert "2 records" in one["what"]
    write("later", HEAD + MAILER.replace('group="mailer"', 'group="mailer", topic="orders"'))
    assert check("later:outbox")[0] == 0, "its first worker will read them"


def test_a_handler_of_another_outbox_is_a_problem(write: Any, check: Check) -> None:
    other = MAILER.replace("@outbox", "@other").replace("def send", "def forgotten")
    write("shop", HEAD + "other = Outbox({url!r})\n" + MAILER + other.replace("mailer", "books"))
    code, found = check("shop:outbox")
    (one,) = found["findings"]
    assert (code, one["weight"], "shop:other" in one["what"]) == (1, "problem", True)
    assert "forgotten" in one["about"]


def test_a_file_with_handlers_that_is_not_imported_is_a_problem(write: Any, check: Check) -> None:
    write("store/__init__", "")
    write("store/app", HEAD + MAILER)
    write("store/books", "from store.app import Record, outbox\n" + MAILER.replace("mailer", "books"))
    write("store/quiet", "def handler(group): ...\n")
    write("store/broken", "def (:\n")
    code, found = check("store.app:outbox")
    (one,) = found["findings"]
    assert (code, one["weight"], one["about"].endswith("books.py")) == (1, "problem", True)
    importlib.import_module("store.books")
    assert check("store.app:outbox")[0] == 0


def test_a_type_that_no_class_has_is_a_warning(write: Any, check: Check) -> None:
    typed = """
from dataclasses import dataclass

@outbox.event("order.paid")
@dataclass
class Paid:
    id: str
"""
    write("shop", HEAD + typed + MAILER)
    code, found = check("shop:outbox")
    assert (code, [each["weight"] for each in found["findings"]]) == (0, ["warning"])
    assert "order.placed" in found["findings"][0]["what"]


def test_what_is_no_outbox_is_refused_and_people_get_a_table(
    write: Any, check: Check, capsys: pytest.CaptureFixture[str], tmp_path: Path, url: str
) -> None:
    write("shop", HEAD + MAILER + "number = 5\n")
    assert check("shop:number")[0] == 2
    assert refusal(SystemExit, main, ["check", "shop:outbox"]).code in (0, None)
    out = capsys.readouterr().out
    assert "mailer" in out
    assert out.endswith("no problems\n")
    write("empty", HEAD.replace("{url!r}", repr(f"sqlite:///{tmp_path}/none.db")))
    assert check("empty:outbox")[0] == 3
    assert not (tmp_path / "none.db").exists()


def test_an_object_that_cannot_say_its_class_does_not_matter(write: Any, check: Check, url: str) -> None:
    """As Django's settings before they are configured."""
    put(url, "order.placed", group="mailer")
    proxy = """
class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("not configured")
proxy = Proxy()
"""
    write("shop", HEAD + MAILER + proxy)
    assert check("shop:outbox")[0] == 0


def test_a_handler_for_a_parent_is_no_handler_for_an_unknown_type(write: Any, check: Check, url: str) -> None:
    types = """
from dataclasses import dataclass

@outbox.event("order.placed", parents=["order.event"])
@dataclass
class Placed:
    id: str

@outbox.handler("order.event", group="mailer", id="parent")
def parent(record: Record) -> None: ...

@outbox.handler("order.evnt", group="mailer", id="misspelt")
def misspelt(record: Record) -> None: ...
"""
    put(url, "order.placed", group="mailer")
    write("shop", HEAD + types)
    _, found = check("shop:outbox")
    assert [each["about"] for each in found["findings"] if "no event is registered" in each["what"]] == [
        "handler misspelt"
    ]
