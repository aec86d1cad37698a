"""Completion in shells is click's own: the script is made for each shell, and words are completed."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from penstock.cli import group, main
from tests.suites.refusal import refusal

WITHOUT_JSON = {
    "access add",
    "access dev-certs",
    "access hash",
    "access remove",
    "console",
    "demo",
    "worker",
    "serve",
    "pipeline lake",
    "pipeline run",
    "pipeline reset",
}  # they list nothing


def leaves(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield each command that has none beneath it, with its path."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below, f"{path} {name}".strip())


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", "complete -o nosort -F _penstock_completion penstock"),
        ("zsh", "#compdef penstock"),
        ("fish", "complete --no-files --command penstock"),
    ],
)
def test_the_script_is_made_for_each_shell(
    shell: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_PENSTOCK_COMPLETE", f"{shell}_source")
    assert refusal(SystemExit, main, []).code == 0
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("penstock gro", ["groups"]),
        ("penstock groups re", ["resume", "reset"]),
        ("penstock events list --state sch", ["scheduled"]),
    ],
)
def test_commands_and_choices_are_completed(
    typed: str, found: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    assert refusal(SystemExit, main, []).code == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(",")[2] for line in lines) == sorted(found)


def test_completing_a_command_imports_none() -> None:
    program = (
        "import os, sys, penstock.cli as cli\n"
        "os.environ |= {'_PENSTOCK_COMPLETE': 'fish_complete', 'COMP_WORDS': 'penstock ', 'COMP_CWORD': ''}\n"
        "try:\n    cli.main([])\nexcept SystemExit:\n"
        "    sys.exit(int('penstock.cli.pipeline' in sys.modules or 'penstock.cli.worker' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "plain,groups\tList, show, pause" in done.stdout


def test_every_command_that_tells_something_can_tell_it_as_json() -> None:
    without = {path for path, each in leaves(group) if all(option.name != "as_json" for option in each.params)}
    assert without == WITHOUT_JSON
