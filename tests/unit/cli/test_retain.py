"""`penstock retain` and `penstock erase`: what they print, what they change, and how they end."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.cli import main, output
from penstock.testing import FakeClock
from tests.suites.refusal import refusal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """Give an outbox with three records of last year, one of them Ada's; commands find it by themselves."""
    url = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("PENSTOCK_URL", url)
    outbox = Outbox(url, clock=FakeClock(datetime.now(UTC) - timedelta(days=365)))
    outbox.migrate()
    with outbox.transaction() as conn:
        for n, owner in enumerate(["ada", None, "bob"]):
            outbox.publish(conn, "order.placed", n, key="o-1", owner=owner)
    outbox.drain()
    return outbox


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run a command; it returns the exit code, what was printed and what was complained."""

    def command(*args: str) -> tuple[int, str, str]:
        left = refusal(SystemExit, main, list(args))
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out, printed.err

    return command


def kept(shop: Outbox) -> list[int]:
    with shop.transaction() as conn:
        return [row[0] for row in conn.execute('SELECT "offset" FROM penstock_log').fetchall()]


def test_retain_deletes_what_is_old_and_says_how_much(run: Run, shop: Outbox) -> None:
    code, out, _ = run("retain", "--dry-run", "--json")
    assert (code, json.loads(out)) == (0, {"deleted": {"events": 3}, "count": 3, "dry_run": True})
    code, out, _ = run("retain", "--dry-run")
    assert "would be deleted" in out
    assert kept(shop) == [0, 1, 2]
    code, out, _ = run("retain")
    assert code == 0
    assert out.split() == ["topic", "deleted", *out.split()[2:-2], "events", "3"]
    assert kept(shop) == []
    assert run("retain") == (0, "nothing to delete\n", "")


def test_retain_of_a_topic_that_is_not_there_is_an_error(run: Run, shop: Outbox) -> None:
    for flags in ([], ["--dry-run"]):
        code, _, err = run("retain", "--topic", "nope", *flags)
        assert (code, "'nope'" in err or "nope" in err) == (1, True)
    assert run("retain", "--topic", "events")[0] == 0
    assert kept(shop) == []


def test_erase_asks_unless_told_and_says_what_it_did(run: Run, shop: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("erase", "nobody") == (0, "no events have this tag\n", "")
    assert "nothing is erased yet" in run("erase", "ada", "--dry-run")[1]
    assert run("erase", "ada", "--json")[0] == 2
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    code, out, err = run("erase", "ada")
    assert (code, out) == (130, "")
    assert "1 in the log" in err
    assert err.endswith("stopped\n")
    code, out, _ = run("erase", "ada", "--json", "--yes")
    assert code == 0
    assert json.loads(out) == {
        "staged": 0, "scheduled": 0, "logged": 1, "waiting": 0, "dead": 0, "count": 1, "dry_run": False,
        "pipelines": [],
    }  # fmt: skip
    code, out, _ = run("erase", "bob", "--yes")
    assert (code, out) == (0, "       1 in the log, content erased\nerased\n")
    assert kept(shop) == [0, 1, 2]


def test_erase_refuses_what_is_no_owner(run: Run, shop: Outbox) -> None:
    code, _, err = run("erase", "x" * 600, "--yes")
    assert code == 2
    assert "owner" in err


def test_doctor_names_the_groups_that_retention_does_not_wait_for(run: Run, shop: Outbox) -> None:
    def gone(record: object) -> None: ...

    shop.handler(group="mailer")(gone)
    shop.drain()
    _, out, _ = run("doctor", "--json", "--url", shop.url)
    stalled, found = (each for each in json.loads(out) if each["part"] == "Group mailer")
    assert found["state"] == "note"
    assert "no living member works" in stalled["found"]
    assert "penstock groups delete mailer" in found["remedy"]
