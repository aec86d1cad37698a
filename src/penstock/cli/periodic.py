"""`penstock periodic`: schedules of periodic events: list, show, pause, resume, run now, remove."""

from datetime import datetime
from typing import Any

import click

from penstock.log.store import Store
from penstock.operate import periodic
from penstock.operate.periodic import ScheduleShown

from .options import store_command
from .output import line, moment, print_facts, print_json, print_page, print_result, whole

_COLUMNS = ("schedule", "when", "state", "next", "last", "workers", "type", "topic", "error")


@click.group("periodic")
def command() -> None:
    """List, show, pause, resume, run now or remove the schedules of periodic events."""


@store_command("list", command, paged=True)
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
    facts = {"schedule": shown.name, **whole(shown), "upcoming": ", ".join(map(moment, ticks))}
    print_facts(
        {
            name: moment(each) if isinstance(each, datetime) else each
            for name, each in facts.items()
            if name != "name" and each is not None
        }
    )


@store_command("pause", command)
@click.argument("name")
def pause_schedule(name: str, store: Store, as_json: bool) -> None:
    """Pause a schedule until it is resumed."""
    _say(name, periodic.pause(store, name), as_json, ("is paused", "was paused already"))


@store_command("resume", command)
@click.argument("name")
def resume_schedule(name: str, store: Store, as_json: bool) -> None:
    """Resume a paused schedule with its next tick; ticks missed meanwhile are not caught up."""
    _say(name, periodic.resume(store, name), as_json, ("ticks again", "was not paused"))


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
    text = f"schedule {line(name)} {words[not changed]}"
    print_result({"schedule": name, "changed": changed}, text, as_json=as_json)


def _row(each: ScheduleShown) -> tuple[object, ...]:
    workers = f"{each.workers} (+{each.others} waiting)" if each.others else each.workers
    ticks = each.next_at, each.last_at
    return each.name, each.when, each.state.value, *ticks, workers, each.type, each.topic, each.error
