"""What commands say when something is in the way: one sentence, and a remedy that works."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from penstock import Outbox, Record
from penstock.cli import main, options
from penstock.database import database
from penstock.database.sqlite import dialect
from tests.suites.refusal import refusal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the path of a store that is not there yet; commands find it in the environment."""
    monkeypatch.setenv("PENSTOCK_URL", f"sqlite:///{tmp_path}/shop.db")
    return tmp_path / "shop.db"


@pytest.fixture
def shop(path: Path) -> Outbox:
    """Give an outbox whose one group has a handler for orders, with one order delivered."""
    outbox = Outbox(f"sqlite:///{path}")
    outbox.migrate()

    @outbox.handler("order.*", group="mailer")
    def send(record: Record) -> None: ...

    with outbox.transaction() as conn:
        outbox.publish(conn, "order.placed", 1, key="o-1")
    outbox.drain()
    return outbox


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run a command."""

    def command(*args: str) -> tuple[int, str, str]:
        code = refusal(SystemExit, main, list(args)).code
        printed = capsys.readouterr()
        return code if isinstance(code, int) else 0, printed.out, printed.err

    return command


@pytest.mark.usefixtures("shop")
def test_a_locked_store_is_one_sentence_with_a_remedy(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_REPLAYS", 0)
    monkeypatch.setattr(dialect, "BUSY_SECONDS", 0.0)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        code, _, err = run("topics", "create", "more")
        assert code == 3
        assert err.startswith(f"error: the store {path} is locked: another process has kept a transaction")
        assert err.count("\n") == 1
        conn.rollback()
    assert run("topics", "create", "more")[0] == 0


def test_a_store_without_tables_names_the_command_that_makes_them(run: Run, path: Path) -> None:
    path.touch()
    code, _, err = run("why", "o-1")
    assert code == 1
    assert err == "error: table penstock_meta is not in this database; run `penstock migrate`\n"
    code, out, _ = run("doctor", "--url", f"sqlite:///{path}", "--json")
    assert code == 1
    assert "penstock migrate --url" in out
    assert "outbox.migrate()" not in out


@pytest.mark.parametrize(
    ("address", "options", "command"),
    [
        ("sqlite:///a b.db", [], "penstock migrate --url 'sqlite:///a b.db'"),
        ("sqlite:///x.db", ["--prefix", "mine_"], "penstock migrate --url sqlite:///x.db --prefix mine_"),
    ],
)
def test_the_remedy_is_the_command_for_this_store(
    run: Run, path: Path, address: str, options: list[str], command: str
) -> None:
    code, _, err = run("groups", "list", "--url", address, *options)
    assert code == 3
    assert f"run `{command}`" in err
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "question",
    [
        ["topics", "clear", "events"],
        ["topics", "delete", "events"],
        ["groups", "delete", "mailer"],
        ["groups", "reset", "mailer", "--to", "earliest"],
        ["events", "delete", "--state", "done", "--before", "2026-11-17"],
        ["drop"],
        ["restored"],
        ["erase", "ada"],
    ],
    ids=" ".join,
)
def test_without_a_terminal_nobody_is_asked(run: Run, shop: Outbox, question: list[str]) -> None:
    with shop.transaction() as conn:
        shop.publish(conn, "order.placed", 1, owner="ada")
    code, out, err = run(*question)
    assert (code, "no terminal to ask for confirmation" in err, "use --yes" in err) == (2, True, True), err
    assert "Traceback" not in err
    code, out, err = run(*question, "--json")
    assert (code, out, "use --yes" in err) == (2, "", True), err
    assert "--json cannot ask for confirmation" in err


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("verb", ["delete", "clear"])
def test_an_unknown_topic_is_not_to_be_published_to(run: Run, verb: str) -> None:
    code, _, err = run("topics", verb, "nope", "--yes")
    assert (code, err) == (1, "error: there is no topic 'nope'; `penstock topics list` shows the topics\n")


def test_reconcile_without_its_topic_names_the_option_for_another(run: Run, path: Path) -> None:
    with closing(Outbox(f"sqlite:///{path}")) as outbox:
        outbox.migrate()
    code, _, err = run("reconcile")
    assert (code, err.startswith("error: there is no topic 'events'")) == (1, True)
    assert "`--topic` names the one to compare" in err


@pytest.mark.usefixtures("shop")
def test_what_retention_has_deleted_was_not_never_published(run: Run, shop: Outbox) -> None:
    with shop.transaction() as conn:
        id = shop.publish(conn, "order.placed", 2, key="o-1")
    shop.drain()
    assert run("topics", "set", "events", "--retention", "0")[1] == (
        "topic events keeps: until every group has passed it\n"
    )
    assert run("retain")[0] == 0
    for subject in (id, "o-1"):
        code, out, _ = run("why", subject)
        assert code == 0
        assert "retention has deleted records of its" in out


@pytest.mark.usefixtures("shop")
def test_catch_up_is_not_suggested_where_no_handler_wants_the_type(run: Run, shop: Outbox) -> None:
    with shop.transaction() as conn:
        shop.publish(conn, "mail.sent", 2, key="m-1")
    shop.drain()
    _, out, _ = run("why", "m-1")
    assert "$ penstock groups catch-up" not in out


def test_the_doctor_shows_foreign_text_as_it_is(run: Run, shop: Outbox, path: Path) -> None:
    """A group's name may look like markup."""

    @shop.handler("mail.*", group="[red]", id="other")
    def send(record: Record) -> None:
        raise ValueError("[/]")

    with shop.transaction() as conn:
        shop.publish(conn, "mail.sent", 2, key="[b]")
    shop.drain()
    code, out, _ = run("doctor", "--url", f"sqlite:///{path}")
    assert code == 0
    assert "[red]" in out


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["groups", "show", "nope"], 1, "`penstock groups list` shows the groups"),
        (["groups", "reset", "mailer", "--to", "5"], 2, "offset 5 needs --partition"),
        (["topics", "set", "events"], 2, "--retention, --max-bytes, --max-records, --compact, or --default"),
        (["dead", "requeue", "--group", "mailer"], 2, "--id, --key, --type, --since, --before, or --all"),
        (["scheduled", "cancel"], 2, "--id, --topic, --key, --owner, --before, or --all"),
        (["audit", "--since", "2x"], 2, "'2x' is neither a duration back from now such as 2h"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_what_was_asked_wrongly_is_answered_with_what_to_say(run: Run, args: list[str], code: int, words: str) -> None:
    found, out, err = run(*args)
    assert found == code
    assert words in err
    assert out == ""


@pytest.mark.usefixtures("shop")
def test_what_was_done_lately_is_listed(run: Run) -> None:
    run("groups", "pause", "mailer")
    assert "group pause" in run("audit", "--since", "2h")[1]
    assert run("audit", "--before", "2h")[1] == "no audit entries\n"


def test_a_path_is_answered_with_its_address(run: Run, shop: Outbox, path: Path) -> None:
    code, _, err = run("groups", "list", "--url", str(path))
    assert code == 2
    assert f"for a SQLite file write sqlite:///{path}" in err


@pytest.mark.usefixtures("shop")
def test_a_person_waits_for_a_lock_for_seconds_and_not_for_minutes(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "TIMEOUT_SECONDS", 0.0)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        code, _, err = run("groups", "pause", "mailer", "--url", f"sqlite:///{path}?timeout=0.01")
    assert code == 3
    assert "is locked" in err
    assert err.count("\n") == 1
