"""The check before `manage.py migrate penstock zero` drops Penstock's tables, as careful as `penstock drop`.

That command asks for confirmation; a migration cannot, so it refuses to lose data unless settings allow it.
"""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from penstock.database.database import Transaction
from penstock.errors import SchemaMissing
from penstock.operate.drop import Losses, losses_in

from . import project


def check_may_drop(connection: Any) -> None:
    """Refuse to drop tables that hold data or that members use; missing tables are fine.

    It queries Django's connection, in its transaction. Raises ImproperlyConfigured, StoreBusy, SchemaBehind,
    SchemaTooNew, SchemaUnreleased.
    """
    with project.store() as store:
        try:
            lost = losses_in(Transaction(store.database, connection.connection), store)
        except SchemaMissing:
            return
    if _holds_anything(lost) and not project.allows_drop():
        raise ImproperlyConfigured(
            f"Penstock's tables in database {project.alias()!r} hold {lost.records} records, {lost.staged} "
            f"staged and {lost.scheduled} scheduled events, {lost.groups} groups and {lost.dead} dead "
            "letters, which would be lost: run `manage.py penstock drop` first, which asks for confirmation, "
            "or set PENSTOCK_ALLOW_DROP = True"
        )


def _holds_anything(lost: Losses) -> bool:
    return bool(lost.records or lost.staged or lost.scheduled or lost.groups or lost.dead)
