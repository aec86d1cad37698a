"""Statements that a session of ours keeps prepared, so that the server plans them once.

A session that a pooler hands out has none: the next transaction may be in another one. Who stands between is
found out once for each connection. The plans are made for any values, and by the indexes even while the
tables are small: a plan that was made when a table was empty must do when it has a million rows.
"""

import re
from typing import Any

import psycopg
from psycopg import errors as pg

from ..contract import Params

# JIT: plans that may read no table as a whole look dear to older servers, which would compile them.
_PLANNED = (
    "SET plan_cache_mode = force_generic_plan;SET enable_seqscan = off;SET enable_bitmapscan = off;"
    "SET jit = off"
)
_PLACEHOLDER = re.compile(r"%\(([\w.]+)\)s")
_NEEDS_QUOTING = re.compile(r"['\\\0]")


class PreparedStatements:
    """The prepared statements of one connection. One thread at a time, as the connection."""

    # Somebody has dropped them on this connection (DISCARD ALL), or a migration has changed what they return.
    LOST = (pg.InvalidSqlStatementName, pg.FeatureNotSupported)

    def __init__(self, conn: "psycopg.Connection[Any]", bounds: str) -> None:
        """Ask which backend answers: poolers make up the one that they announce.

        If the session is ours, it is told once how to plan, and `bounds`: the time limits of transactions.
        """
        self._conn = conn
        self._known: dict[str, tuple[str, list[str]]] = {}
        found = conn.execute("SELECT pg_backend_pid()").fetchone()
        self.are_allowed = found == (conn.info.backend_pid,)
        if self.are_allowed:
            conn.execute(f"{bounds};{_PLANNED}")

    def execute(self, sql: str, params: Params) -> str:
        """Return the text that runs a statement with these values; it is prepared at its first use."""
        known = self._known.get(sql)
        if known is None:
            known = self._known[sql] = self._prepare(sql)
        name, names = known
        texts = [self._literal(_value(params, each)) for each in names]
        return f"EXECUTE {name}({','.join(texts)})" if names else f"EXECUTE {name}"

    def _literal(self, value: Any) -> str:
        """Return a value as SQL says it; what is simple not by the driver, which takes ten times as long."""
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
    """Return a value by its name in a statement: that of a parameter, or of a column of rows."""
    table, _, column = name.partition(".")
    return params[table].columns[column] if column else params[name]
