"""How commands print: tables for people, JSON for programs."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.operate.paging import Page

T = TypeVar("T")
_PIPE_WIDTH = 200


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings, as wide as the terminal; plain text when the output is not a terminal."""
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    console.print(table)


def print_page(
    name: str,
    page: Page[T],
    columns: Sequence[str],
    row: Callable[[T], Sequence[str]],
    *,
    none: str,
    as_json: bool,
) -> None:
    """Print one page of a listing: under its name as JSON, or as a table; `none` if there is nothing."""
    if as_json:
        print_json({name: [whole(each) for each in page.items], "after": page.after})
    elif not page.items:
        click.echo(none)
    else:
        print_table(columns, [row(each) for each in page.items])
        print_more(page.after)


def print_more(after: str | None) -> None:
    """Say how to see the rest of a listing, if there is more."""
    if after is not None:
        click.echo(f"there is more: --after {after}", err=True)


def whole(value: Any) -> dict[str, Any]:
    """Return a dataclass as JSON can hold it: text that came in as other bytes is written with escapes."""
    return {each.name: _encodable(getattr(value, each.name)) for each in fields(value)}


def line(value: Any) -> str:
    """Return a value on one line: text as it is but for what a terminal would act on, the rest as JSON."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def cell(text: str) -> str:
    """Return foreign text for a table: on one line, and no markup."""
    return escape(line(text))


def moment(at: datetime) -> str:
    """Return a moment for a table."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
