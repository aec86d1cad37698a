"""How commands print: tables for people, JSON for programs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec
from rich.markup import escape

from penstock.logs import one_line
from penstock.operate.paging import Page

from .tables import print_table

T = TypeVar("T")
_LABEL_WIDTH = 12
# Characters that JSON need not escape, but that a terminal interprets or hides: DEL and C1, direction marks,
# line separators.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(_UNSEEN.sub(_as_json, msgspec.json.format(msgspec.json.encode(value)).decode()))


def json_line(value: Any) -> str:
    """Return a value as JSON on one line, safe for a terminal: no control or hidden characters."""
    return _UNSEEN.sub(_as_json, msgspec.json.encode(value).decode())


def print_page(
    name: str,
    page: Page[T],
    columns: Sequence[str],
    row: Callable[[T], Sequence[str]],
    *,
    none: str,
    as_json: bool,
    prose: Sequence[str] = (),
) -> None:
    """Print one page of a listing: under its name as JSON, or as a table; `none` if it is empty.

    `prose`: the columns whose text may be wrapped.
    """
    if as_json:
        print_json({name: [whole(each) for each in page.items], "after": page.after})
    elif not page.items:
        click.echo(none)
    else:
        print_table(columns, [row(each) for each in page.items], prose=prose)
        print_more(page.after)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print facts, one per line."""
    width = max(_LABEL_WIDTH, 2 + max(map(len, facts)))
    for name, value in facts.items():
        click.echo(f"{name + ':':<{width}}{line(value)}")


def print_more(after: str | None) -> None:
    """Print the option for the next page of a listing, if there is one."""
    if after is not None:
        click.echo(f"more: --after {after}", err=True)


def whole(value: Any) -> dict[str, Any]:
    """Return a dataclass for JSON: text with undecodable bytes is escaped."""
    return {each.name: _encodable(getattr(value, each.name)) for each in fields(value)}


def line(value: Any) -> str:
    """Return a value on one line: text with control characters escaped, other values as JSON."""
    return one_line(value) if isinstance(value, str) else json_line(value)


def cell(text: str) -> str:
    """Return foreign text for a table: on one line, without markup."""
    return escape(line(text))


def moment(at: datetime) -> str:
    """Return a moment for a table."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _as_json(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"
