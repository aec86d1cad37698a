"""`penstock periodic`: schedules of periodic events: list, show, pause, resume, run now, remove."""

from datetime import datetime
from typing import Any

import click

from penstock.log.store import Store
from penstock.operate import periodic
from penstock.operate.periodic import ScheduleShown

from .options import after_option, limit_option, store_command
from .output import cell, line, moment, print_facts, print_json, print_page, print_result, whole

_COLUMNS = ("schedule", "when", "state", "next", "last", "workers", "type", "topic", "error")


@click.group("periodic")
def command() -> None:
    """List, show, pause, resume, run now or remove the schedules of periodic events."""


@store_command("list", command)
@limit_option
@after_option
def list_schedules(store: Store, as_json: bool, **paged: Any) -> None:
    """List the schedules that workers have declared: when each ticks, and its error if it fails."""
    found = periodic.schedules(store, **paged)
    print_page("schedules", found, _COLUMNS, _row, none="no worker has declared a schedule", as_json=as_json)


@store_command("show", command)
@click.argument("name")
def show_schedule(name: str, store: Store, as_json: bool) -> None:
    """Show a schedule, and its next ticks."""
    shown, ticks = periodic.show(store, name), periodic.upcoming(store, name)
    if as_json:
        print_json(whole(shown) | {"upcoming": ticks})
        return
    facts = {"schedule": shown.name} | {name: value for name, value in whole(shown).items() if name != "name"}
    facts = {name: _when(each) if isinstance(each, datetime) else each for name, each in facts.items()}
    print_facts(
        {name: each for name, each in facts.items() if each is not None} | {"upcoming": ", ".join(map(moment, ticks))}
    )


@store_command("pause", command)
@click.argument("name")
def pause_schedule(name: str, store: Store, as_json: bool) -> None:
    """Pause a schedule until it is resumed."""
    changed = periodic.pause(store, name)
    _say(name, changed, as_json, ("is paused", "was paused already"))


@store_command("resume", command)
@click.argument("name")
def resume_schedule(name: str, store: Store, as_json: bool) -> None:
    """Resume a paused schedule with its next tick; ticks missed meanwhile are not caught up."""
    changed = periodic.resume(store, name)
    _say(name, changed, as_json, ("ticks again", "was not paused"))


@store_command("run-now", command)
@click.argument("name")
def run_now(name: str, store: Store, as_json: bool) -> None:
    """Make a schedule tick once now, in addition to its regular ticks; a worker takes it within seconds."""
    periodic.run_now(store, name)
    print_result({"schedule": name, "due": "now"}, f"schedule {line(name)} is due now", as_json=as_json)


@store_command("remove", command)
@click.argument("name")
def remove_schedule(name: str, store: Store, as_json: bool) -> None:
    """Delete a schedule that no running worker declares."""
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
