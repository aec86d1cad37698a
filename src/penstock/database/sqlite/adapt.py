"""Translates the neutral SQL of statement files to SQLite; `../statements.py` has the table."""

import re

from ..neutral import NOW_MS, RowsParameter, rows_replaced

_ARRAY = re.compile(r"= ANY\(ARRAY\(")
_SUBSTITUTIONS = (
    (NOW_MS, r"coalesce(:\1, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER))"),
    (re.compile(r"= ANY\((:\w+)::\w+\[\]\)"), r"IN (SELECT value FROM json_each(\1))"),
    (re.compile(r"<> ALL\((:\w+)::\w+\[\]\)"), r"NOT IN (SELECT value FROM json_each(\1))"),
    (re.compile(r"\s+FOR (?:UPDATE|NO KEY UPDATE|SHARE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED)?\b"), ""),
    (re.compile(r"::\w+"), ""),
    (re.compile(r"\bIS NOT DISTINCT FROM\b"), "IS"),
    (re.compile(r"\bIS DISTINCT FROM\b"), "IS NOT"),
    (re.compile(r"\bgreatest\("), "max("),
    (re.compile(r"\bleast\("), "min("),
    (re.compile(r"\boctet_length\("), "length("),
)


def adapt(sql: str) -> str:
    """Return a statement for SQLite."""
    sql = _lists(rows_replaced(sql, _table))
    for pattern, words in _SUBSTITUTIONS:
        sql = pattern.sub(words, sql)
    return sql


def _table(rows: RowsParameter) -> str:
    """Write a small table as a subquery over a JSON array of rows."""
    columns = (f"json_extract(value, '$[{at}]') AS {each.name}" for at, each in enumerate(rows.columns))
    return f"(SELECT {', '.join(columns)} FROM json_each(:{rows.param})) AS {rows.alias}"  # noqa: S608  our own file's words  # nosec B608


def _lists(sql: str) -> str:
    """Write `= ANY(ARRAY(SELECT …))` as `IN (SELECT …)`."""
    while found := _ARRAY.search(sql):
        end = _closing(sql, found.end())
        sql = f"{sql[: found.start()]}IN ({sql[found.end() : end]}{sql[end + 1 :]}"
    return sql


def _closing(sql: str, start: int) -> int:
    """Return the position of the parenthesis that closes the one before `start`."""
    depth = 1
    for at in range(start, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[at], 0)
        if not depth:
            return at
    raise ValueError(f"a parenthesis is not closed: {sql}")
