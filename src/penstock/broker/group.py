"""One group of consumers as its coordinator sees it: members, generations, and pending joins. No I/O.

| state      | meaning                                                              | ends with           |
|------------|----------------------------------------------------------------------|---------------------|
| EMPTY      | no member                                                            | a join              |
| PREPARING  | all members have to join again; those that have wait for the others  | the last, or time   |
| COMPLETING | a generation is formed; its leader has to send the assignments       | the leader's sync   |
| STABLE     | every member has an assignment                                       | a join, a departure |

Members hold their pending answers (`joining`, `syncing`); the caller that drives the group sends them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import uuid4

import msgspec

MEMBER_BYTES = 1024  # of a member, beside its metadata and assignment


class GroupState(StrEnum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class StoredMember(msgspec.Struct, frozen=True):
    """A member as stored."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    session_ms: int
    rebalance_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes


@dataclass(slots=True)
class GroupMember:
    """A consumer of a group. `deadline`: when it is removed without a heartbeat."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    session_ms: int
    rebalance_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    deadline: float = 0.0
    joining: Any = None  # the pending answer to its join
    syncing: Any = None  # the pending answer to its sync

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes."""
        said = sum(len(name) + len(data) for name, data in self.protocols)
        return MEMBER_BYTES + 2 * len(self.id) + len(self.client_id) + said + len(self.assignment)

    def metadata(self, protocol: str) -> bytes:
        """Return its metadata for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def stored(self) -> StoredMember:
        """Return it in its stored form."""
        return StoredMember(*(getattr(self, name) for name in StoredMember.__struct_fields__))


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a group and the state of its rebalance."""

    name: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, GroupMember] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)  # static members: instance id to member id
    promised: dict[str, float] = field(default_factory=dict)  # ids given out that have not joined yet
    join_deadline: float = 0.0  # when a rebalance goes on without missing members
    join_from: float = 0.0  # until then it waits for more members

    @property
    def memory_bytes(self) -> int:
        """About how much memory its members take, including expected ones."""
        return sum(each.memory_bytes for each in self.members.values()) + sum(
            MEMBER_BYTES + len(id) for id in self.promised
        )

    @property
    def is_idle(self) -> bool:
        """Whether it has no members and expects none: then the store has its whole state."""
        return self.state is GroupState.EMPTY and not self.members and not self.promised

    def new_member_id(self, client_id: str, instance_id: str | None) -> str:
        """Return an id for a new member."""
        return f"{instance_id or client_id}-{uuid4()}"

    def add(self, member: GroupMember) -> None:
        """Add a member."""
        self.members[member.id] = member
        self.promised.pop(member.id, None)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.id
        if not self.leader:
            self.leader = member.id

    def replace(self, old: GroupMember, id: str) -> GroupMember:
        """Give a static member another id: it has restarted."""
        del self.members[old.id]
        was_leader = self.leader == old.id
        old.id = id
        self.members[id] = old
        assert old.instance_id is not None
        self.instances[old.instance_id] = id
        if was_leader:
            self.leader = id
        return old

    def remove(self, member: GroupMember) -> None:
        """Remove a member."""
        self.members.pop(member.id, None)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.id:
            del self.instances[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), "")

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a member with these protocols can join."""
        others = list(self.members.values())
        if not others:
            return True
        common = self._common(others)
        return protocol_type == self.protocol_type and any(name in common for name in protocols)

    def missing(self) -> list[GroupMember]:
        """Return the members that have not joined again yet."""
        return [each for each in self.members.values() if each.joining is None]

    def form(self) -> None:
        """Begin a generation with the present members, by a protocol that all support."""
        self.generation += 1
        members = list(self.members.values())
        if not members:
            self.state, self.protocol = GroupState.EMPTY, ""
            return
        common = self._common(members)
        votes: dict[str, int] = {}
        for each in members:
            choice = next(name for name, _ in each.protocols if name in common)
            votes[choice] = votes.get(choice, 0) + 1
        self.protocol = max(votes, key=lambda name: (votes[name], name))
        self.state = GroupState.COMPLETING
        for each in members:
            each.assignment = b""

    def _common(self, members: list[GroupMember]) -> set[str]:
        return set.intersection(*({name for name, _ in each.protocols} for each in members))
