"""Translates the neutral SQL of statement files to PostgreSQL; `../statements.py` has the table."""

import re

from ..neutral import NOW_MS, RowsParameter, rows_replaced

_SUBSTITUTIONS = (
    # In a subquery the clock is read once; as a plain call, once for each row, and it can use no index.
    (NOW_MS, r"(SELECT coalesce(:\1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))"),
    (re.compile(r"\bCROSS (JOIN \w+(?: AS)?(?: \w+)?\s+ON\b)"), r"\1"),
    (re.compile("%"), "%%"),
    (re.compile(r"\?"), "%s"),
    (re.compile(r"(?<![:\w]):([a-z]\w*(?:\.\w+)?)"), r"%(\1)s"),
)


def adapt(sql: str) -> str:
    """Return a statement for psycopg and PostgreSQL."""
    sql = rows_replaced(sql, _table)
    for pattern, words in _SUBSTITUTIONS:
        sql = pattern.sub(words, sql)
    return sql


def _table(rows: RowsParameter) -> str:
    """Write a small table as one array per column."""
    arrays = (f":{rows.param}.{each.name}::{each.type}[]" for each in rows.columns)
    names = (each.name for each in rows.columns)
    return f"unnest({', '.join(arrays)}) AS {rows.alias} ({', '.join(names)})"
