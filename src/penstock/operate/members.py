"""Members: the processes that work on a store, living or silent."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from penstock.clock import SYSTEM, Clock
from penstock.database.database import Transaction
from penstock.log.store import Store
from penstock.membership.member import MemberState
from penstock.membership.process import Process, lease_clocks
from penstock.membership.serving import decode_serves
from penstock.membership.status import decode_status

from .operation import operation


class Presence(StrEnum):
    """The state of a member."""

    RUNNING = "running"
    STOPPING = "stopping"  # it finishes its calls and takes no new records
    STOPPED = "stopped"  # its process is stopped, by a signal or a debugger
    SILENT = "silent"  # its lease expired; it may still live
    ENDED = "ended"  # its process has ended without leaving


@dataclass(frozen=True, slots=True)
class MemberShown:
    """One member. `lease_seconds`: until its lease expires; negative once it has expired.

    `age_seconds`, `slots` and `groups` are known only while the lease runs. `slots`: it sequences events.
    `busy`: long calls. `hung`: calls beyond their time limit. `troubles`: the errors its loops retry after.
    """

    id: str
    host: str
    pid: int
    presence: Presence
    lease_seconds: float
    age_seconds: float | None
    slots: bool
    groups: tuple[str, ...]
    busy: int
    hung: int
    troubles: tuple[str, ...]


@operation
def members(store: Store, *, clock: Clock = SYSTEM) -> list[MemberShown]:
    """Return the members, running ones first."""
    return store.database.look(lambda tx: list(members_in(tx, clock)))


def members_in(tx: Transaction, clock: Clock) -> Iterator[MemberShown]:
    """Yield the members as one transaction sees them; three statements on small tables."""
    clocks = lease_clocks(clock)
    serving = {row[0]: row for row in tx.rows("membership", "member_serving", **clocks)}
    rows = tx.rows("membership", "member_statuses", **clocks)
    names = {row[0]: row[1] for row in tx.rows("delivery", "groups_all")} if rows else {}
    shown = []
    for id, host, pid, started, left_ms, died_ms, state, status in rows:
        reported, here = decode_status(status), serving.get(id)
        serves = decode_serves(here[5]) if here else None
        groups = sorted(names[each.id] for each in serves.groups if each.id in names) if serves else []
        shown.append(
            MemberShown(
                id,
                host,
                pid,
                _presence(Process(host, pid, started), left_ms, died_ms, state),
                left_ms / 1000,
                here[4] / 1000 if here else None,
                serves.slots if serves else False,
                tuple(groups),
                sum(len(each.calls) for each in reported.groups),
                sum(each.hung for each in reported.groups),
                tuple(f"{loop}: {error}" for loop, error in reported.troubles.items()),
            )
        )
    order = list(Presence)
    yield from sorted(shown, key=lambda each: (order.index(each.presence), each.host, each.pid, each.id))


def _presence(process: Process, left_ms: int, died_ms: int | None, state: str) -> Presence:
    if died_ms is not None or process.is_surely_dead():
        return Presence.ENDED
    if left_ms <= 0:
        return Presence.SILENT
    if process.is_stopped():
        return Presence.STOPPED
    return Presence.STOPPING if state == MemberState.STOPPING else Presence.RUNNING
