"""The parts of the neutral SQL of statement files that every dialect has to parse.

`statements.py` describes the neutral SQL; `adapt.py` of each dialect translates it.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

_ROWS = re.compile(r"\brows\(:(?P<param>\w+),(?P<columns>[^()]+)\)\s+AS\s+(?P<alias>\w+)")
NOW_MS = re.compile(r"\bnow_ms\(:(\w+)\)")


class Column(NamedTuple):
    """A column of a parameter that is a small table."""

    name: str
    type: str


class RowsParameter(NamedTuple):
    """A parameter that is a small table, as written in a statement: `rows(:param, a integer, …) AS alias`."""

    param: str
    columns: list[Column]
    alias: str


def rows_replaced(sql: str, words: Callable[[RowsParameter], str]) -> str:
    """Return a statement in which each `rows(…) AS alias` is replaced by other SQL."""
    return _ROWS.sub(lambda found: words(_read(found)), sql)


def _read(found: re.Match[str]) -> RowsParameter:
    columns = [Column(*each.split(maxsplit=1)) for each in found["columns"].split(",")]
    return RowsParameter(found["param"], columns, found["alias"])
