"""`penstock doctor`: what this machine has."""

from pathlib import Path

import click

from penstock.operate.doctor import State, examine, healthy

from .output import print_json, print_table

_SIGNS = {
    State.OK: "[green]ok[/]",
    State.MISSING: "[dim]–[/]",
    State.NOTE: "[cyan]note[/]",
    State.LOW: "[yellow]low[/]",
    State.BROKEN: "[red]no[/]",
}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(as_json: bool) -> None:
    """Show what this machine has and what each missing part would enable.

    Exits with 1 when something that every use needs is broken.
    """
    findings = examine(Path.cwd())
    if as_json:
        print_json(findings)
    else:
        rows = [
            (
                one.part.replace("[", "\\["),
                _SIGNS[one.state],
                one.found,
                one.enables,
                _remedy(one.state, one.remedy),
            )
            for one in findings
        ]
        print_table(("part", "", "found", "enables", "to get it"), rows)
    click.get_current_context().exit(0 if healthy(findings) else 1)


def _remedy(state: State, remedy: str) -> str:
    return "" if state is State.OK else remedy.replace("[", "\\[")
