"""`penstock check`: compares the handlers of a program with its store."""

import sys
from types import ModuleType

import click

from penstock.app import Outbox
from penstock.database.migrations import check as check_schema
from penstock.operate.check import Checked, Weight, check
from penstock.worker.handlers import Handlers

from .exit_codes import FAILED
from .options import json_option
from .output import cell, line, print_json, whole
from .remedies import naming_the_command
from .tables import print_table
from .target import load

_COLUMNS = ("group", "topic", "match", "handler")


@click.command("check")
@click.argument("target", metavar="MODULE:OUTBOX")
@json_option
def command(target: str, as_json: bool) -> None:
    """Compare the handlers of an outbox with its store, and show events without a handler.

    Lists the handlers by group. Exits with 1 if a group of the store has no handler, a topic with records has
    no reader, a handler is registered with another outbox, or a file of the package has handlers and is not
    imported. Run it before a deploy.
    """
    outbox = load(target, "shop:outbox", Outbox)
    if not isinstance(outbox, Outbox):
        raise click.UsageError(f"{target} is {type(outbox).__name__}, not an Outbox")
    with naming_the_command(outbox.url, outbox.database.names):
        check_schema(outbox.database)
    module = target.partition(":")[0]
    found = check(outbox.database, outbox.handlers, module=module, others=_others(outbox))
    if as_json:
        print_json(
            {
                "ok": found.is_well,
                "handlers": [whole(each) for each in found.handlers],
                "findings": [whole(each) | {"weight": each.weight.value} for each in found.findings],
            }
        )
    else:
        _print(found)
    click.get_current_context().exit(0 if found.is_well else FAILED)


def _print(found: Checked) -> None:
    if found.handlers:
        rows = [(each.group, each.topic, ", ".join(each.match), each.id) for each in found.handlers]
        print_table(_COLUMNS, [tuple(map(cell, row)) for row in rows])
    else:
        click.echo("no handler is registered")
    for each in found.findings:
        click.echo(line(f"{each.weight.value}: {each.about}: {each.what}; {each.remedy}"))
    problems = sum(each.weight is Weight.PROBLEM for each in found.findings)
    click.echo("no problems" if not problems else f"{problems} problems")


def _others(outbox: Outbox) -> dict[str, Handlers]:
    """Return the other outboxes in the modules of this process, by MODULE:VARIABLE."""
    found: dict[int, tuple[str, Handlers]] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType):
            for variable, value in list(vars(module).items()):
                if issubclass(type(value), Outbox) and value is not outbox:  # a proxy may have no class
                    found.setdefault(id(value), (f"{name}:{variable}", value.handlers))
    return dict(found.values())
