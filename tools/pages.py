"""The reference pages, each made from the one place in the code that declares what it shows.

A page is a function that yields its paragraphs. `PAGES` is the whole list; `tools/reference.py` writes them.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import click

from penstock import cli, errors, metrics, points, settings
from penstock.cli import exit_codes
from penstock.gateway.grpc.problems import CODES
from penstock.gateway.problem import STATUSES
from penstock.gateway.rest.api import OPERATIONS
from penstock.gateway.rest.operations import Operation
from tools import protos
from tools.api import api_page
from tools.console_page import console_page
from tools.screens import screens_page
from tools.tables import table

_ROOT_DEPTH = len(errors.Error.__mro__)


def settings_page() -> Iterator[str]:
    """Yield the settings, a table per room."""
    yield "# Settings"
    yield "How to set one: [settings](../how-to/settings.md). Durations are in seconds."
    by_room: dict[str, list[settings.Declared]] = {}
    for one in settings.declared():
        by_room.setdefault(one.room, []).append(one)
    for room, declared in by_room.items():
        yield f"## `[{room}]`"
        yield table("setting | type | default | range | environment | what it does", map(_setting, declared))


def errors_page() -> Iterator[str]:
    """Yield the errors, one row per class, in the order of the tree."""
    yield "# Errors"
    yield (
        "Everything Penstock raises by itself is a `penstock.Error`. Catching a class also catches those "
        "indented below it. The code is stable. The fault says who has to act: the caller, Penstock itself "
        "(ours), or what is around it (outside). A command that ends with an error has its exit code."
    )
    yield table(
        "error | code | fault | may be retried | closes the connection | exit code | when", map(_error, errors.tree())
    )


def commands_page() -> Iterator[str]:
    """Yield the exit codes, and the commands with a link to the page of each."""
    yield "# Commands"
    yield "What a command's exit code means:"
    yield table("exit code | meaning", _exit_codes())
    context = next(_contexts("penstock", cli.group, None))
    yield from _usage(context)
    lines = cli.COMMANDS.items()
    yield table("command | what it does", ((f"[`penstock {name}`]({name}.md)", said) for name, said in lines))
    yield from _options(context)


def command_page(name: str) -> Iterator[str]:
    """Yield a command and its subcommands, each with its usage and options."""
    above = click.Context(cli.group, info_name="penstock")
    command = cli.group.get_command(above, name)
    assert command is not None, f"{name} is listed and not there"
    for number, context in enumerate(_contexts(name, command, above)):
        path = context.command_path
        yield f"{'#' if number == 0 else '##'} `{path}`"
        yield from _usage(context)
        if isinstance(context.command, click.Group):
            calls = [f"{path} {each}" for each in context.command.list_commands(context)]
            yield "\n".join(f"- [`{call}`](#{call.replace(' ', '-')})" for call in calls)
        yield from _options(context)


def metrics_page() -> Iterator[str]:
    """Yield the series."""
    yield "# Metrics"
    yield (
        "How to scrape them: [monitor it](../how-to/monitor.md). In the process, "
        "`penstock.metrics.snapshot()` has them."
    )
    yield table(
        "series | kind | labels | meaning",
        ((f"`{one.name}`", one.kind.value, _codes(one.labels), one.help) for one in metrics.SERIES),
    )


def points_page() -> Iterator[str]:
    """Yield the points."""
    yield "# Points"
    yield (
        "Places in the code where Penstock's own tests kill, pause or fail the process. "
        "Nothing happens there unless a test arms the point in the same process."
    )
    found = sorted(points.declared().items())
    yield table("point | what has been done when it is reached", ((f"`{name}`", said) for name, said in found))


def rest_page() -> Iterator[str]:
    """Yield the operations of REST, a table for each thing they are about."""
    yield "# REST"
    yield (
        "How to use it: [REST](../how-to/rest.md). The whole description, with the fields of every body, is "
        "served at `/v1/openapi.json`. An error is `application/problem+json` with one of these:"
    )
    by_status: dict[int, list[str]] = {}
    for cls in errors.tree():
        by_status.setdefault(STATUSES.of(cls), []).append(f"`{cls.code}`")
    yield table("status | codes", ((str(each), ", ".join(sorted(by_status[each]))) for each in sorted(by_status)))
    for tag in dict.fromkeys(each.tag for each in OPERATIONS):
        yield f"## {tag.capitalize()}"
        yield table("operation | does | parameters", (_operation(each) for each in OPERATIONS if each.tag == tag))


def grpc_page() -> Iterator[str]:
    """Yield the description of the gRPC door, and its statuses."""
    yield "# gRPC"
    yield (
        "How to use it: [gRPC](../how-to/grpc.md). `grpc.health.v1.Health` and reflection are served beside "
        "it. An error has one of these statuses, and a `google.rpc.ErrorInfo` whose `reason` is its code:"
    )
    by_code: dict[str, list[str]] = {}
    for cls in errors.tree():
        by_code.setdefault(CODES[STATUSES.of(cls)].name, []).append(f"`{cls.code}`")
    yield table("status | codes", ((each, ", ".join(sorted(by_code[each]))) for each in sorted(by_code)))
    yield "## penstock_gateway.proto"
    yield f"```text\n{(protos.FOLDER / protos.SOURCE).read_text('utf-8').rstrip()}\n```"


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "api.md": api_page,
    "settings.md": settings_page,
    "errors.md": errors_page,
    "commands/README.md": commands_page,
    "console.md": console_page,
    "grpc.md": grpc_page,
    "metrics.md": metrics_page,
    "points.md": points_page,
    "rest.md": rest_page,
    "screens.md": screens_page,
} | {f"commands/{name}.md": partial(command_page, name) for name in cli.COMMANDS}


def _operation(one: Operation) -> tuple[str, ...]:
    told = ", ".join(f"`{each.name}`" for each in one.parameters if each.place != "path")
    return f"`{one.method} {one.path}`", one.summary, told


def _setting(one: settings.Declared) -> tuple[str, ...]:
    kind = {"timedelta": "seconds", "tuple": "list of strings"}.get(one.kind, one.kind)
    return f"`{one.name}`", kind, f"`{_shown(one.default)}`", one.rule.wanted(), f"`{one.env}`", one.rule.help


def _error(cls: type[errors.Error]) -> tuple[str, ...]:
    return (
        f"{'&emsp;' * (len(cls.__mro__) - _ROOT_DEPTH)}`{cls.__name__}`",
        f"`{cls.code}`",
        cls.fault.value,
        "yes" if cls.retryable else "no",
        "yes" if cls.closes else "no",
        str(exit_codes.EXIT_CODES.of(cls)),
        (cls.__doc__ or "").partition("\n")[0],
    )


def _contexts(name: str, command: click.Command, parent: click.Context | None) -> Iterator[click.Context]:
    """Yield a command's context and those of all commands below it, as click makes them."""
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            child = command.get_command(context, below)
            assert child is not None, f"{below} is listed and not there"
            yield from _contexts(below, child, context)


def _usage(context: click.Context) -> Iterator[str]:
    """Yield a command's usage and help."""
    words = [context.command_path, *context.command.collect_usage_pieces(context)]
    yield f"```text\n{' '.join(words)}\n```"
    yield from (_line(paragraph) for paragraph in (context.command.help or "").split("\n\n"))


def _options(context: click.Context) -> Iterator[str]:
    records = [param.get_help_record(context) for param in context.command.get_params(context)]
    yield table("option | what it does", ((f"`{each[0]}`", _line(each[1])) for each in records if each))


def _exit_codes() -> Iterator[tuple[str, str]]:
    """Yield the codes as the last line of their table's docstring gives them: `0 ok, 1 failed.`"""
    sentence = (exit_codes.__doc__ or "").strip().splitlines()[-1].removesuffix(".")
    for part in sentence.split(", "):
        code, _, meaning = part.partition(" ")
        yield str(int(code)), meaning


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words) or "none"


def _line(text: str) -> str:
    return " ".join(text.split())


def _shown(default: Any) -> str:
    """Return a default as it would stand in the settings file."""
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g}"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return str(list(default)).replace("'", '"')
    return f'"{default}"' if isinstance(default, str) else str(default)
