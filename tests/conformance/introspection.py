"""What a database itself says of Penstock's tables: columns, keys, indexes, defaults, sequences, views."""

import re
from typing import Any

Facts = set[tuple[Any, ...]]

# Each query names its facts first; the schema's own name is taken out, for it differs from test to test.
_POSTGRES = """
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.attidentity::text, coalesce(pg_get_expr(d.adbin, d.adrelid), ''), coalesce(l.collname::text, '')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT 'constraint', c.relname, n.conname, pg_get_constraintdef(n.oid), false, '', '', ''
FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid
WHERE n.connamespace = current_schema()::regnamespace
UNION ALL
SELECT 'index', c.relname, i.relname, pg_get_indexdef(i.oid), false, '', '', ''
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid
WHERE c.relnamespace = current_schema()::regnamespace
UNION ALL
SELECT 'options', c.relname, o, '', false, '', '', ''
FROM pg_class c CROSS JOIN unnest(coalesce(c.reloptions, '{none}')) o
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT 'sequence', s.sequencename, s.data_type::text, s.cache_size::text, s.cycle, s.increment_by::text,
       coalesce(d.refobjid::regclass::text, ''), ''
FROM pg_sequences s
LEFT JOIN pg_depend d ON d.objid = format('%I.%I', s.schemaname, s.sequencename)::regclass AND d.deptype = 'a'
WHERE s.schemaname = current_schema()
UNION ALL
SELECT 'view', v.viewname, v.definition, '', false, '', '', ''
FROM pg_views v WHERE v.schemaname = current_schema()
UNION ALL
SELECT 'function', p.proname, p.prosrc, pg_get_function_identity_arguments(p.oid), p.proisstrict,
       p.provolatile::text, '', ''
FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
"""
_CONTENTS = {
    "meta": "SELECT name, CASE WHEN name = 'log_id' THEN '' ELSE value END FROM penstock_meta",
    "slot": "SELECT slot, owner, epoch FROM penstock_slot",
}


def facts(conn: Any) -> Facts:
    """Return every fact about the tables behind a connection, and the rows that migrations put in."""
    found = _sqlite_facts(conn) if hasattr(conn, "iterdump") else _postgres_facts(conn)
    for table, query in _CONTENTS.items():
        found |= {("row", table, *row) for row in conn.execute(query).fetchall()}
    return found


def columns(conn: Any) -> set[tuple[str, str, str, bool]]:
    """Return table, column, kind and whether it may be null, in words that all dialects share."""
    if hasattr(conn, "iterdump"):
        return {
            (table, name, kind, not notnull and not key)
            for table in _sqlite_tables(conn)
            for _, name, kind, notnull, _, key in conn.execute(f"PRAGMA table_info({table})").fetchall()
        }
    kinds = {
        "bigint": "INTEGER",
        "integer": "INTEGER",
        "smallint": "INTEGER",
        "text": "TEXT",
        "bytea": "BLOB",
        "boolean": "INTEGER",
    }
    return {
        (table, name, kinds[kind], not notnull)
        for what, table, name, kind, notnull, *_ in _postgres_facts(conn)
        if what == "column"
    }


def _postgres_facts(conn: Any) -> Facts:
    (schema,) = conn.execute("SELECT current_schema()").fetchone()
    own = re.compile(rf'"?{schema}"?\.')
    rows = conn.execute(_POSTGRES).fetchall()
    conn.rollback()
    return {tuple(own.sub("", each) if isinstance(each, str) else each for each in row) for row in rows}


def _sqlite_facts(conn: Any) -> Facts:
    found: Facts = set()
    for kind, name, statement in conn.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        found.add((kind, name, *_parts(_squeezed(statement or ""))))
    for table in _sqlite_tables(conn):
        found |= {("column", table, *row[1:]) for row in conn.execute(f"PRAGMA table_xinfo({table})")}
        for _, index, unique, origin, partial in conn.execute(f"PRAGMA index_list({table})").fetchall():
            keys = tuple(row[2] for row in conn.execute(f"PRAGMA index_info({index})"))
            found.add(("index", table, index, unique, origin, partial, keys))
    return found


def _sqlite_tables(conn: Any) -> list[str]:
    rows = conn.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'penstock%'")
    return [row[0] for row in rows.fetchall()]


def _parts(statement: str) -> list[str]:
    """Return the parts of a table's statement in any order: a column added later stands behind its keys."""
    begin, _, rest = statement.partition("(")
    body, _, end = rest.rpartition(")")
    return [begin, end, *sorted(part.strip() for part in re.split(r",(?![^(]*\))", body))]


def _squeezed(statement: str) -> str:
    """Return a statement without comments and extra spaces."""
    lines = (line.partition("--")[0] for line in statement.splitlines())
    return " ".join(" ".join(lines).split())
