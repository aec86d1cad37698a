"""`penstock lab`: tests whether handlers are idempotent, in its own process, by killing them."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from penstock.testing.lab import CrashLab, Report

from .exit_codes import FAILED
from .options import json_option
from .output import print_result
from .target import load_a


@click.command("lab")
@click.argument("target", metavar="MODULE:LAB")
@click.option("--seed", type=click.IntRange(min=1), help="Run only this round: the seed of a finding.")
@click.option("--rounds", type=click.IntRange(min=0), help="How many random rounds of two kills to run.")
@click.option("--draw", type=int, help="A number that selects other random rounds.")
@json_option
def command(target: str, seed: int | None, rounds: int | None, draw: int | None, as_json: bool) -> None:
    """Kill your handlers at every commit point, and show which are not idempotent.

    MODULE:LAB names a penstock.testing.CrashLab in your code, such as tests.lab:lab; the current folder is
    searched too. Exits with 1 if a round ends differently from the run without kills.
    """
    lab = load_a(CrashLab, target, "tests.lab:lab")
    lab.name = target
    report = lab.run(seed=draw, rounds=rounds, progress=_progress()) if seed is None else lab.replay(seed)
    print_result(_document(report), str(report), as_json=as_json)
    click.get_current_context().exit(0 if report.ok else FAILED)


def _progress() -> Callable[[int, int, int], None] | None:
    """Return a function that shows the rounds on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None

    def show(played: int, total: int, findings: int) -> None:
        click.echo(f"\rround {played} of {total}, {findings} findings ", nl=played == total, err=True)

    return show


def _document(report: Report) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "rounds": report.rounds,
        "points": report.points,
        "missed": report.missed,
        "findings": [
            asdict(each) | {"kills": [asdict(kill) | {"meaning": kill.meaning} for kill in each.kills]}
            for each in report.findings
        ],
    }
