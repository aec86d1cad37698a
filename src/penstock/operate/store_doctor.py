"""All findings of the doctor on one store."""

from penstock.clock import SYSTEM, Clock
from penstock.database.migrations import check
from penstock.errors import NotMigrated, SchemaError, StoreMissing
from penstock.log.sql.log import SqlLog
from penstock.log.store import Store

from .bell import examine_bell
from .doctor import DoctorFinding, PartState
from .group_names import examine_names
from .operation import operation
from .periodic import examine_schedules
from .retention import examine_groups
from .retention_holders import examine_holders
from .stalls import examine_stalls
from .time_limits import examine_time_limits


@operation
def examine_store(store: Store, clock: Clock = SYSTEM) -> list[DoctorFinding]:
    """Return a finding for everything that waits or will wait, and for missing parts; changes nothing.

    If this code cannot use the tables, that is the only finding. Raises StoreMissing.
    """
    try:
        check(store.database)
    except StoreMissing:
        raise
    except SchemaError as exc:
        found, remedy = str(exc), "update Penstock here"
        if isinstance(exc, NotMigrated):
            found, remedy = exc.found, "penstock migrate --url …"
        return [DoctorFinding("Tables", PartState.BROKEN, found, "everything in this store", remedy)]
    return [
        *_examine_files(store),
        *examine_stalls(store, clock),
        *examine_holders(store, clock),
        examine_bell(store),
        *examine_time_limits(store),
        *examine_groups(store, clock),
        *examine_names(store, clock),
        *examine_schedules(store, clock),
    ]


def _examine_files(store: Store) -> list[DoctorFinding]:
    if isinstance(store.log, SqlLog):
        return []
    from .damage import examine_files  # a log in files needs its extra

    return examine_files(store)
