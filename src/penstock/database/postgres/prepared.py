"""Statements that our sessions keep prepared, so that the server plans them once.

A session behind a pooler has none: the next transaction may run in another one. A pooler is detected once for
each connection. The plans are generic, and use indexes even while the tables are small: a plan made for an
empty table must still do for a million rows.
"""

import re
from typing import Any

import psycopg
from psycopg import errors as pg

from ..contract import Params

# JIT: plans without full scans look expensive to older servers, which would compile them.
_PLANNED = "SET plan_cache_mode = force_generic_plan;SET enable_seqscan = off;SET enable_bitmapscan = off;SET jit = off"
_PLACEHOLDER = re.compile(r"%\(([\w.]+)\)s")
_NEEDS_QUOTING = re.compile(r"['\\\0]")


class PreparedStatements:
    """The prepared statements of one connection. One thread at a time, as the connection."""

    # They were dropped on this connection (DISCARD ALL), or a migration has changed their result columns.
    LOST = (pg.InvalidSqlStatementName, pg.FeatureNotSupported)

    def __init__(self, conn: "psycopg.Connection[Any]", bounds: str) -> None:
        """Compare the answering backend with the announced one; without a pooler, set planner options and `bounds`."""
        self._conn = conn
        self._known: dict[str, tuple[str, list[str]]] = {}
        found = conn.execute("SELECT pg_backend_pid()").fetchone()
        self.are_allowed = found == (conn.info.backend_pid,)
        if self.are_allowed:
            conn.execute(f"{bounds};{_PLANNED}")

    def execute(self, sql: str, params: Params) -> str:
        """Return the text that runs a statement with these values; prepare it on first use."""
        known = self._known.get(sql)
        if known is None:
            known = self._known[sql] = self._prepare(sql)
        name, names = known
        texts = [self._literal(_value(params, each)) for each in names]
        return f"EXECUTE {name}({','.join(texts)})" if names else f"EXECUTE {name}"

    def _literal(self, value: Any) -> str:
        """Return a value as an SQL literal; simple ones without the driver, which takes ten times as long."""
        kind = type(value)
        if kind is int:
            return str(value)
        if value is None:
            return "NULL"
        if kind is str and not _NEEDS_QUOTING.search(value):
            return f"'{value}'"
        if kind is list:
            kinds = set(map(type, value))
            if kinds == {int}:
                return f"'{{{str(value)[1:-1]}}}'"
            if kinds == {str} and all(not each or each.isalnum() for each in value):
                return "'{" + ",".join([f'"{each}"' for each in value]) + "}'"
        return psycopg.ClientCursor(self._conn).mogrify("%s", [value])

    def _prepare(self, sql: str) -> tuple[str, list[str]]:
        name, names = f"penstock_{len(self._known)}", list[str]()

        def numbered(found: "re.Match[str]") -> str:
            if found[1] not in names:
                names.append(found[1])
            return f"${names.index(found[1]) + 1}"

        text = _PLACEHOLDER.sub(numbered, sql).replace("%%", "%")
        self._conn.execute(f"PREPARE {name} AS {text}".encode(), prepare=False)
        return name, names


def _value(params: Params, name: str) -> Any:
    table, _, column = name.partition(".")
    return params[table].columns[column] if column else params[name]
