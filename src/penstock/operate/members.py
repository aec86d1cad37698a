"""Members: the processes that work on a store, living or silent, and the groups and topics they serve."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.clock import SYSTEM, Clock
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.log.store import Store
from penstock.membership.domain import touch
from penstock.membership.member import MemberState
from penstock.membership.process import Process, lease_clocks
from penstock.membership.serving import Domain, decode_serves, decode_status

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
    names = {row[0]: row[1] for row in tx.rows("operate", "groups_all", name=None)} if rows else {}
    shown = []
    for id, host, pid, started, left_ms, died_ms, state, status in rows:
        reported, here = decode_status(status), serving.get(id)
        serves = decode_serves(here[5]) if here else None
        groups = sorted(names[each.id] for each in serves.groups if each.id in names) if serves else []
        presence = _presence(Process(host, pid, started), left_ms, died_ms, state)
        work = here[4] / 1000 if here else None, serves.slots if serves else False, tuple(groups)
        calls = sum(len(each.calls) for each in reported.groups), sum(each.hung for each in reported.groups)
        troubles = tuple(f"{loop}: {error}" for loop, error in reported.troubles.items())
        shown.append(MemberShown(id, host, pid, presence, left_ms / 1000, *work, *calls, troubles))
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


@dataclass(frozen=True, slots=True)
class Serving:
    """The ids of living members by group and by topic, and the ids of those that are stopping."""

    groups: dict[int, list[str]] = field(default_factory=dict)
    topics: dict[int, list[str]] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)


def living_rows(tx: Transaction, clock: Clock) -> list[Row]:
    """Return the rows of the members whose lease runs and whose process is not known to be dead."""
    rows = tx.rows("membership", "member_serving", **lease_clocks(clock))
    return [row for row in rows if not Process(*row[1:4]).is_surely_dead()]


def living(tx: Transaction, clock: Clock) -> set[str]:
    """Return the ids of those members."""
    return {row[0] for row in living_rows(tx, clock)}


def living_at(clock: Clock) -> Callable[[Transaction], list[str]]:
    """Return the same as a function of the transaction, as `delivery` asks for it."""
    return lambda tx: sorted(living(tx, clock))


def serving(tx: Transaction, clock: Clock) -> Serving:
    """Return the groups and topics that the living members serve."""
    found = Serving()
    for row in living_rows(tx, clock):
        if row[6] == MemberState.STOPPING:
            found.stopping.add(row[0])
        for group in decode_serves(row[5]).groups:
            found.groups.setdefault(group.id, []).append(row[0])
            for topic in group.topics:
                members = found.topics.setdefault(topic, [])
                if row[0] not in members:
                    members.append(row[0])
    return found


def touch_group(tx: Transaction, group_id: int, topic_id: int) -> None:
    """Make the members of a group reload its partitions of a topic; lock this before its cursors."""
    touch(tx, Domain(group_id, topic_id))


def touch_readers(tx: Transaction, topic_id: int) -> list[int]:
    """Make the members of all groups that read a topic reload; return the groups.

    The topic's own lock is the only one taken before these.
    """
    groups = [row[0] for row in tx.rows("operate", "groups_on_topic", topic_id=topic_id)]
    for domain in sorted((Domain(group, topic_id) for group in groups), key=lambda each: each.name):
        touch(tx, domain)
    return groups
