"""Finds everything in a store that makes no progress, for `doctor --url`.

It runs the checks of `why` for every group, and those that concern no single group: whether a member
sequences events, silent members, open transactions, and topics without a reader.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.clock import SYSTEM, Clock
from penstock.database.database import Transaction
from penstock.delivery.groups import unread_topics
from penstock.log.contract import Log
from penstock.log.store import Store

from .doctor import DoctorFinding, PartState
from .operation import operation
from .why.answer import Code, Reason
from .why.finder import Finder
from .why.group_reasons import GroupReasons
from .why.members import Members
from .why.record_case import CaseReader, group_of
from .why.sentences import WORKER
from .why.unlogged import OpenTransactions, blocked, explain_ready, open_transactions, unseen

_RECORDS = "every record for each of its handlers"
_EVENTS = "events that reach the log"
_NOTES = (Code.IN_WORK, Code.PARKED, Code.DELIVERED)


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
        """Return whether a living member sequences events, and whether events wait."""
        ready = explain_ready(self.tx, self.members, None, self.now_ms, self.opened)
        if ready is not None:
            return _finding("Sequencing", ready, _EVENTS)
        if self.members.of_slot(None).service.value == "none":
            text = "no living member sequences events; none wait now"
            return DoctorFinding("Sequencing", PartState.NOTE, text, _EVENTS, WORKER)
        return DoctorFinding("Sequencing", PartState.OK, "no event waits", _EVENTS)

    def _members(self) -> Iterator[DoctorFinding]:
        """Yield a finding for each member that is silent, is stopped, fails, or does not hear the bell."""
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
                yield DoctorFinding(
                    "Bell", PartState.LOW, text, "handlers that start within milliseconds of a commit", remedy
                )

    def _transactions(self) -> Iterator[DoctorFinding]:
        """Yield findings for transactions that have been open for long."""
        writers, lockers = self.opened.long_writers(), self.opened.long_lockers()
        if writers:
            yield DoctorFinding(
                "Transactions", PartState.LOW, unseen(writers), "events that other transactions can see", "end it"
            )
        if lockers and lockers != writers:
            yield DoctorFinding(
                "Transactions", PartState.LOW, blocked(lockers), "workers that are not blocked", "end it"
            )

    def _groups(self) -> Iterator[DoctorFinding]:
        """Yield for each group the reasons that `why` gives."""
        reader = CaseReader(self.tx, Finder(self.tx, self.log, self.log.topics(), None), self.members)
        group_reasons = GroupReasons(self.tx, self.log, reader, self.members, self.opened, self.now_ms)
        for row in self.tx.rows("operate", "groups_all", name=None):
            group = group_of(row)
            for _, reason in group_reasons.of(group):
                if reason.code is not Code.DELIVERED or reason.also:
                    yield _finding(f"Group {group.name}", reason, _RECORDS, f"penstock why {group.name}")

    def _topics(self) -> Iterator[DoctorFinding]:
        """Yield a finding for each topic that has records but no reader."""
        for topic, count in unread_topics(self.tx, self.log).items():
            are = "record is" if count == 1 else "records are"
            text = f"{count:,} {are} in it and no group reads it"
            remedy = f"run a worker with a handler for topic={topic!r}; if the records are not needed: "
            remedy += "penstock topics delete, which deletes them"
            yield DoctorFinding(f"Topic {topic}", PartState.LOW, text, _RECORDS, remedy)


def _finding(part: str, reason: Reason, enables: str, otherwise: str = "") -> DoctorFinding:
    waits = reason.code not in _NOTES or WORKER in reason.commands
    state = PartState.LOW if waits else PartState.NOTE
    found = ". Also: ".join([reason.sentence, *reason.also])
    return DoctorFinding(part, state, found, enables, "; ".join(reason.commands) or otherwise)
