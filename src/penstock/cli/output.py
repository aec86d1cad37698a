"""How commands print and ask: tables for people, JSON for programs, and a question before a change."""

import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.errors import Undecodable
from penstock.logs import one_line
from penstock.model.record import Record
from penstock.operate.operation import Page

_GAP = 2
_PROSE_WIDTH = 24  # the least width of a column that may be wrapped
_Cells = Sequence[Sequence[Text]]

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


def print_result(document: Any, text: str, *, as_json: bool) -> None:
    """Print a result: as a JSON document for programs, or in words."""
    if as_json:
        print_json(document)
    else:
        click.echo(text)


def print_page(
    name: str,
    page: Page[T],
    columns: Sequence[str],
    row: Callable[[T], Sequence[object]],
    *,
    none: str,
    as_json: bool,
    prose: Sequence[str] = (),
) -> None:
    """Print one page of a listing: under its name as JSON, or as a table; `none` if it is empty.

    `prose`: the columns whose text may be wrapped.
    """
    if as_json:
        print_json({name: whole(page.items), "after": page.after})
    elif not page.items:
        click.echo(none)
    else:
        print_table(columns, map(row, page.items), prose=prose, after=page.after)


def print_rows(
    document: Any, columns: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool, prose: Sequence[str] = ()
) -> None:
    """Print a whole listing: as a JSON document for programs, or as a table."""
    if as_json:
        print_json(document)
    else:
        print_table(columns, rows, prose=prose)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print facts, one per line."""
    width = max(_LABEL_WIDTH, 2 + max(map(len, facts)))
    for name, value in facts.items():
        click.echo(f"{name + ':':<{width}}{line(value)}")


def whole(value: Any) -> Any:
    """Return dataclasses, or a list of them, for JSON: text with undecodable bytes is escaped."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [whole(each) for each in value]
    return {each.name: whole(getattr(value, each.name)) for each in fields(value)} if is_dataclass(value) else value


def value_document(record: Record) -> dict[str, Any]:
    """Return a record's value for JSON; one that is not JSON as base64."""
    try:
        value = record.value
    except Undecodable:
        value = record.data
    if isinstance(value, bytes):
        return {"value": None, "data_base64": b64encode(value).decode()}
    return {"value": value}


def with_record(of: Any, record: Record) -> dict[str, Any]:
    """Return a dataclass together with its record for JSON; a value that is not JSON as base64."""
    shown: dict[str, Any] = whole(of)
    return shown | {"timestamp": record.timestamp, "headers": record.headers} | value_document(record)


def line(value: Any) -> str:
    """Return a value on one line: text with control characters escaped, other values as JSON."""
    return one_line(value) if isinstance(value, str) else json_line(value)


def moment(at: datetime) -> str:
    """Return a moment for people, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def _as_json(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, prose: Sequence[str] = (), after: str | None = None
) -> None:
    """Print rows of any values under headings. `prose`: columns that may be wrapped; `after`: for the next page."""
    texts = [[_cell(each) for each in row] for row in rows]
    widths = [
        max(cell_len(name), *(cell_len(row[number].plain) for row in texts), 0) for number, name in enumerate(columns)
    ]
    least = [
        _least(name, number, texts, widths[number]) if name in prose else widths[number]
        for number, name in enumerate(columns)
    ]
    width = terminal_width()
    if width is None:
        _print_plain(columns, texts, widths)
    elif sum(least) + _GAP * (len(columns) - 1) <= width:
        _print_columns(columns, texts, least, prose, width)
    else:
        _print_stacked(columns, texts, width)
    if after is not None:
        click.echo(f"more: --after {after}", err=True)


def _cell(value: object) -> Text:
    """Return a value for a table: a moment to the second, other values on one line, nothing for None."""
    if isinstance(value, Text):
        return value
    if isinstance(value, datetime):
        return Text(moment(value))
    return Text("" if value is None else line(str(value)))


def terminal_width() -> int | None:
    """Return the width of the terminal; None if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _least(name: str, number: int, rows: _Cells, width: int) -> int:
    """Return the least width of a prose column: no word is broken."""
    words = [name, *(word for row in rows for word in row[number].plain.split())]
    return max(min(width, _PROSE_WIDTH), *map(cell_len, words))


def _print_plain(columns: Sequence[str], rows: _Cells, widths: Sequence[int]) -> None:
    for row in [columns, *([each.plain for each in row] for row in rows)]:
        cells = (text + " " * (width - cell_len(text) + _GAP) for text, width in zip(row, widths, strict=True))
        click.echo("".join(cells).rstrip())


def _print_columns(
    columns: Sequence[str], rows: _Cells, least: Sequence[int], prose: Sequence[str], width: int
) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name, needed in zip(columns, least, strict=True):
        table.add_column(name, no_wrap=name not in prose, overflow="fold", min_width=needed)
    for row in rows:
        table.add_row(*row)
    Console(width=width).print(table)


def _print_stacked(columns: Sequence[str], rows: _Cells, width: int) -> None:
    """Print a block per record without its empty fields; the terminal wraps lines."""
    console, label = Console(width=width), max(map(len, columns)) + 2
    for number, row in enumerate(rows):
        if number:
            console.print()
        for name, text in zip(columns, row, strict=True):
            if text.plain:
                fact = Text.assemble((f"{name + ':':<{label}}", "bold"), text)
                console.print(fact, soft_wrap=True, highlight=False)


def confirm(question: str, *, as_json: bool = False, instead: str = "--yes") -> None:
    """Ask, and abort unless the answer is yes. Raises UsageError without a terminal."""
    _check_terminal(question, as_json, instead)
    click.confirm(question, abort=True, err=True)


def ask_for(word: str, question: str, *, as_json: bool = False) -> None:
    """Ask for a word, and abort unless it is typed. Raises UsageError without a terminal."""
    _check_terminal(question, as_json, "--yes")
    if click.prompt(question, default="", show_default=False, err=True) != word:
        raise click.Abort


def is_terminal() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def _check_terminal(question: str, as_json: bool, instead: str) -> None:
    if as_json:
        raise click.UsageError(f"--json cannot ask for confirmation ({question}); use {instead}")
    if not is_terminal():
        raise click.UsageError(f"no terminal to ask for confirmation ({question}); use {instead}")
