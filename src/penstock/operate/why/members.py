"""Who works on a partition or a slot: what the rows of the members and the owners say together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.clock import Clock
from penstock.log.sql.database import Transaction
from penstock.membership.assignment import may_hold
from penstock.membership.filters import Filter, wanted
from penstock.membership.lease import lease_clocks
from penstock.membership.member import MemberState
from penstock.membership.process import Process
from penstock.membership.serving import Domain, Present, decode_serves
from penstock.membership.status import SILENT, MemberStatus, decode_status

from .wording import lasting


class Service(Enum):
    """How it stands with the work on one partition of a group, or one slot."""

    OWNED = "owned"  # a living member has it
    STOPPED = "stopped"  # a member has it whose process is stopped
    COMING = "coming"  # one is about to take it
    PINNED = "pinned"  # those there are pinned to other partitions
    DIFFERS = "differs"  # those there have another filter than the group
    GIVEN_UP = "given_up"  # those there have given the group up: too many of its calls hang
    NONE = "none"  # there is nobody


@dataclass(frozen=True, slots=True)
class Served:
    """Who serves: the owner where there is one, else how many would if they could.

    `name`: a member as a person would look for it: the owner, or one that has given the group up. `status`:
    what it says of itself. `lapsed`: members that were there and are not heard of any more, in words.
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
    """A member as its row and its process show it. `left_ms`: how long its lease still runs."""

    id: str
    process: Process
    left_ms: int
    state: str
    status: MemberStatus

    @property
    def name(self) -> str:
        """The member as a person would look for it."""
        stopping = ", stopping" if self.state == "stopping" else ""
        return f"member {self.id[:8]} (process {self.process.pid}{stopping})"


class Members:
    """The members that may be at work, and those that were not long ago."""

    def __init__(self, tx: Transaction, clock: Clock) -> None:
        clocks = lease_clocks(clock)
        rows = tx.rows("membership", "member_serving", **clocks)
        alive = [row for row in rows if not Process(*row[1:4]).is_surely_dead()]
        self._present = {row[0]: Present(row[0], row[4], decode_serves(row[5])) for row in alive}
        self._seen = {
            row[0]: SeenMember(row[0], Process(*row[1:4]), row[4], row[6], decode_status(row[7]))
            for row in tx.rows("membership", "member_statuses", **clocks)
        }

    def living(self) -> Iterator[SeenMember]:
        """Yield the members that may be at work."""
        yield from (self._seen[id] for id in self._present)

    def lapsed(self) -> tuple[str, ...]:
        """Return, in words, the members that are not heard of any more."""
        return tuple(_lapse(each) for each in self._seen.values() if each.id not in self._present)

    def of_slot(self, owner: str | None) -> Served:
        """Return who moves the events of a slot."""
        if owner is not None and owner in self._present:
            return self._owned(owner)
        serving = any(each.serves.slots for each in self._staying())
        return Served(Service.COMING if serving else Service.NONE, lapsed=self.lapsed())

    def of_partition(
        self,
        domain: Domain,
        number: int,
        owner: str | None,
        filters: Sequence[Filter],
        group: str = "",
    ) -> Served:
        """Return who works on a partition of a group."""
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
        """Return the living members whose handlers of a group are for a topic, or for a type there."""
        found = []
        for id, each in self._present.items():
            filter = each.serves.filter(group_id)
            if filter is None:
                continue
            is_for = any(text.partition(":")[0] == topic for text in filter)
            if is_for and (type is None or wanted([filter], topic, type) is not False):
                found.append(self._seen[id])
        return found

    def filter(self, id: str, group_id: int) -> Filter:
        """Return the filter with which a member serves a group."""
        return self._present[id].serves.filter(group_id) or ()

    def _staying(self) -> list[Present]:
        """Return those that may be given something: a member that stops takes nothing more."""
        return [each for id, each in self._present.items() if self._seen[id].state != MemberState.STOPPING]

    def _owned(self, owner: str) -> Served:
        seen = self._seen[owner]
        service = Service.STOPPED if seen.process.is_stopped() else Service.OWNED
        return Served(service, owner, name=seen.name, pid=seen.process.pid, status=seen.status)


def _lapse(member: SeenMember) -> str:
    if member.process.is_surely_dead():
        return f"{member.name} has ended"
    return f"{member.name} has not been heard of since its lease ran out {lasting(-member.left_ms)} ago"
