"""The member that works on a partition or a slot, from the rows of members and owners."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.clock import Clock
from penstock.database.database import Transaction
from penstock.membership.assignment import may_hold
from penstock.membership.filters import Filter, wanted
from penstock.membership.member import MemberState
from penstock.membership.process import Process, lease_clocks
from penstock.membership.serving import SILENT, Domain, MemberStatus, Present, decode_serves, decode_status

from ..members import living_rows
from .answer import lasting


class Service(Enum):
    """Whether a member works on a partition of a group, or on a slot."""

    OWNED = "owned"  # a living member owns it
    STOPPED = "stopped"  # its owner's process is stopped
    COMING = "coming"  # a member is about to take it
    PINNED = "pinned"  # the living members are pinned to other partitions
    DIFFERS = "differs"  # the living members have another filter than the group
    GIVEN_UP = "given_up"  # the living members have given the group up: too many of its calls hang
    NONE = "none"  # there is no living member


@dataclass(frozen=True, slots=True)
class Served:
    """The service of a partition or slot: its owner, or else the number of members that might take it.

    `name`: the owner, or a member that has given the group up, as people would search for it. `status`: the
    one that this member reported. `lapsed`: members that fell silent, in words.
    """

    service: Service
    member: str | None = None
    others: int = 0
    name: str = ""
    pid: int = 0
    status: MemberStatus = SILENT
    lapsed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member as its row and its process show it. `left_ms`: until its lease expires."""

    id: str
    process: Process
    left_ms: int
    state: str
    status: MemberStatus

    @property
    def name(self) -> str:
        """The member as people would search for it."""
        stopping = ", stopping" if self.state == "stopping" else ""
        return f"member {self.id[:8]} (process {self.process.pid}{stopping})"


class Members:
    """The members that may be working, and those that were until recently."""

    def __init__(self, tx: Transaction, clock: Clock) -> None:
        self._present = {row[0]: Present(row[0], row[4], decode_serves(row[5])) for row in living_rows(tx, clock)}
        self._seen = {
            row[0]: SeenMember(row[0], Process(*row[1:4]), row[4], row[6], decode_status(row[7]))
            for row in tx.rows("membership", "member_statuses", **lease_clocks(clock))
        }

    def living(self) -> Iterator[SeenMember]:
        """Yield the members that may be working."""
        yield from (self._seen[id] for id in self._present)

    def lapsed(self) -> tuple[str, ...]:
        """Return, in words, the members that fell silent."""
        found = []
        for each in self._seen.values():
            if each.id not in self._present and each.process.is_surely_dead():
                found.append(f"{each.name} has ended")
            elif each.id not in self._present:
                silent = lasting(-each.left_ms)
                found.append(f"{each.name} has not been heard of since its lease ran out {silent} ago")
        return tuple(found)

    def of_slot(self, owner: str | None) -> Served:
        """Return the service of a slot."""
        if owner is not None and owner in self._present:
            return self._owned(owner)
        serving = any(each.serves.slots for each in self._staying())
        return Served(Service.COMING if serving else Service.NONE, lapsed=self.lapsed())

    def of_partition(
        self, domain: Domain, number: int, owner: str | None, filters: Sequence[Filter], group: str = ""
    ) -> Served:
        """Return the service of a partition of a group."""
        if owner is not None and owner in self._present:
            return self._owned(owner)
        serving = [each for each in self._staying() if domain in each.serves.domains()]
        alike = [each for each in serving if not filters or each.serves.filter(domain.group_id) == filters[0]]
        if serving and not alike:
            return Served(Service.DIFFERS, others=len(serving))
        sharing = [each.share_in(domain) for each in alike]
        if any(may_hold(number, each, sharing) for each in sharing):
            return Served(Service.COMING)
        if alike:
            return Served(Service.PINNED, others=len(alike))
        given_up = next((each for each in self.living() if each.status.group(group).given_up), None)
        if given_up is not None:
            return Served(Service.GIVEN_UP, others=1, name=given_up.name, status=given_up.status)
        return Served(Service.NONE, lapsed=self.lapsed())

    def wanting(self, group_id: int, topic: str, type: str | None = None) -> list[SeenMember]:
        """Return the living members that have handlers of a group for a topic, or for a type on it."""
        found = []
        for id, each in self._present.items():
            filter = each.serves.filter(group_id) or ()
            is_for = any(text.partition(":")[0] == topic for text in filter)
            if is_for and (type is None or wanted([filter], topic, type) is not False):
                found.append(self._seen[id])
        return found

    def filter(self, id: str, group_id: int) -> Filter:
        """Return the filter with which a member serves a group."""
        return self._present[id].serves.filter(group_id) or ()

    def _staying(self) -> list[Present]:
        """Return the members that may take partitions: a stopping member takes none."""
        return [each for id, each in self._present.items() if self._seen[id].state != MemberState.STOPPING]

    def _owned(self, owner: str) -> Served:
        seen = self._seen[owner]
        service = Service.STOPPED if seen.process.is_stopped() else Service.OWNED
        return Served(service, owner, name=seen.name, pid=seen.process.pid, status=seen.status)
