"""Checking the command lines that the documentation shows: does each command and option exist?

In a `console` block the lines behind `$ ` are commands and the others what they print; in a `bash` block
every line is a command.
"""

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click

from penstock.cli import group
from penstock.operate.doctor import EXTRAS
from tests.docs.pages import PROJECT, Block

# Programs of others that a page may call; their arguments are theirs.
OTHERS = {
    "cd",
    "curl",
    "export",
    "git",
    "kubectl",
    "pg_dump",
    "pg_restore",
    "source",
    "sqlite3",
    "systemctl",
    "uvicorn",
}
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")
_EXTRA = re.compile(r"(?:penstock-outbox|\.)\[([\w,-]+)\]")


def command_lines(block: Block) -> Iterator[tuple[int, list[str]]]:
    """Yield the commands of a block in words, with the line; a backslash at the end joins two lines."""
    text = block.text.replace("\\\n", " ")
    for number, line in enumerate(text.splitlines(), block.line):
        if block.info == "console":
            if not line.startswith("$ "):
                continue
            line = line.removeprefix("$ ")
        words = shlex.split(line, comments=True)
        while words and _ASSIGNMENT.fullmatch(words[0]):
            words.pop(0)
        if words:
            yield number, words


def fault(words: list[str], project: Path = PROJECT) -> str | None:
    """Return what is wrong with a command, or None."""
    program, *rest = words
    if program == "penstock":
        return _click_fault(rest)
    if program.startswith("./"):
        return _script_fault(project / program, rest)
    if program == "python" and rest[:1] == ["-m"] and len(rest) > 1:
        return None if find_spec(rest[1]) else f"there is no module {rest[1]}"
    if program == "python" and rest and rest[0].endswith(".py"):
        return None if list(project.glob(f"examples/*/{rest[0]}")) else f"no example has {rest[0]}"
    if program == "pip":
        unknown = {name for word in rest for names in _EXTRA.findall(word) for name in names.split(",")}
        unknown -= {extra.name for extra in EXTRAS}
        return f"there is no extra {', '.join(sorted(unknown))}" if unknown else None
    return None if program in OTHERS else f"{program} is no command of ours"


def _script_fault(path: Path, rest: list[str]) -> str | None:
    if not path.is_file() or not path.stat().st_mode & 0o100:
        return f"{path.name} is not there or cannot be run"
    text = path.read_text("utf-8")
    if re.search(r"/penstock\" demo", text):
        return _click_fault(["demo", *rest])
    # What a script passes on to pytest or to the benchmarks is theirs.
    passes_on = re.search(r"^exec .*(\"\$@\"|\$\{arguments)", text, re.MULTILINE)
    unknown = [word for word in rest if word.startswith("--") and word not in text and not passes_on]
    return f"{path.name} does not know {unknown[0]}" if unknown else None


def _click_fault(words: list[str]) -> str | None:
    """Return what click says against some words, without running anything."""
    command: click.Command = group
    context = click.Context(command, info_name="penstock", **command.context_settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        child = command.get_command(context, words[0])
        if child is None:
            return f"{context.command_path} has no command {words[0]}"
        context = click.Context(child, info_name=words[0], parent=context, **child.context_settings)
        command, words = child, words[1:]
    options = {name for param in command.get_params(context) for name in (*param.opts, *param.secondary_opts)}
    for word in words:
        name = word.partition("=")[0]
        if name.startswith("-") and len(name) > 1 and not name[1:].isdigit() and name not in options:
            return f"{context.command_path} has no option {name}"
    if {"-h", "--help", "--version"} & set(words):
        return None
    try:
        command.make_parser(context).parse_args(list(words))
    except click.UsageError as exc:
        return exc.message
    return None
