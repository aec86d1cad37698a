"""Tables for people: never cut. A table too wide for the terminal becomes one block per record.

Without a terminal a table is as wide as its longest cells, one line per row, columns two spaces apart, and
does not depend on the environment.
"""

import shutil
import sys
from collections.abc import Sequence

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = 2
_PROSE_WIDTH = 24  # the least width of a column that may be wrapped
_Cells = Sequence[Sequence[Text]]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, prose: Sequence[str] = ()) -> None:
    """Print rows under headings; cells may have markup. `prose`: columns that may be wrapped."""
    texts = [[Text.from_markup(each) for each in row] for row in rows]
    widths = [
        max(cell_len(name), *(cell_len(row[number].plain) for row in texts), 0)
        for number, name in enumerate(columns)
    ]
    width = terminal_width()
    if width is None:
        _print_plain(columns, texts, widths)
        return
    least = [
        _least(name, number, texts, widths[number]) if name in prose else widths[number]
        for number, name in enumerate(columns)
    ]
    if sum(least) + _GAP * (len(columns) - 1) <= width:
        _print_columns(columns, texts, least, prose, width)
    else:
        _print_stacked(columns, texts, width)


def terminal_width() -> int | None:
    """Return the width of the terminal; None if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _least(name: str, number: int, rows: _Cells, width: int) -> int:
    """Return the least width of a prose column: no word is broken."""
    words = [name, *(word for row in rows for word in row[number].plain.split())]
    return max(min(width, _PROSE_WIDTH), *map(cell_len, words))


def _print_plain(columns: Sequence[str], rows: _Cells, widths: Sequence[int]) -> None:
    for row in [columns, *([each.plain for each in row] for row in rows)]:
        cells = (
            text + " " * (width - cell_len(text) + _GAP) for text, width in zip(row, widths, strict=True)
        )
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
