"""All findings of the doctor on one store: what makes no progress, the bell, time limits, names of groups.

For what makes no progress it runs the checks of `why` for every group, and those that concern no single group:
whether a member sequences events, silent members, open transactions, and topics without a reader.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from penstock.backoff import PollingSettings
from penstock.clock import SYSTEM, Clock
from penstock.database.address import without_password
from penstock.database.bell_listener import listen
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.database.migrations import check
from penstock.delivery.groups import unread_topics
from penstock.errors import BellUnheard, Error, NotMigrated, SchemaError, StoreMissing
from penstock.log.contract import Log
from penstock.log.sql.log import SqlLog
from penstock.log.store import Store
from penstock.membership.filters import Filter, have_nothing_in_common
from penstock.membership.serving import decode_serves
from penstock.outbox.bell import BellSettings

from .doctor import DoctorFinding, PartState
from .members import living_rows
from .operation import operation
from .periodic import examine_schedules
from .retention import examine_groups, examine_holders
from .why.answer import Code, Reason, counted
from .why.finder import Finder
from .why.group_reasons import GroupReasons
from .why.members import Members
from .why.record_case import CaseReader, group_of
from .why.sentences import WORKER
from .why.unlogged import OpenTransactions, blocked, explain_ready, open_transactions, unseen

_BELL, _HEARD = "Bell", "handlers that start within milliseconds of a commit"
_RECORDS = "every record for each of its handlers"
_EVENTS = "events that reach the log"
_NOTES = (Code.IN_WORK, Code.PARKED, Code.DELIVERED)
_REMEDY = "set bell.listen_url (PENSTOCK_BELL_LISTEN_URL) to an address of the database itself"


@operation
def examine_bell(store: Store) -> DoctorFinding:
    """Listen as a worker does and return the finding; on a server, this sends one notification."""
    dialect = store.database.dialect
    if not BellSettings.load().enabled:
        return _polling(PartState.NOTE, "bell.enabled is off", "set bell.enabled")
    if not dialect.notifies:
        return DoctorFinding(_BELL, PartState.OK, "listening: a file counts its writes", _HEARD)
    where = f" at listen_url {without_password(dialect.listen_url)}" if dialect.listen_url else ""
    try:
        listen(store.database).close()
    except BellUnheard as exc:
        cause = "a pooler stands in between" if exc.pooled else "a notification did not come back"
        return _polling(PartState.LOW, cause + where, _REMEDY)
    except Exception as exc:
        known = exc if isinstance(exc, Error) else dialect.translate(exc)
        return _polling(PartState.LOW, f"{known or exc}{where}", "see that the server can be reached")
    return DoctorFinding(_BELL, PartState.OK, "listening" + where, _HEARD)


def _polling(state: PartState, cause: str, remedy: str) -> DoctorFinding:
    longest = PollingSettings.load().idle_seconds
    return DoctorFinding(_BELL, state, f"polling, up to {longest:g} s late, because {cause}", _HEARD, remedy)


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

    def look(tx: Transaction) -> tuple[list[Row], list[Row]]:
        return tx.rows("operate", "group_list", after="", limit=_MOST_GROUPS), living_rows(tx, clock)

    rows, members = store.database.look(look)
    served: dict[int, dict[str, Filter]] = {}  # by group, the handler filter of each living member
    for member in members:
        for group in decode_serves(member[5]).groups:
            served.setdefault(group.id, {})[member[0]] = group.filter
    found = []
    for name, id, *_ in rows:
        filters = served.get(id, {})
        pairs = combinations(filters, 2)
        apart = next((each for each in pairs if have_nothing_in_common(filters[each[0]], filters[each[1]])), None)
        if apart is not None:
            one, other = apart
            text = (
                f"member {one[:8]} serves it for {', '.join(filters[one])}, member {other[:8]} for "
                f"{', '.join(filters[other])}: records that one of them handles are passed over while the other "
                "owns their partition"
            )
            remedy = "if these are two programs, give each its own group name"
            found.append(DoctorFinding(f"Group {name}", PartState.LOW, text, _RECORDS, remedy))
    return found


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
    files: list[DoctorFinding] = []
    if not isinstance(store.log, SqlLog):
        from .log_files import examine_files  # a log in files needs its extra

        files = examine_files(store)
    return [
        *files,
        *examine_stalls(store, clock),
        *examine_holders(store, clock),
        examine_bell(store),
        *examine_time_limits(store),
        *examine_groups(store, clock),
        *examine_names(store, clock),
        *examine_schedules(store, clock),
    ]


@operation
def examine_stalls(store: Store, clock: Clock = SYSTEM) -> list[DoctorFinding]:
    """Return a finding for everything that waits; if nothing does, one that says so."""
    opened = open_transactions(store)

    def look(tx: Transaction) -> list[DoctorFinding]:
        examination = _Examination(tx, store.log_in(tx), Members(tx, clock), opened, clock.now_ms())
        return list(examination.findings())

    return store.database.look_once(look)


@dataclass(frozen=True, slots=True)
class _Examination:
    """One examination, on one snapshot."""

    tx: Transaction
    log: Log
    members: Members
    opened: OpenTransactions
    now_ms: int

    def findings(self) -> Iterator[DoctorFinding]:
        yield self._sequencing()
        yield from self._members()
        yield from self._transactions()
        yield from self._groups()
        yield from self._topics()

    def _sequencing(self) -> DoctorFinding:
        ready = explain_ready(self.tx, self.members, None, self.now_ms, self.opened)
        if ready is not None:
            return _waiting("Sequencing", ready, _EVENTS)
        if self.members.of_slot(None).service.value == "none":
            text = "no living member sequences events; none wait now"
            return DoctorFinding("Sequencing", PartState.NOTE, text, _EVENTS, WORKER)
        return DoctorFinding("Sequencing", PartState.OK, "no event waits", _EVENTS)

    def _members(self) -> Iterator[DoctorFinding]:
        enables = "the work that it owned"
        for text in self.members.lapsed():
            remedy = "check whether that process is paused or cut off from the database; if it is gone, do nothing"
            yield DoctorFinding("Member", PartState.NOTE, text, enables, remedy)
        for member in self.members.living():
            if member.process.is_stopped():
                text = f"{member.name} is stopped, by a signal or a debugger"
                yield DoctorFinding("Member", PartState.LOW, text, enables, f"kill -CONT {member.process.pid}")
            for loop, error in member.status.troubles.items():
                text = f"{member.name}: {loop} fails and retries: {error}"
                yield DoctorFinding("Member", PartState.LOW, text, enables, "fix what the error names")
            if member.status.polls:
                text = f"{member.name} does not hear the bell and polls instead: {member.status.polls}"
                remedy = "set bell.enabled, or bell.listen_url to an address of the database itself"
                yield DoctorFinding(_BELL, PartState.LOW, text, _HEARD, remedy)

    def _transactions(self) -> Iterator[DoctorFinding]:
        writers, lockers = self.opened.long_writers(), self.opened.long_lockers()
        if writers:
            enables = "events that other transactions can see"
            yield DoctorFinding("Transactions", PartState.LOW, unseen(writers), enables, "end it")
        if lockers and lockers != writers:
            enables = "workers that are not blocked"
            yield DoctorFinding("Transactions", PartState.LOW, blocked(lockers), enables, "end it")

    def _groups(self) -> Iterator[DoctorFinding]:
        reader = CaseReader(self.tx, Finder(self.tx, self.log, self.log.topics(), None), self.members)
        group_reasons = GroupReasons(self.tx, self.log, reader, self.members, self.opened, self.now_ms)
        for row in self.tx.rows("operate", "groups_all", name=None):
            group = group_of(row)
            for _, reason in group_reasons.of(group):
                if reason.code is not Code.DELIVERED or reason.also:
                    yield _waiting(f"Group {group.name}", reason, _RECORDS, f"penstock why {group.name}")

    def _topics(self) -> Iterator[DoctorFinding]:
        for topic, count in unread_topics(self.tx, self.log).items():
            text = f"{counted(count, 'record is', 'records are')} in it and no group reads it"
            remedy = f"run a worker with a handler for topic={topic!r}; if the records are not needed: "
            remedy += "penstock topics delete, which deletes them"
            yield DoctorFinding(f"Topic {topic}", PartState.LOW, text, _RECORDS, remedy)


def _waiting(part: str, reason: Reason, enables: str, otherwise: str = "") -> DoctorFinding:
    waits = reason.code not in _NOTES or WORKER in reason.commands
    state = PartState.LOW if waits else PartState.NOTE
    found = ". Also: ".join([reason.sentence, *reason.also])
    return DoctorFinding(part, state, found, enables, "; ".join(reason.commands) or otherwise)
