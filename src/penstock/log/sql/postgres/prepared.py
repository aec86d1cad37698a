"""Statements that a session of ours keeps prepared, so that the server plans them once.

A session that a pooler hands out has none: the next transaction may be in another one. Who stands between is
found out once for each connection. The plans are made for any values, and by the indexes even while the
tables are small: a plan that was made when a table was empty must do when it has a million rows.
"""

import re
from typing import Any

import psycopg
from psycopg import errors as pg

# JIT: plans that may read no table as a whole look dear to older servers, which would compile them.
PLANNED = ";SET LOCAL plan_cache_mode = force_generic_plan;SET LOCAL enable_seqscan = off;SET LOCAL jit = off"
_PLACEHOLDER = re.compile(r"%\(([\w.]+)\)s")


class PreparedStatements:
    """The prepared statements of one connection. One thread at a time, as the connection."""

    # Somebody has dropped them on this connection (DISCARD ALL), or a migration has changed what they return.
    LOST = (pg.InvalidSqlStatementName, pg.FeatureNotSupported)

    def __init__(self, conn: "psycopg.Connection[Any]") -> None:
        """Ask which backend answers: poolers make up the one that they announce."""
        self._conn = conn
        self._known: dict[str, tuple[str, list[str]]] = {}
        found = conn.execute("SELECT pg_backend_pid()").fetchone()
        self.are_allowed = found == (conn.info.backend_pid,)

    def execute(self, sql: str, params: dict[str, Any]) -> str:
        """Return the text that runs a statement with these values; it is prepared at its first use."""
        known = self._known.get(sql)
        if known is None:
            known = self._known[sql] = self._prepare(sql)
        name, names = known
        marks = ", ".join(["%s"] * len(names))
        text = f"EXECUTE {name}({marks})" if names else f"EXECUTE {name}"
        return psycopg.ClientCursor(self._conn).mogrify(text, [params[each] for each in names])

    def _prepare(self, sql: str) -> tuple[str, list[str]]:
        name, names = f"penstock_{len(self._known)}", list[str]()

        def numbered(found: "re.Match[str]") -> str:
            if found[1] not in names:
                names.append(found[1])
            return f"${names.index(found[1]) + 1}"

        text = _PLACEHOLDER.sub(numbered, sql).replace("%%", "%")
        self._conn.execute(f"PREPARE {name} AS {text}".encode(), prepare=False)
        return name, names
