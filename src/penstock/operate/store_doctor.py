"""All findings of the doctor on one store; those on the bell, time limits and group names are made here."""

from collections.abc import Mapping
from itertools import combinations

from penstock.backoff import PollingSettings
from penstock.clock import SYSTEM, Clock
from penstock.database.address import without_password
from penstock.database.bell_listener import listen
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.database.migrations import check
from penstock.errors import BellUnheard, Error, NotMigrated, SchemaError, StoreMissing
from penstock.log.sql.log import SqlLog
from penstock.log.store import Store
from penstock.membership.filters import Filter, have_nothing_in_common
from penstock.outbox.bell import BellSettings

from .doctor import DoctorFinding, PartState
from .members import filters
from .operation import operation
from .periodic import examine_schedules
from .retention import examine_groups, examine_holders
from .stalls import examine_stalls

_PART, _ENABLES = "Bell", "handlers that start within milliseconds of a commit"
_REMEDY = "set bell.listen_url (PENSTOCK_BELL_LISTEN_URL) to an address of the database itself"


@operation
def examine_bell(store: Store) -> DoctorFinding:
    """Listen as a worker does and return the finding; on a server, this sends one notification."""
    dialect = store.database.dialect
    if not BellSettings.load().enabled:
        return _polling(PartState.NOTE, "bell.enabled is off", "set bell.enabled")
    if not dialect.notifies:
        return DoctorFinding(_PART, PartState.OK, "listening: a file counts its writes", _ENABLES)
    where = f" at listen_url {without_password(dialect.listen_url)}" if dialect.listen_url else ""
    try:
        listen(store.database).close()
    except BellUnheard as exc:
        cause = "a pooler stands in between" if exc.pooled else "a notification did not come back"
        return _polling(PartState.LOW, cause + where, _REMEDY)
    except Exception as exc:
        known = exc if isinstance(exc, Error) else dialect.translate(exc)
        return _polling(PartState.LOW, f"{known or exc}{where}", "see that the server can be reached")
    return DoctorFinding(_PART, PartState.OK, "listening" + where, _ENABLES)


def _polling(state: PartState, cause: str, remedy: str) -> DoctorFinding:
    longest = PollingSettings.load().idle_seconds
    return DoctorFinding(_PART, state, f"polling, up to {longest:g} s late, because {cause}", _ENABLES, remedy)


SHORT_SECONDS = 60.0  # a limit below this ends calls that are not considered slow


@operation
def examine_time_limits(store: Store) -> list[DoctorFinding]:
    """Return a finding for each session limit that is short enough to end a handler's transaction."""
    dialect = store.database.dialect
    try:
        limits = dialect.time_limits()
    except Exception as exc:
        raise (dialect.translate(exc) or exc) from exc
    return [
        DoctorFinding(
            "Time limits",
            PartState.LOW,
            f"{setting} is {ms / 1000:g} s",
            "handlers with transaction=True that take longer than that",
            f"ALTER ROLE ... SET {setting} = '10min' for Penstock's role, or wait outside record.tx",
        )
        for setting, ms in sorted(limits.items())
        if ms < SHORT_SECONDS * 1000
    ]


_MOST_GROUPS = 10_000


@operation
def examine_names(store: Store, clock: Clock = SYSTEM) -> list[DoctorFinding]:
    """Return a finding for each group whose living members have disjoint handlers."""

    def look(tx: Transaction) -> tuple[list[Row], dict[int, dict[str, Filter]]]:
        return tx.rows("operate", "group_list", after="", limit=_MOST_GROUPS), filters(tx, clock)

    rows, served = store.database.look(look)
    found = []
    for name, id, *_ in rows:
        apart = _apart(served.get(id, {}))
        if apart is not None:
            found.append(_finding(name, served[id], *apart))
    return found


def _apart(members: Mapping[str, Filter]) -> tuple[str, str] | None:
    """Return two members whose filters have nothing in common, if any."""
    pairs = combinations(members, 2)
    return next((each for each in pairs if have_nothing_in_common(members[each[0]], members[each[1]])), None)


def _finding(name: str, members: Mapping[str, Filter], one: str, other: str) -> DoctorFinding:
    return DoctorFinding(
        f"Group {name}",
        PartState.LOW,
        f"member {one[:8]} serves it for {', '.join(members[one])}, member {other[:8]} for "
        f"{', '.join(members[other])}: records that one of them handles are passed over while the other owns "
        "their partition",
        "every record for each of its handlers",
        "if these are two programs, give each its own group name",
    )


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
    from .log_files import examine_files  # a log in files needs its extra

    return examine_files(store)
