"""`penstock dead` and `penstock lanes`: what they print, what they change, and how they end."""

import json
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import Outbox, Record
from penstock.cli import main
from penstock.model.retry import Fixed
from tests.suites.records import a_record
from tests.suites.refusal import refusal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the address of a file that is not there yet; commands find it in the environment."""
    address = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("PENSTOCK_URL", address)
    return address


@pytest.fixture
def failing(url: str) -> list[int]:
    """Give the list of values that the shop's handlers fail on."""
    return [1]


@pytest.fixture
def shop(url: str, failing: list[int]) -> Outbox:
    """Give an outbox where two keys are held and one record of another group is dead."""
    outbox = Outbox(url)
    outbox.migrate()
    never = Fixed(timedelta(seconds=1), max_retries=0)

    def handle(record: Record) -> None:
        if record.value in failing:
            raise ValueError(f"no [b]such[/b]\nbook: {record.value}")

    outbox.handler(group="mailer", id="mailer", retry=never)(handle)
    outbox.handler(group="books", id="books", retry=never, on_exhausted="release", match="order.paid")(handle)
    publish(outbox, ("order.placed", 1, "o-1"), ("order.placed", 2, "o-1"), ("order.paid", 1, "o-2"))
    outbox.drain()
    return outbox


def publish(outbox: Outbox, *events: tuple[str, Any, str]) -> None:
    with outbox.transaction() as conn:
        for type, value, key in events:
            outbox.publish(conn, type, value, key=key)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run a command; it returns the exit code, what was printed and what was complained."""

    def command(*args: str) -> tuple[int, str, str]:
        left = refusal(SystemExit, main, list(args))
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out, printed.err

    return command


def listed(run: Run, *args: str) -> list[dict[str, Any]]:
    code, out, _ = run("dead", "list", "--json", *args)
    assert code == 0
    found: list[dict[str, Any]] = json.loads(out)["dead"]
    return found


def test_a_list_shows_each_letter_on_one_line_whatever_its_reason_is(run: Run, shop: Outbox) -> None:
    code, out, err = run("dead", "list")
    rows = [line for line in out.splitlines() if "order." in line]
    assert (code, err, len(rows)) == (0, "", 3)
    assert all("ValueError: no [b]such[/b]" in row for row in rows)
    assert sum(" key " in row for row in rows) == 2


def test_a_list_in_json_says_all(run: Run, shop: Outbox) -> None:
    (letter,) = listed(run, "--group", "mailer", "--key", "o-1")
    died_at, id, partition = letter.pop("died_at"), letter.pop("id"), letter.pop("partition")
    name = letter.pop("name")
    assert letter == {
        "group": "mailer",
        "topic": "events",
        "offset": 0,
        "key": "o-1",
        "type": "order.placed",
        "failures": 1,
        "reason": "ValueError: no [b]such[/b]\nbook: 1",
        "holding": True,
        "reset_at": None,
    }
    assert died_at.endswith("Z")
    assert (name.startswith(f"event:order.placed:{partition:04}:"), name.endswith(f":{id}")) == (True, True)
    letter |= {"died_at": died_at, "id": id, "partition": partition, "name": name}
    assert listed(run, "--id", id) == [letter]
    assert len(listed(run, "--type", "order.paid")) == len(listed(run, "--key", "o-2")) == 2
    assert len(listed(run, "--topic", "events")) == 3


def test_a_list_goes_on_where_the_page_before_ended(run: Run, shop: Outbox) -> None:
    seen, after = list[str](), list[str]()
    while True:
        _, out, _ = run("dead", "list", "--json", "--limit", "1", *after)
        page = json.loads(out)
        seen += [f"{each['group']} {each['id']}" for each in page["dead"]]
        if page["after"] is None:
            break
        after = ["--after", page["after"]]
    assert len(set(seen)) == len(seen) == 3
    assert "more: --after " in run("dead", "list", "--limit", "2")[2]
    assert run("dead", "list", "--limit", "3")[2] == ""


def test_nothing_to_list_is_said(run: Run, shop: Outbox) -> None:
    assert run("dead", "list", "--key", "nobody") == (0, "no dead letters match\n", "")
    run("dead", "discard", "--group", "mailer", "--all")
    run("dead", "discard", "--group", "books", "--all")
    assert run("dead", "list") == (0, "no dead letters\n", "")
    shop.drain()
    assert run("lanes") == (0, "no lanes wait\n", "")


def test_a_letter_is_shown_by_id_or_place(run: Run, shop: Outbox) -> None:
    (letter,) = listed(run, "--group", "mailer", "--key", "o-2")
    code, out, _ = run("dead", "show", letter["id"])
    assert (code, out.count("type:       order.paid")) == (0, 2)  # both groups gave it up
    assert "reason:     ValueError: no [b]such[/b]\\nbook: 1\n" in out
    assert "value:      1\n" in out
    place = f"events/{letter['partition']}/{letter['offset']}"
    code, out, _ = run("dead", "show", place, "--group", "mailer", "--json")
    (shown,) = json.loads(out)
    assert code == 0
    assert {name: shown[name] for name in letter} == letter
    assert (shown["value"], shown["headers"]) == (1, {})
    assert run("dead", "show", place)[0] == 2
    assert run("dead", "show", "events/0/99", "--group", "mailer")[0] == 1
    assert run("dead", "show", "nobody")[0] == 1


def test_what_is_no_text_is_shown_all_the_same(run: Run, shop: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    """And nothing of it reaches the terminal as an order to it."""
    caplog.set_level(logging.CRITICAL, "penstock")  # xdist cannot carry a key that is no text
    odd = a_record("caf\udce9\x1b[2J", b"\xff\x00", type="odd")
    shop.log.append("events", [odd])
    shop.drain()
    (letter,) = listed(run, "--type", "odd")
    assert letter["key"] == "caf\\udce9\x1b[2J"
    (shown,) = json.loads(run("dead", "show", odd.id, "--json")[1])
    assert (shown["value"], shown["data_base64"]) == (None, "/wA=")
    for args in (["dead", "list"], ["dead", "show", odd.id]):
        code, out, _ = run(*args)
        assert code == 0
        assert "\x1b" not in out
        assert "\\x1b[2J" in out


def test_a_requeue_says_what_it_did(run: Run, shop: Outbox, failing: list[int]) -> None:
    assert run("dead", "requeue", "--group", "mailer", "--all", "--dry-run") == (
        0,
        "2 dead letters would be requeued\n",
        "",
    )
    assert run("dead", "requeue", "--group", "mailer", "--key", "o-1") == (0, "1 dead letter requeued\n", "")
    code, out, _ = run("dead", "requeue", "--group", "books", "--type", "order.paid")
    assert (code, out) == (
        0,
        "1 dead letter requeued\n1 of them out of order: later records of their keys were delivered\n",
    )
    failing.clear()
    assert shop.drain().delivered == 3
    assert [each["key"] for each in listed(run)] == ["o-2"]
    assert run("dead", "requeue", "--group", "mailer", "--key", "o-1") == (
        0,
        "no dead letters of group mailer match\n",
        "",
    )


def test_a_discard_says_what_it_did(run: Run, shop: Outbox) -> None:
    (letter,) = listed(run, "--group", "books")
    named = ("dead", "discard", "--group", "books", "--id", letter["id"])
    assert run(*named, "--dry-run")[1] == "1 dead letter would be discarded\n"
    assert run(*named) == (0, "1 dead letter discarded\n", "")
    code, out, err = run(*named)
    assert (code, out) == (1, "")
    assert letter["id"] in err
    code, out, _ = run(*named, "--json")
    assert (code, json.loads(out)["count"]) == (1, 0)
    code, out, _ = run("dead", "discard", "--group", "mailer", "--all", "--json")
    assert (code, json.loads(out)) == (0, {"count": 2, "out_of_order": 0, "unedited": 0})


def test_what_the_log_no_longer_has_is_requeued_from_its_letter(run: Run, shop: Outbox, url: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn, conn:
        conn.execute("DELETE FROM penstock_log WHERE type = 'order.paid'")
    assert run("dead", "requeue", "--group", "mailer", "--all") == (0, "2 dead letters requeued\n", "")


def test_a_skip_lets_the_key_go_on_and_keeps_the_letter(run: Run, shop: Outbox) -> None:
    skip = ("dead", "skip", "--group", "mailer", "--key", "o-1")
    assert run(*skip, "--dry-run") == (0, "1 dead letter would be skipped\n", "")
    assert run(*skip) == (0, "1 dead letter skipped\n", "")
    assert run(*skip) == (0, "no dead letters of group mailer match and hold their key\n", "")
    (letter,) = listed(run, "--group", "mailer", "--key", "o-1")
    assert letter["holding"] is False
    named = ("dead", "skip", "--group", "mailer", "--id", letter["id"])
    assert run(*named)[:2] == (1, "no dead letters of group mailer match and hold their key\n")
    code, out, _ = run(*named, "--json")
    assert (code, json.loads(out)["count"]) == (1, 0)


def test_a_requeue_may_put_records_last_and_edit_their_headers(run: Run, shop: Outbox, failing: list[int]) -> None:
    requeue = ("dead", "requeue", "--group", "mailer", "--key", "o-1", "--last")
    edits = ("--header", "tenant=a=b", "--header", "empty=", "--drop-header", "x")
    assert run(*requeue, *edits, "--dry-run") == (0, "1 dead letter would be requeued\n", "")
    assert run(*requeue, *edits) == (0, "1 dead letter requeued\n", "")
    got: list[Any] = []
    failing.clear()
    shop.handler(group="mailer", id="sees", match="order.placed")(
        lambda record: got.append((record.value, record.headers))
    )
    shop.drain()
    assert got == [(2, {}), (1, {"tenant": "a=b", "empty": ""})]


@pytest.mark.parametrize("edit", [("--header", "tenant"), ("--header", "=x"), ("--header", "id\n=x")])
def test_a_header_that_can_be_none_is_refused(run: Run, shop: Outbox, edit: tuple[str, str]) -> None:
    code, _, err = run("dead", "requeue", "--group", "mailer", "--all", *edit)
    assert code == 2
    assert "NAME=VALUE" in err or "printable" in err
    assert len(listed(run)) == 3


def test_all_must_be_said(run: Run, shop: Outbox) -> None:
    for verb in ("requeue", "discard", "skip"):
        code, _, err = run("dead", verb, "--group", "mailer")
        assert code == 2
        assert "or --all" in err
        assert run("dead", verb, "--group", "mailer", "--all", "--key", "o-1")[0] == 2
        assert run("dead", verb, "--all")[0] == 2
    assert len(listed(run)) == 3


def test_lanes_say_what_they_wait_for(run: Run, shop: Outbox) -> None:
    code, out, _ = run("lanes")
    assert code == 0
    assert sum(" held " in line for line in out.splitlines()) == 2
    code, out, _ = run("lanes", "--json", "--group", "mailer", "--key", "o-1", "--held", "--topic", "events")
    (lane,) = json.loads(out)["lanes"]
    assert (lane["key"], lane["state"], lane["until"], lane["waiting"]) == ("o-1", "held", None, 1)
    assert run("lanes", "--limit", "1")[2].startswith("more: --after ")
    run("dead", "requeue", "--group", "books", "--all")
    assert "o-2 (offset 0 alone)" in run("lanes", "--group", "books")[1]


def test_exit_codes_tell_what_went_wrong(run: Run, shop: Outbox, url: str, tmp_path: Path) -> None:
    for args in (["dead", "list"], ["lanes"]):
        assert run(*args, "--limit", "0")[0] == 2
        assert run(*args, "--after", "nonsense")[0] == 2
        assert run(*args, "--group", "nobody")[0] == 1
        assert run(*args, "--url", f"sqlite:///{tmp_path}/no/such/folder/shop.db")[0] == 3
        code, _, err = run(*args, "--url", f"sqlite:///{tmp_path}/missing.db")
        assert code == 3
        assert "migrate" in err
    assert run("dead", "requeue", "--group", "nobody", "--all")[0] == 1
