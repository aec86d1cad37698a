"""The living members of a store, and the groups and topics they serve."""

from dataclasses import dataclass, field

from penstock.clock import Clock
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.membership.domain import touch
from penstock.membership.filters import Filter
from penstock.membership.member import MemberState
from penstock.membership.process import Process, lease_clocks
from penstock.membership.serving import Domain, decode_serves


@dataclass(frozen=True, slots=True)
class Serving:
    """The ids of living members by group and by topic, and the ids of those that are stopping."""

    groups: dict[int, list[str]] = field(default_factory=dict)
    topics: dict[int, list[str]] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)


def living(tx: Transaction, clock: Clock) -> set[str]:
    """Return the members whose lease runs and whose process is not known to be dead."""
    return {row[0] for row in _members(tx, clock)}


def serving(tx: Transaction, clock: Clock) -> Serving:
    """Return the groups and topics that the living members serve."""
    found = Serving()
    for row in _members(tx, clock):
        if row[6] == MemberState.STOPPING:
            found.stopping.add(row[0])
        for group in decode_serves(row[5]).groups:
            found.groups.setdefault(group.id, []).append(row[0])
            for topic in group.topics:
                members = found.topics.setdefault(topic, [])
                if row[0] not in members:
                    members.append(row[0])
    return found


def filters(tx: Transaction, clock: Clock) -> dict[int, dict[str, Filter]]:
    """Return, by group, the handler filter of each living member."""
    found: dict[int, dict[str, Filter]] = {}
    for row in _members(tx, clock):
        for group in decode_serves(row[5]).groups:
            found.setdefault(group.id, {})[row[0]] = group.filter
    return found


def touch_readers(tx: Transaction, topic_id: int) -> list[int]:
    """Make the members of all groups that read a topic reload; return the groups.

    The topic's own lock is the only one taken before these.
    """
    groups = [row[0] for row in tx.rows("delivery", "groups_on_topic", topic_id=topic_id)]
    for domain in sorted((Domain(group, topic_id) for group in groups), key=lambda each: each.name):
        touch(tx, domain)
    return groups


def _members(tx: Transaction, clock: Clock) -> list[Row]:
    rows = tx.rows("membership", "member_serving", **lease_clocks(clock))
    return [row for row in rows if not Process(*row[1:4]).is_surely_dead()]
