"""The neutral SQL of statement files, and its translation into the words of a dialect.

The forms of the neutral SQL are recognised here, once. A dialect fills in a `Wording`: one text for each
form, in which `{…}` is a part of the form. It has no code of its own for that.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A dialect's words for each form of the neutral SQL."""

    rows: str  # `rows(:param, a integer, …) AS alias`, a small table; {columns} are of `rows_column`, by commas
    rows_column: str  # one of its columns: {param}, {name}, {type}, and its place {at}, from 0
    in_select: str  # `= ANY(ARRAY(SELECT …))`: {query}
    in_list: str = "= ANY(:{list}::{type}[])"
    not_in_list: str = "<> ALL(:{list}::{type}[])"
    now_ms: str  # `now_ms(:param)`: the parameter or, if NULL, the server's clock
    lock: str = "{lock}"  # ` FOR UPDATE OF c SKIP LOCKED` and such, with the blank before it
    ordered_join: str  # `CROSS JOIN x ON …`, which joins in this order: the words before x
    greatest: str = "greatest"  # functions, from here on
    least: str = "least"
    octet_length: str = "octet_length"
    cast: str = "::{type}"
    percent: str = "%"
    position: str = "?"  # a parameter without a name
    parameter: str = ":{name}"  # {name} may be `table.column`, in dialects with arrays


_ROWS = re.compile(r"\brows\(:(?P<param>\w+),(?P<columns>[^()]+)\)\s+AS\s+(?P<alias>\w+)")
_IN_SELECT = re.compile(r"= ANY\(ARRAY\(")
# Parameters come last: the words of other forms may contain them.
_FORMS = {
    "now_ms": re.compile(r"\bnow_ms\(:(?P<param>\w+)\)"),
    "in_list": re.compile(r"= ANY\(:(?P<list>\w+)::(?P<type>\w+)\[\]\)"),
    "not_in_list": re.compile(r"<> ALL\(:(?P<list>\w+)::(?P<type>\w+)\[\]\)"),
    "lock": re.compile(r"(?P<lock>\s+FOR (?:UPDATE|NO KEY UPDATE|SHARE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED)?\b)"),
    "ordered_join": re.compile(r"\bCROSS JOIN(?= \w+(?: AS)?(?: \w+)?\s+ON\b)"),
    "greatest": re.compile(r"\bgreatest(?=\()"),
    "least": re.compile(r"\bleast(?=\()"),
    "octet_length": re.compile(r"\boctet_length(?=\()"),
    "cast": re.compile(r"::(?P<type>\w+)"),
    "percent": re.compile("%"),
    "position": re.compile(r"\?"),
    "parameter": re.compile(r"(?<![:\w]):(?P<name>[a-z]\w*(?:\.\w+)?)"),
}


def translate(sql: str, wording: Wording) -> str:
    """Return a statement in the words of a dialect."""
    sql = _in_selects(_ROWS.sub(lambda found: _rows(found, wording), sql), wording.in_select)
    for form, pattern in _FORMS.items():
        sql = _replaced(sql, pattern, getattr(wording, form))
    return sql


def _replaced(sql: str, pattern: re.Pattern[str], words: str) -> str:
    return pattern.sub(lambda found: words.format(**found.groupdict()), sql)


def _rows(found: re.Match[str], wording: Wording) -> str:
    columns = [each.split(maxsplit=1) for each in found["columns"].split(",")]
    written = (
        wording.rows_column.format(param=found["param"], name=name, type=type, at=at)
        for at, (name, type) in enumerate(columns)
    )
    names = ", ".join(name for name, _ in columns)
    parts = found.groupdict() | {"columns": ", ".join(written), "names": names}
    return wording.rows.format(**parts)


def _in_selects(sql: str, words: str) -> str:
    """Replace each `= ANY(ARRAY(SELECT …))`, those inside of others first."""
    for found in reversed(list(_IN_SELECT.finditer(sql))):
        end = _closing(sql, found.end())
        sql = f"{sql[: found.start()]}{words.format(query=sql[found.end() : end])}{sql[end + 2 :]}"
    return sql


def _closing(sql: str, start: int) -> int:
    """Return the position of the parenthesis that closes the one before `start`."""
    depth = 1
    for at in range(start, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[at], 0)
        if not depth:
            return at
    raise ValueError(f"a parenthesis is not closed: {sql}")
