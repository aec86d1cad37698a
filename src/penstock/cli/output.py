"""How commands print: tables for people, JSON for programs."""

import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

_PIPE_WIDTH = 200


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings, as wide as the terminal; plain text when it is no terminal."""
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    console.print(table)
