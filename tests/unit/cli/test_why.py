"""`penstock why`: what it prints, and how it ends."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import Outbox, Record
from penstock.cli import main
from penstock.model.retry import Fixed
from tests.suites.refusal import refusal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the ids of two records of the key o-1, the first of which holds it."""
    address = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("PENSTOCK_URL", address)
    outbox = Outbox(address)
    outbox.migrate()
    outbox.log.create_topic("events", partitions=1)

    @outbox.handler(group="the mailer", retry=Fixed(timedelta(seconds=1), max_retries=0))
    def send(record: Record) -> None:
        raise ValueError("no such\n\x1b[31mmailbox")

    with outbox.transaction() as conn:
        found = [outbox.publish(conn, "order.placed", n, key="o-1") for n in range(2)]
    outbox.drain()
    outbox.close()
    return found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run the command; it returns the exit code, what was printed and what was complained."""

    def command(*args: str) -> tuple[int, str, str]:
        left = refusal(SystemExit, main, ["why", *args])
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out, printed.err

    return command


def test_it_prints_a_sentence_and_the_commands(run: Run, ids: list[str]) -> None:
    code, out, err = run("o-1")
    sentence, also, *commands = out.splitlines()
    assert also == "  also: 1 more record of the key waits behind it, up to events/0/1."
    assert (code, err) == (0, "o-1 is taken as a key; use --as to choose another kind\n")
    assert sentence.startswith("o-1 is held in group the mailer: its record events/0/0 became a dead letter ")
    assert "(ValueError: no such \\x1b[31mmailbox)" in sentence
    which = f"--group 'the mailer' --id {ids[0]}"
    assert commands == [f"  $ penstock dead requeue {which}", f"  $ penstock dead discard {which}"]


def test_it_prints_what_would_be_in_the_way_next(run: Run, ids: list[str]) -> None:
    code, out, err = run(ids[1])
    assert code == 0
    assert err == f"{ids[1]} is taken as an id; use --as to choose another kind\n"
    assert out.splitlines()[1].startswith("  also: no living member works on events/0")


def test_json_says_all(run: Run, ids: list[str]) -> None:
    code, out, err = run(ids[0], "--json")
    (answer,) = json.loads(out)["answers"]
    since, sentence = answer.pop("since"), answer.pop("sentence")
    which = f"--group 'the mailer' --id {ids[0]}"
    assert answer == {
        "subject": ids[0],
        "kind": "id",
        "group": "the mailer",
        "code": "held",
        "until": None,
        "commands": [f"penstock dead requeue {which}", f"penstock dead discard {which}"],
        "also": [],
        "id": ids[0],
        "place": "events/0/0",
        "unsettled": 0,
    }
    assert (code, err, since[-1]) == (0, "", "Z")
    assert sentence.endswith("later records of its key wait until you requeue or discard it.")


def test_what_it_is_may_be_said(run: Run, ids: list[str]) -> None:
    code, out, err = run("the mailer", "--as", "group")
    assert (code, err) == (0, "")
    assert out.startswith("group the mailer waits on events: 1 key is held by dead letters until")
    code, out, err = run("o-1", "--as", "group")
    assert (code, out) == (1, "")
    assert "o-1" in err
    assert run("o-1", "--as", "other")[0] == 2


@pytest.mark.parametrize(
    ("args", "exit_code"),
    [
        (("nothing",), 1),
        (("01234567-89ab-7def-8123-456789abcdef",), 1),
        (("o-1", "--group", "none"), 1),
        (("o-1", "--topic", "none"), 1),
        (("o-1", "--topic", "events", "--scan"), 0),
        ((), 2),
    ],
    ids=str,
)
def test_it_ends_with_a_code(run: Run, ids: list[str], args: tuple[str, ...], exit_code: int) -> None:
    assert run(*args)[0] == exit_code


def test_a_key_narrows_an_id(run: Run, ids: list[str]) -> None:
    found: list[dict[str, Any]] = json.loads(run(ids[0], "--key", "o-1", "--json")[1])["answers"]
    assert found[0]["place"] == "events/0/0"
