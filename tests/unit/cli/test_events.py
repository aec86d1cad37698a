"""`penstock events`: what it prints, deletes, refuses, and how it ends."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import Outbox, Record
from penstock.cli import main, output

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """Give an outbox with two records that are done, one that is staged and one that is scheduled."""
    monkeypatch.setenv("PENSTOCK_URL", f"sqlite:///{tmp_path}/shop.db")
    outbox = Outbox(f"sqlite:///{tmp_path}/shop.db")
    outbox.migrate()

    @outbox.handler("order.*", group="mailer")
    def send(record: Record) -> None:
        """Do nothing."""

    with outbox.transaction() as conn:
        for value in (1, 2):
            outbox.publish(conn, "order.placed", value, key="o-[1]")
    outbox.drain()
    with outbox.transaction() as conn:
        outbox.publish(conn, "order.placed", 3, key="o-2")
        outbox.publish(conn, "order.remind", 4, key="o-1", at=timedelta(hours=1))
    outbox.close()
    return outbox


@pytest.fixture
def run(shop: Outbox, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Give a way to run a command; `typed` answers what it asks."""

    def command(*args: str, typed: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: typed)
        monkeypatch.setattr(output, "is_terminal", lambda: typed is not None)
        with pytest.raises(SystemExit) as ended:
            main(["events", *args])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return command


def test_a_page_is_a_table_for_people_and_json_for_programs(run: Run) -> None:
    code, out, err = run("list", "--state", "done", "--limit", "1")
    assert (code, out.strip().splitlines()[0].split()) == (0, ["at", "topic", "record", "key", "type", "group", "id"])
    assert "o-[1]" in out
    assert err.startswith("more: --after ")
    code, out, _ = run("list", "--state", "done", "--json")
    found = json.loads(out)
    assert (code, found["after"], len(found["events"])) == (0, None, 2)
    event = found["events"][0]
    assert event["name"].startswith("event:order.placed:0")
    assert (event["state"], event["topic"], event["offset"], event["group"]) == ("done", "events", 0, None)
    after = err.split()[-1]
    assert json.loads(run("list", "--state", "done", "--after", after, "--json")[1])["events"] == [found["events"][1]]


def test_a_state_with_nothing_in_it_says_so(run: Run) -> None:
    assert run("list", "--state", "dead") == (0, "no event is dead\n", "")
    assert run("list", "--state", "gone")[0] == 2


def test_done_is_deleted_after_it_was_asked(run: Run) -> None:
    said = ("delete", "--state", "done", "--before", "2999-01-01")
    words = "2 done events before 2999-01-01 00:00:00Z"
    assert run(*said, "--dry-run") == (0, f"{words} would be deleted\n", "")
    assert run(*said, typed="n")[0] == 130
    code, out, _ = run(*said, "--dry-run", "--json")
    assert (code, json.loads(out)) == (0, {"count": 2, "dry_run": True})
    code, out, _ = run(*said, typed="y")
    assert (code, out.splitlines()[-1]) == (0, f"{words} deleted")
    assert run(*said, "--yes")[1].startswith("0 done events")


def test_what_is_yet_to_be_delivered_is_refused_without_a_question(run: Run) -> None:
    code, out, err = run("delete", "--state", "staged", "--before", "2999-01-01")
    assert (code, out) == (2, "")
    assert "staged events are yet to be delivered" in err
    assert len(json.loads(run("list", "--state", "staged", "--json")[1])["events"]) == 1


def test_a_moment_is_needed(run: Run) -> None:
    assert run("delete", "--state", "done")[0] == 2
    assert run("delete", "--state", "done", "--before", "yesterday")[0] == 2
