"""The operation of a Django migration that migrates Penstock's tables to a version of their own chain.

`manage.py migrate penstock zero` drops the tables and is as careful as `penstock drop`: that command asks for
confirmation, and a migration, which cannot, refuses to lose data unless settings allow it.
"""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import router
from django.db.migrations.operations.base import Operation

from penstock.database import hosted
from penstock.database.database import Transaction
from penstock.errors import SchemaMissing
from penstock.operate.drop import losses_in
from penstock.outbox.adapters.django import ADAPTER

from . import project


class Tables(Operation):  # type: ignore[misc]  # Django brings no types
    """Runs the chain up to a version, on Django's connection and in its transaction.

    Migrations that `penstock migrate` has applied are skipped. The chain is reversible only as a whole: the
    first version drops the tables, as `penstock drop` does; later ones only check whether it may. Tables that
    hold data, or that members use, stay.
    """

    reversible = True
    reduces_to_sql = True

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change no model: Penstock has none."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Run the missing migrations, on the database for the tables. Raises SchemaUnreleased."""
        connection = schema_editor.connection
        if connection.alias != project.alias() or not router.allow_migrate(connection.alias, app_label):
            return
        dialect, names = ADAPTER.dialect_of(connection), project.names()
        if schema_editor.collect_sql:  # `manage.py sqlmigrate`
            for each in hosted.statements_of(hosted.steps_between(dialect, names, 0, self.version)[-1].script):
                schema_editor.execute(each, params=None)
            return
        hosted.upgrade(dialect, names, lambda sql: _execute(connection, sql), to=self.version)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Refuse to lose data; drop the tables when reversing the first version."""
        connection = schema_editor.connection
        if connection.alias != project.alias() or not router.allow_migrate(connection.alias, app_label):
            return
        dialect, names = ADAPTER.dialect_of(connection), project.names()
        if schema_editor.collect_sql:
            schema_editor.collected_sql.append("-- Penstock's tables are dropped by the first version, if empty")
            return
        _check_may_drop(connection)
        if len(hosted.steps_between(dialect, names, 0, self.version)) == 1:
            hosted.drop(dialect, names, lambda sql: _execute(connection, sql))

    def describe(self) -> str:
        """Return a description for `migrate --plan`."""
        return f"Migrate Penstock's tables to version {self.version}"


def _execute(connection: Any, sql: str) -> Sequence[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows: Sequence[Any] = cursor.fetchall() if cursor.description else ()
        return rows


def _check_may_drop(connection: Any) -> None:
    """Refuse to drop tables that hold data or that members use; missing tables are fine."""
    with project.store() as store:
        try:
            lost = losses_in(Transaction(store.database, connection.connection), store)
        except SchemaMissing:
            return
    if any((lost.records, lost.staged, lost.scheduled, lost.groups, lost.dead)) and not project.allows_drop():
        raise ImproperlyConfigured(
            f"Penstock's tables in database {project.alias()!r} hold {lost.records} records, {lost.staged} "
            f"staged and {lost.scheduled} scheduled events, {lost.groups} groups and {lost.dead} dead "
            "letters, which would be lost: run `manage.py penstock drop` first, which asks for confirmation, "
            "or set PENSTOCK_ALLOW_DROP = True"
        )
