"""A store that is not there: every command says so in one sentence and makes nothing; `migrate` makes it."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from penstock.cli import group, main
from tests.suites.refusal import refusal

# What each command needs beside the store; `migrate` and `pipeline` have tests of their own.
ARGUMENTS = {
    "access add": ["allow", "ana", "read", "topic", "t"],
    "access check": ["ana", "read", "topic", "t"],
    "access list": [],
    "access remove": ["allow", "ana", "read", "topic", "t"],
    "audit": [],
    "console": [],
    "dead discard": ["--group", "g", "--all"],
    "dead fallbacks": [],
    "dead list": [],
    "dead requeue": ["--group", "g", "--all"],
    "dead show": ["x"],
    "dead skip": ["--group", "g", "--all"],
    "doctor": [],
    "drop": [],
    "erase": ["x"],
    "events delete": ["--state", "done", "--before", "2026-11-16"],
    "events list": ["--state", "done"],
    "events show": ["x"],
    "groups catch-up": ["g"],
    "groups delete": ["g"],
    "groups list": [],
    "groups pause": ["g"],
    "groups reset": ["g", "--to", "earliest"],
    "groups resume": ["g"],
    "groups show": ["g"],
    "lanes": [],
    "periodic list": [],
    "periodic pause": ["x"],
    "periodic remove": ["x"],
    "periodic resume": ["x"],
    "periodic run-now": ["x"],
    "periodic show": ["x"],
    "pipeline erase": [".", "--yes"],
    "pipeline lake": ["--to", "lake"],
    "pipeline replay": ["--to", "again", "--from", "earliest"],
    "pipeline reset": ["lake", "--from-table", "--yes"],
    "pipeline run": ["builtins:len", "--to", "lake"],
    "produce": ["t"],
    "reconcile": [],
    "restored": [],
    "retain": [],
    "scheduled cancel": ["--all"],
    "scheduled list": [],
    "scheduled run-now": ["x"],
    "scheduled show": ["x"],
    "serve": ["--kafka", "127.0.0.1:0"],
    "tail": ["t"],
    "top": [],
    "topics clear": ["t"],
    "topics create": ["t"],
    "topics delete": ["t"],
    "topics grow": ["t", "--partitions", "2"],
    "topics list": [],
    "topics set": ["t", "--retention", "1d"],
    "topics show": ["t"],
    "why": ["x"],
}


def with_a_store(command: click.Command, path: str = "") -> Iterator[str]:
    """Yield the commands beneath one that take the address of a store."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from with_a_store(below, f"{path} {name}".strip())
    elif any(each.name == "url" for each in command.params):
        yield path


def test_every_command_with_a_store_is_in_the_table() -> None:
    assert set(with_a_store(group)) - {"migrate"} == ARGUMENTS.keys()


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_a_missing_store_is_one_sentence_and_stays_missing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, said in (("shop.db", "run `penstock migrate --url "), ("no/shop.db", "create it first")):
        url = f"sqlite:///{tmp_path}/{place}"
        left = refusal(SystemExit, main, [*name.split(), *ARGUMENTS[name], "--url", url])
        printed = capsys.readouterr()
        assert (left.code, printed.out) == (3, ""), printed.err
        assert printed.err.count("\n") == 1
        assert said in printed.err
        assert "outbox.migrate()" not in printed.err
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["migrate", *sorted(ARGUMENTS)])
def test_a_store_in_memory_is_said_to_live_in_its_process(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    left = refusal(SystemExit, main, [*name.split(), *ARGUMENTS.get(name, ()), "--url", "memory://shop"])
    printed = capsys.readouterr()
    assert (left.code, printed.out) == (1, "")
    assert "memory://shop exists only in the process that opened it" in printed.err
    assert "penstock migrate" not in printed.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--check", "--sql"])
def test_looking_at_what_migrate_would_do_makes_nothing(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    code = refusal(SystemExit, main, ["migrate", option, "--url", url]).code or 0
    out = capsys.readouterr().out
    assert code == (1 if option == "--check" else 0)
    assert ("pending: 0017 " if option == "--check" else "CREATE TABLE penstock_topic") in out
    assert list(tmp_path.iterdir()) == []
    main_code = refusal(SystemExit, main, ["migrate", "--url", url]).code or 0
    assert main_code == 0
    assert (tmp_path / "shop.db").exists()
