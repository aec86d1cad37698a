"""`penstock top`: shows the overview in a terminal and refreshes it until it is stopped."""

import math
import sys
from threading import Event

import click
from rich.console import Group as Stack
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.clock import SYSTEM
from penstock.console.history import Curve, OverviewHistory
from penstock.console.wording import age, lasting, number, rate, short
from penstock.operate.members import Presence
from penstock.operate.overview import StoreOverview, overview
from penstock.signals import on_signal

from .options import ChosenStore, json_option, store_options
from .output import line, print_json, print_table

_BARS = "▁▂▃▄▅▆▇█"
_CURVE = 40  # points of a curve
_COLUMNS = ("group", "kind", "delivered/s", "lag", "oldest", "parked", "held", "dead", "")


@click.command("top")
@store_options
@click.option("--every", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Print it once; implied if the output is not a terminal.")
@json_option
def command(chosen: ChosenStore, every: float, once: bool, as_json: bool) -> None:
    """Show a store at a glance until it is stopped.

    Rates, ages, waiting keys, members. Every count has a bound, and each refresh takes a fixed number of statements.
    """
    history = OverviewHistory(SYSTEM, span_seconds=math.inf)
    with chosen.opened() as store:
        now = history.now(lambda: overview(store))
        if as_json:
            print_json(now)
        elif once or not sys.stdout.isatty():
            click.echo(_heading(now, history).plain)
            print_table(_COLUMNS, _rows(now, history))
        else:
            stopped = Event()
            with on_signal(lambda _: stopped.set()), Live(_screen(now, history), screen=True) as live:
                while not stopped.wait(every):
                    now = history.now(lambda: overview(store), fresh=True)
                    live.update(_screen(now, history), refresh=True)


def _screen(now: StoreOverview, history: OverviewHistory) -> Stack:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("group", "kind", "") else "right", no_wrap=True)
    for row in _rows(now, history):
        table.add_row(*(Text(line(each)) for each in row))
    return Stack(_heading(now, history), Text(), table, Text(), *_members(now))


def _heading(now: StoreOverview, history: OverviewHistory) -> Text:
    into = history.rate(lambda each: each.logged)
    out = history.rate(lambda each: sum(group.passed for group in each.groups))
    moments = (each.oldest_unread_at for each in now.groups if each.oldest_unread_at is not None)
    oldest = (now.at - min(moments, default=now.at)).total_seconds()
    dead = sum(each.dead for each in now.groups)
    running = sum(each.presence is Presence.RUNNING for each in now.members)
    figures = (
        f"in {rate(into.last)}/s  delivered {rate(out.last)}/s  oldest {lasting(oldest)}  "
        f"lag {short(sum(each.lag for each in now.groups))}  staged {number(now.staged, now.counted)}  "
        f"scheduled {number(now.scheduled, now.counted)}  dead {number(dead, now.counted)}  members {running}"
    )
    curves = "".join(f"\n{name:<10}{_bars(each)}" for name, each in (("in", into), ("delivered", out)))
    return Text(f"{now.at:%H:%M:%S}Z  {figures}{curves if into.points else ''}")


def _rows(now: StoreOverview, history: OverviewHistory) -> list[list[str]]:
    curves = history.group_rates(each.name for each in now.groups)
    return [
        [
            each.name,
            each.kind,
            rate(curves[each.name].last),
            short(each.lag),
            age(each.oldest_unread_at, now.at),
            number(each.parked, now.counted),
            number(each.held, now.counted),
            number(each.dead, now.counted),
            "paused" if each.paused_at is not None else "",
        ]
        for each in now.groups
    ]


def _members(now: StoreOverview) -> list[Text]:
    if not now.members:
        return [Text("no member runs: no events are sequenced, no handlers are called")]
    return [
        Text(line(f"{each.id[:8]}  {each.presence:<8}  process {each.pid}  {'; '.join(each.troubles)}"))
        for each in now.members[:20]
    ]


def _bars(curve: Curve) -> str:
    values = [value for _, value in curve.points][-_CURVE:]
    top = max(values, default=0.0)
    return "".join(_BARS[round(value / top * (len(_BARS) - 1))] if top else _BARS[0] for value in values)
