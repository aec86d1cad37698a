"""Penstock's tables in a program's own Alembic revisions, online and as SQL (`alembic upgrade --sql`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from alembic import op
from sqlalchemy import Connection

from penstock.database import hosted
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.outbox.adapters.driver import dialect_named, innermost


def upgrade(*, since: int = 0, to: int | None = None, prefix: str = DEFAULT_PREFIX, schema: str | None = None) -> None:
    """Create and update Penstock's tables; called in the `upgrade` of a revision.

    Online, it applies the migrations that the database lacks up to version `to`; as SQL, those after `since`.
    Name both, so that a revision means the same with every Penstock. Raises InvalidInput, SchemaUnreleased,
    UnsupportedConnection.
    """
    context, names = op.get_context(), Names(prefix, schema)
    dialect = dialect_named(context, context.dialect.name)
    if context.as_sql:
        for step in hosted.steps_between(dialect, names, since, to):
            for each in hosted.statements_of(step.script):
                context.impl.static_output(f"{each};")
        return
    connection = op.get_bind()
    if dialect == "sqlite" and not innermost(connection.connection.driver_connection).in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # the driver does not begin one for DDL; Alembic commits
    hosted.upgrade(dialect, names, lambda sql: _execute(connection, sql), to=to)


def include_name(
    name: str | None, type_: str, parent_names: Mapping[str, Any], *, prefix: str = DEFAULT_PREFIX
) -> bool:
    """Keep Penstock's tables out of `--autogenerate`, which would drop them: for `context.configure`."""
    return not (type_ == "table" and name is not None and name.startswith(prefix))


def _execute(connection: Connection, sql: str) -> Sequence[Any]:
    result = connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
    return result.fetchall() if result.returns_rows else ()
