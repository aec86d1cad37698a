"""Whether `manage.py migrate penstock zero` may drop Penstock's tables: the care that `penstock drop` takes.

That command asks a person; a migration cannot. So it refuses to lose anything, unless the settings allow it.
"""

from django.core.exceptions import ImproperlyConfigured

from penstock.clock import SYSTEM
from penstock.errors import SchemaMissing, StoreBusy
from penstock.operate.drop import Losses, losses
from penstock.operate.presence import living

from . import project


def check_may_drop() -> None:
    """Refuse to drop tables that hold something, or that members work on; none there is nothing to lose.

    Raises ImproperlyConfigured, StoreBusy, SchemaBehind, SchemaTooNew.
    """
    with project.store() as store:
        try:
            lost = losses(store)
        except SchemaMissing:
            return
        busy = sorted(store.database.look(lambda tx: living(tx, SYSTEM))) if lost.members else []
    if busy:
        raise StoreBusy(busy)
    if _holds_anything(lost) and not project.allows_drop():
        raise ImproperlyConfigured(
            f"Penstock's tables in database {project.alias()!r} hold {lost.records} records, {lost.staged} "
            f"staged and {lost.scheduled} scheduled events, {lost.groups} groups and {lost.dead} dead "
            "letters, which would be lost: run `manage.py penstock drop` first, which asks, or set "
            "PENSTOCK_ALLOW_DROP = True"
        )


def _holds_anything(lost: Losses) -> bool:
    return bool(lost.records or lost.staged or lost.scheduled or lost.groups or lost.dead)
