"""Who works on a partition or a slot: what the rows of the members and the owners say together."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.clock import Clock, own_ms
from penstock.log.sql.database import Transaction
from penstock.membership.assignment import may_hold
from penstock.membership.filters import Filter
from penstock.membership.member import MemberState
from penstock.membership.process import Process
from penstock.membership.serving import Domain, Present, decode_serves


class Service(Enum):
    """How it stands with the work on one partition of a group, or one slot."""

    OWNED = "owned"  # a living member has it
    COMING = "coming"  # one is about to take it
    PINNED = "pinned"  # those there are pinned to other partitions
    DIFFERS = "differs"  # those there have another filter than the group
    NONE = "none"  # there is nobody


@dataclass(frozen=True, slots=True)
class Served:
    """Who serves: the owner where there is one, else how many would if they could."""

    service: Service
    member: str | None = None
    others: int = 0


class Members:
    """The members that may be at work."""

    def __init__(self, tx: Transaction, clock: Clock) -> None:
        rows = tx.rows("membership", "member_serving", now_ms=own_ms(clock))
        alive = [row for row in rows if not Process(*row[1:4]).is_surely_dead()]
        self._present = {row[0]: Present(row[0], row[4], decode_serves(row[5])) for row in alive}
        self._pids = {row[0]: row[2] for row in alive}
        self._stopping = {row[0] for row in alive if row[6] == MemberState.STOPPING}

    def name(self, id: str) -> str:
        """Return a member as a person would look for it."""
        stopping = ", stopping" if id in self._stopping else ""
        return f"member {id[:8]} (process {self._pids[id]}{stopping})"

    def of_slot(self, owner: str | None) -> Served:
        """Return who moves the events of a slot."""
        if owner in self._present:
            return Served(Service.OWNED, owner)
        serving = any(each.serves.slots for each in self._staying())
        return Served(Service.COMING if serving else Service.NONE)

    def of_partition(
        self, domain: Domain, number: int, owner: str | None, filters: Sequence[Filter]
    ) -> Served:
        """Return who works on a partition of a group."""
        if owner in self._present:
            return Served(Service.OWNED, owner)
        serving = [each for each in self._staying() if domain in each.serves.domains()]
        alike = [each for each in serving if not filters or each.serves.filter(domain.group_id) == filters[0]]
        if serving and not alike:
            return Served(Service.DIFFERS, others=len(serving))
        sharing = [each.share_in(domain) for each in alike]
        if any(may_hold(number, each, sharing) for each in sharing):
            return Served(Service.COMING)
        return Served(Service.PINNED if alike else Service.NONE, others=len(alike))

    def _staying(self) -> list[Present]:
        """Return those that may be given something: a member that stops takes nothing more."""
        return [each for id, each in self._present.items() if id not in self._stopping]
