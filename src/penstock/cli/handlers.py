"""`penstock handlers` and `check`: the handlers of a program, alone and against its store."""

import sys
from types import ModuleType

import click

from penstock.app import Outbox
from penstock.database.migrations import check as check_schema
from penstock.model.retry import span_words
from penstock.operate.handlers import HandlerShown, Weight, check, handlers
from penstock.worker.handlers import Handlers

from .exit_codes import FAILED
from .options import json_option, naming_the_command
from .output import line, print_json, print_table, whole
from .target import load_a

_CHECK_COLUMNS = ("group", "topic", "match", "handler")

_COLUMNS = ("group", "topic", "match", "handler", "retry", "from", "then", "bounds")


@click.command("handlers")
@click.argument("target", metavar="MODULE:OUTBOX")
@click.option("--group", help="Only this group.")
@click.option("--type", "type", help="Only those that match this event type, in matching order.")
@json_option
def handlers_command(target: str, group: str | None, type: str | None, as_json: bool) -> None:
    """List the handlers of an outbox, each with its match, its retry policy and its limits.

    `from`: the origin of its retry policy: the handler object, its decorator, the outbox or the settings. The
    store is not read. Exits with 1 if no handler matches.
    """
    outbox = load_a(Outbox, target, "shop:outbox")
    found = handlers(outbox.handlers, group=group, type=type)
    if as_json:
        print_json(whole(found))
    elif found:
        print_table(_COLUMNS, map(_row, found), prose=("retry", "then", "bounds"))
    else:
        wanted = f" for {type!r}" if type is not None else ""
        click.echo(f"no handler is registered{wanted}" + (f" in group {group}" if group is not None else ""))
    click.get_current_context().exit(0 if found else FAILED)


def _row(each: HandlerShown) -> tuple[object, ...]:
    match = each.match
    others = [name for name in each.types if name != match]
    if others:
        match += f" ({', '.join(others)})"
    handler = each.id if each.kind == "sync" else f"{each.id} (async)"
    return each.group, each.topic, match, handler, each.retry, each.retry_from, _then(each), _bounds(each)


def _then(each: HandlerShown) -> str:
    lane = each.lanes
    waits = {"park": f"{lane} waits meanwhile", "alone": "retried alone", "dead": "no wait"}[each.on_failure]
    ends = [waits] if each.max_retries else []
    if each.fallback is not None:
        ends.append(f"fallback {each.fallback}")
    holds = each.on_exhausted == "hold" and each.on_failure == "park"
    ends.append(f"dead letter, {lane} held" if holds else f"dead letter, {lane} released")
    return "; ".join(ends)


def _bounds(each: HandlerShown) -> str:
    seconds = each.timeout_seconds
    bounds = ["no timeout" if seconds is None else f"timeout {span_words(round(seconds * 1000))}"]
    if each.concurrency is not None:
        bounds.append(f"{each.concurrency} at once")
    if each.rate is not None:
        bounds.append(_rate(each.rate))
    if each.batch is not None:
        bounds.append(f"batch {each.batch}")
    if each.transaction:
        bounds.append("transaction")
    return ", ".join(bounds)


def _rate(per_second: float) -> str:
    for unit, seconds in (("s", 1), ("min", 60)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.4g}/{unit}"
    return f"{per_second * 3600:.4g}/h"


@click.command("check")
@click.argument("target", metavar="MODULE:OUTBOX")
@json_option
def check_command(target: str, as_json: bool) -> None:
    """Compare the handlers of an outbox with its store, and show events without a handler.

    Lists the handlers by group. Exits with 1 if a group of the store has no handler, a topic with records has
    no reader, a handler is registered with another outbox, or a file of the package has handlers and is not
    imported. Run it before a deploy.
    """
    outbox = load_a(Outbox, target, "shop:outbox")
    with naming_the_command(outbox.url, outbox.database.names):
        check_schema(outbox.database)
    module = target.partition(":")[0]
    found = check(outbox.database, outbox.handlers, module=module, others=_others(outbox))
    if as_json:
        print_json({"ok": found.is_well, **whole(found)})
    else:
        if found.handlers:
            rows = [(each.group, each.topic, ", ".join(each.match), each.id) for each in found.handlers]
            print_table(_CHECK_COLUMNS, rows)
        else:
            click.echo("no handler is registered")
        for each in found.findings:
            click.echo(line(f"{each.weight.value}: {each.about}: {each.what}; {each.remedy}"))
        problems = sum(each.weight is Weight.PROBLEM for each in found.findings)
        click.echo("no problems" if not problems else f"{problems} problems")
    click.get_current_context().exit(0 if found.is_well else FAILED)


def _others(outbox: Outbox) -> dict[str, Handlers]:
    """Return the other outboxes in the modules of this process, by MODULE:VARIABLE."""
    found: dict[int, tuple[str, Handlers]] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType):
            for variable, value in list(vars(module).items()):
                if issubclass(type(value), Outbox) and value is not outbox:  # a proxy may have no class
                    found.setdefault(id(value), (f"{name}:{variable}", value.handlers))
    return dict(found.values())
