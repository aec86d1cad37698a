"""The common part of all PostgreSQL drivers: the statement for some rows, its placeholders, its errors.

Statements have psycopg's placeholders, `%s`; for drivers that use `$1` they are numbered once.
"""

import re
from functools import lru_cache
from itertools import count
from typing import Any

from penstock.database.naming import Names
from penstock.database.statements import statement
from penstock.errors import SchemaMissing

from ..contract import Step

_UNDEFINED_TABLE = "42P01"
_last: dict[str, tuple[Names, str]] = {}  # by statement: the names of its last use, and its text
_QUOTED = re.compile(r'"([^"]+)"')


def postgres_call(step: Step) -> tuple[str, tuple[Any, ...]]:
    """Return the name and parameters of the statement for these rows; many rows are one array per column."""
    if len(step.rows) == 1:
        return step.statement, step.rows[0]
    return f"{step.statement}_many", tuple(list(column) for column in zip(*step.rows, strict=True))


def postgres_sql(name: str, names: Names) -> str:
    """Return a statement with `%s` as its placeholders."""
    last = _last.get(name)
    if last is not None and last[0] is names:  # a program has one set of names: no need to hash them
        return last[1]
    text = statement("outbox", "postgres", name, names)
    _last[name] = (names, text)
    return text


@lru_cache(maxsize=1024)
def numbered_sql(name: str, names: Names) -> str:
    """Return a statement with `$1`, `$2`, … as its placeholders."""
    number = count(1)
    return re.sub("%s", lambda _: f"${next(number)}", postgres_sql(name, names))


def missing_relation(error: BaseException | None) -> SchemaMissing | None:
    """Return SchemaMissing if any driver's PostgreSQL error reports a missing table."""
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return schema_missing(error) if code == _UNDEFINED_TABLE else None


def schema_missing(error: BaseException | None) -> SchemaMissing:
    """Return SchemaMissing for an error about a missing table, which names it."""
    named = _QUOTED.search(str(error))
    return SchemaMissing(named[1] if named else "penstock_*")
