"""`penstock migrate`: applies, checks, prints, and says what is wrong."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.database.migrations import chain_of
from penstock.database.naming import Names
from tests.suites.refusal import refusal

Run = Callable[..., tuple[int, str, str]]
CHAIN = chain_of("sqlite", Names())
APPLIED = [f"{each.version:04} {each.name}" for each in CHAIN]
NEWEST = CHAIN[-1].version


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run the command; it returns the exit code, what was printed and what was complained."""

    def migrate(*args: str) -> tuple[int, str, str]:
        left = refusal(SystemExit, main, ["migrate", *args])
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out, printed.err

    return migrate


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Give the address of a file that is not there yet."""
    return f"sqlite:///{tmp_path}/shop.db"


def change(url: str, statement: str) -> None:
    """Change something in the file."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn, conn:
        conn.execute(statement)


def test_it_says_what_it_applied(run: Run, url: str) -> None:
    assert run("--url", url) == (
        0,
        "".join(f"applied: {title}\n" for title in APPLIED) + f"up to date: version {NEWEST}\n",
        "",
    )
    assert run("--url", url) == (0, f"up to date: version {NEWEST}\n", "")


def test_it_says_so_in_json(run: Run, url: str) -> None:
    for applied in (APPLIED, []):
        code, out, _ = run("--url", url, "--json")
        assert (code, json.loads(out)) == (0, {"applied": applied, "version": NEWEST})


def test_the_address_may_stand_in_the_environment(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_URL", url)
    assert run()[0] == 0


def test_check_names_what_is_pending_and_exits_with_1(run: Run, url: str) -> None:
    code, out, _ = run("--url", url, "--check")
    assert code == 1
    assert out.startswith("".join(f"pending: {title}\n" for title in APPLIED))
    run("--url", url)
    assert run("--url", url, "--check") == (0, "up to date\n", "")


def test_check_says_so_in_json(run: Run, url: str) -> None:
    code, out, _ = run("--url", url, "--check", "--json")
    assert code == 1
    assert json.loads(out)["pending"] == APPLIED
    run("--url", url)
    code, out, _ = run("--url", url, "--check", "--json")
    assert (code, json.loads(out)) == (0, {"pending": [], "drift": []})


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("ALTER TABLE penstock_dead DROP COLUMN headers", "drift: penstock_dead lacks headers BLOB"),
        ("ALTER TABLE penstock_log ADD COLUMN extra TEXT", "drift: penstock_log has unexpected extra TEXT"),
        ("DROP INDEX ix_penstock_scheduled_id", "drift: penstock_scheduled lacks index plain (id)"),
        ("DROP TABLE penstock_slot", "drift: table penstock_slot is missing"),
    ],
)
def test_check_names_drift_and_exits_with_1(run: Run, url: str, statement: str, words: str) -> None:
    run("--url", url)
    change(url, statement)
    code, out, _ = run("--url", url, "--check")
    assert code == 1
    assert out.startswith(words)


def test_check_changes_nothing(run: Run, url: str) -> None:
    run("--url", url, "--check")
    run("--url", url, "--sql")
    assert run("--url", url, "--json")[1].count("first_release") == 1


def test_sql_prints_what_is_pending_and_no_more(run: Run, url: str) -> None:
    code, script, _ = run("--url", url, "--sql")
    assert code == 0
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn:
        conn.executescript(script)
    assert run("--url", url) == (0, f"up to date: version {NEWEST}\n", "")
    assert run("--url", url, "--sql")[1].strip() == ""


def test_a_prefix_is_used_for_all_tables(run: Run, url: str) -> None:
    assert run("--url", url, "--prefix", "acme_")[0] == 0
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn:
        tables = [row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert all(name.startswith(("acme_", "sqlite_")) for name in tables)
    assert run("--url", url, "--prefix", "acme_", "--check")[0] == 0
    assert run("--url", url, "--check")[0] == 1


WRONG = {
    "an unknown store": (["--url", "oracle://u:secret@h/x"], 2, "is not a store that Penstock knows"),
    "a bad prefix": (["--url", "memory://", "--prefix", "a;--"], 2, "prefix 'a;--' must be"),
    "a bad schema": (["--url", "memory://", "--schema", "A"], 2, "schema 'A' must be"),
    "a schema on SQLite": (["--url", "memory://", "--schema", "events"], 2, "set a prefix instead"),
    "a folder that is not there": (["--url", "sqlite:////no/such/x.db"], 3, "cannot be reached"),
    "a server that is away": (["--url", "postgresql://u:secret@localhost:1/x"], 3, "cannot be reached"),
}


@pytest.mark.parametrize("flag", [[], ["--check"], ["--sql"]], ids=str)
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_sentence(run: Run, case: str, flag: list[str]) -> None:
    args, wanted, words = WRONG[case]
    code, out, err = run(*args, *flag)
    assert (code, out) == (wanted, "")
    assert err.startswith("error: ")
    assert words in err
    assert "Traceback" not in err
    assert "secret" not in err


def test_a_newer_schema_that_can_be_used_leaves_nothing_to_do(run: Run, url: str) -> None:
    run("--url", url)
    change(url, "UPDATE penstock_meta SET value = '99' WHERE name = 'schema_version'")
    change(url, "ALTER TABLE penstock_log ADD COLUMN later text")
    newer = f"; this Penstock knows {NEWEST} and can still use it\n"
    assert run("--url", url) == (0, f"up to date: version 99{newer}", "")
    assert run("--url", url, "--check") == (0, f"up to date{newer}", "")
    assert run("--url", url, "--sql") == (0, "\n", "")
    assert json.loads(run("--url", url, "--json")[1]) == {"applied": [], "version": 99}


def test_a_newer_schema_that_cannot_be_used_is_said_with_the_remedy(run: Run, url: str) -> None:
    run("--url", url)
    change(url, "UPDATE penstock_meta SET value = '99' WHERE name IN ('schema_version', 'usable_from')")
    for flag in ([], ["--check"], ["--sql"]):
        code, _, err = run("--url", url, *flag)
        assert code == 1
        assert f"can be used from version 99 on, but this Penstock knows {NEWEST}; update Penstock here" in err


def test_after_a_restore_it_raises_the_incarnation_as_well(run: Run, url: str) -> None:
    run("--url", url)
    _, out, _ = run("--url", url, "--restored", "--json")
    assert json.loads(out)["incarnation"] > 1
    _, out, _ = run("--url", url, "--restored")
    assert "pipelines stop at their next batch" in out
    code, _, err = run("--url", url, "--restored", "--check")
    assert code == 2
    assert "omit --restored" in err
