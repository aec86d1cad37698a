"""`penstock periodic`: schedules of periodic events: list, show, pause, resume, run now, remove."""

from datetime import datetime
from typing import Any

import click

from penstock.operate import periodic
from penstock.operate.periodic import ScheduleShown

from .options import ChosenStore, after_option, json_option, limit_option, store_options
from .output import cell, line, moment, print_facts, print_json, print_page, print_result, whole

_COLUMNS = ("schedule", "when", "state", "next", "last", "workers", "type", "topic", "error")


@click.group("periodic")
def command() -> None:
    """List, show, pause, resume, run now or remove the schedules of periodic events."""


@command.command("list")
@store_options
@limit_option
@after_option
@json_option
def list_schedules(chosen: ChosenStore, as_json: bool, **paged: Any) -> None:
    """List the schedules that workers have declared: when each ticks, and its error if it fails."""
    with chosen.opened() as store:
        found = periodic.schedules(store, **paged)
    print_page("schedules", found, _COLUMNS, _row, none="no worker has declared a schedule", as_json=as_json)


@command.command("show")
@click.argument("name")
@store_options
@json_option
def show_schedule(name: str, chosen: ChosenStore, as_json: bool) -> None:
    """Show a schedule, and its next ticks."""
    with chosen.opened() as store:
        shown, ticks = periodic.show(store, name), periodic.upcoming(store, name)
    if as_json:
        print_json(whole(shown) | {"upcoming": ticks})
        return
    facts = {"schedule": shown.name} | {name: value for name, value in whole(shown).items() if name != "name"}
    facts = {name: _when(each) if isinstance(each, datetime) else each for name, each in facts.items()}
    print_facts(
        {name: each for name, each in facts.items() if each is not None}
        | {"upcoming": ", ".join(map(moment, ticks))}
    )


@command.command("pause")
@click.argument("name")
@store_options
@json_option
def pause_schedule(name: str, chosen: ChosenStore, as_json: bool) -> None:
    """Pause a schedule until it is resumed."""
    with chosen.opened() as store:
        changed = periodic.pause(store, name)
    _say(name, changed, as_json, ("is paused", "was paused already"))


@command.command("resume")
@click.argument("name")
@store_options
@json_option
def resume_schedule(name: str, chosen: ChosenStore, as_json: bool) -> None:
    """Resume a paused schedule with its next tick; ticks missed meanwhile are not caught up."""
    with chosen.opened() as store:
        changed = periodic.resume(store, name)
    _say(name, changed, as_json, ("ticks again", "was not paused"))


@command.command("run-now")
@click.argument("name")
@store_options
@json_option
def run_now(name: str, chosen: ChosenStore, as_json: bool) -> None:
    """Make a schedule tick once now, in addition to its regular ticks; a worker takes it within seconds."""
    with chosen.opened() as store:
        periodic.run_now(store, name)
    print_result({"schedule": name, "due": "now"}, f"schedule {line(name)} is due now", as_json=as_json)


@command.command("remove")
@click.argument("name")
@store_options
@json_option
def remove_schedule(name: str, chosen: ChosenStore, as_json: bool) -> None:
    """Delete a schedule that no running worker declares."""
    with chosen.opened() as store:
        periodic.remove(store, name)
    print_result({"schedule": name, "removed": True}, f"schedule {line(name)} is removed", as_json=as_json)


def _say(name: str, changed: bool, as_json: bool, words: tuple[str, str]) -> None:
    print_result(
        {"schedule": name, "changed": changed},
        f"schedule {line(name)} {words[0] if changed else words[1]}",
        as_json=as_json,
    )


def _row(each: ScheduleShown) -> tuple[str, ...]:
    texts = (
        each.name,
        each.when,
        each.state.value,
        _when(each.next_at),
        _when(each.last_at),
        str(each.workers) if not each.others else f"{each.workers} (+{each.others} waiting)",
        each.type or "",
        each.topic,
        each.error or "",
    )
    return tuple(map(cell, texts))


def _when(at: datetime | None) -> str:
    return "" if at is None else moment(at)
