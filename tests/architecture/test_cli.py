"""The list of commands is what is there, and each line in it is the command's own."""

from collections.abc import Iterator, Mapping
from importlib import import_module

import click
import pytest

from penstock.cli import COMMANDS, group
from tests.architecture.source import ROOT, assert_none


def breaches(listed: Mapping[str, str], commands: Mapping[str, click.Command]) -> Iterator[str]:
    """Yield one sentence for each command that is not listed, not there, or described by other words."""
    yield from (f"{name} is not in COMMANDS" for name in sorted(commands.keys() - listed.keys()))
    yield from (f"{name} is in COMMANDS and has no file" for name in sorted(listed.keys() - commands.keys()))
    for name in sorted(commands.keys() & listed.keys()):
        said = (commands[name].help or "").partition("\n")[0]
        if said != listed[name]:
            yield f"{name}: the list says {listed[name]!r}, its help begins with {said!r}"


def test_the_list_of_commands_is_what_is_there() -> None:
    found = {}
    for path in (ROOT / "cli").glob("[!_]*.py"):
        for name, each in vars(import_module(f"penstock.cli.{path.stem}")).items():
            if isinstance(each, click.Command) and (name == "command" or name.endswith("_command")):
                found[str(each.name)] = each
    assert_none(breaches(COMMANDS, found))


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_found_by_its_name(name: str) -> None:
    assert named(name).name == name


def named(name: str) -> click.Command:
    """Return the command of a name."""
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return command


def parameters(command: click.Command) -> Iterator[click.Parameter]:
    """Yield the parameters of a command and of its subcommands."""
    yield from command.params
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from parameters(each)


def test_names_that_frameworks_give_a_default_mean_one_thing() -> None:
    """`manage.py penstock` gives them to every command: an option of that name would have it, too."""
    for name in COMMANDS:
        for each in parameters(named(name)):
            if each.name in {"target", "targets"}:
                assert isinstance(each, click.Argument), f"{name}: {each.opts}"
            if each.name in {"url", "prefix", "schema"}:
                assert each.opts == [f"--{each.name}"], f"{name}: {each.opts}"


def test_planted_breaches_are_found() -> None:
    run, stop = click.Command("run", help="Run it.\n\nMore."), click.Command("stop", help="Stop.")
    there = {"run": run, "stop": stop}
    assert list(breaches({"run": "Run it.", "stop": "Stop."}, there)) == []
    assert list(breaches({"run": "Walk.", "gone": "Gone."}, there)) == [
        "stop is not in COMMANDS",
        "gone is in COMMANDS and has no file",
        "run: the list says 'Walk.', its help begins with 'Run it.'",
    ]
