"""The operation of a Django migration that migrates Penstock's tables to a version of their own chain."""

from collections.abc import Sequence
from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from penstock.database import hosted
from penstock.outbox.adapters.django import ADAPTER

from . import project
from .dropping import check_may_drop


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
            for each in hosted.statements_of(
                hosted.steps_between(dialect, names, 0, self.version)[-1].script
            ):
                schema_editor.execute(each, params=None)
            return
        hosted.upgrade(dialect, names, lambda sql: _execute(connection, sql), to=self.version)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Refuse to lose data; drop the tables when reversing the first version.

        Raises ImproperlyConfigured, StoreBusy, SchemaBehind, SchemaTooNew, SchemaUnreleased.
        """
        connection = schema_editor.connection
        if connection.alias != project.alias() or not router.allow_migrate(connection.alias, app_label):
            return
        dialect, names = ADAPTER.dialect_of(connection), project.names()
        if schema_editor.collect_sql:
            schema_editor.collected_sql.append(
                "-- Penstock's tables are dropped by the first version, if they are empty"
            )
            return
        check_may_drop(connection)
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
