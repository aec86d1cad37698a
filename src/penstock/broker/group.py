"""A group of consumers as its coordinator sees it: members, generations, pending joins; and groups in the store.

| state      | meaning                                                              | ends with           |
|------------|----------------------------------------------------------------------|---------------------|
| EMPTY      | no member                                                            | a join              |
| PREPARING  | all members have to join again; those that have wait for the others  | the last, or time   |
| COMPLETING | a generation is formed; its leader has to send the assignments       | the leader's sync   |
| STABLE     | every member has an assignment                                       | a join, a departure |

Members hold their pending answers (`joining`, `syncing`); the caller that drives the group sends them. A
coordinator loads a group once, and writes it under its epoch.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from penstock.clock import Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery import client_cursors
from penstock.delivery.client_cursors import ClientCommit, ClientPlace, commit_places, forget_places
from penstock.delivery.groups import GroupKind, join_group
from penstock.log.store import Store

MEMBER_BYTES = 1024  # of a member, beside its metadata and assignment


class GroupState(StrEnum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class StoredMember(msgspec.Struct):
    """A member as stored."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    session_ms: int
    rebalance_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""


class GroupMember(StoredMember):
    """A consumer of a group. `deadline`: when it is removed without a heartbeat."""

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
        promised = sum(MEMBER_BYTES + len(id) for id in self.promised)
        return promised + sum(each.memory_bytes for each in self.members.values())

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
        if self.leader == old.id:
            self.leader = id
        old.id = id
        self.add(old)
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
        if not self.members:
            return True
        return protocol_type == self.protocol_type and not self._common().isdisjoint(protocols)

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
        common = self._common()
        votes = Counter(next(name for name, _ in each.protocols if name in common) for each in members)
        self.protocol = max(votes, key=lambda name: (votes[name], name))
        self.state = GroupState.COMPLETING
        for each in members:
            each.assignment = b""

    def _common(self) -> set[str]:
        return set.intersection(*({name for name, _ in each.protocols} for each in self.members.values()))


_members = msgspec.json.Decoder(list[GroupMember]).decode


class Hold(NamedTuple):
    """A coordinator's hold on a group: its row, and the epoch in which it may write the row."""

    group_id: int
    epoch: int


class ListedGroup(NamedTuple):
    """A summary of a group of clients."""

    name: str
    protocol_type: str
    has_members: bool


class ClientGroupStore:
    """Reads and writes groups for one broker. Safe from any thread; every call asks the store."""

    def __init__(self, store: Store, clock: Clock, owner: str) -> None:
        self._database, self._clock, self._owner = store.database, clock, owner

    def take(self, name: str) -> tuple[Hold, ConsumerGroup]:
        """Become the coordinator of a group and return its stored state. Raises GroupKindDiffers."""
        return self._database.run(lambda tx: self._take(tx, name))

    def _take(self, tx: Transaction, name: str) -> tuple[Hold, ConsumerGroup]:
        group_id = join_group(tx, name, GroupKind.CLIENT, own_ms(self._clock))
        tx.change("broker", "kafka_group_add", group_id=group_id, owner=self._owner)
        tx.rows("broker", "kafka_group_lock", group_id=group_id)
        tx.change("broker", "kafka_group_take", group_id=group_id, owner=self._owner)
        (row,) = tx.rows("broker", "kafka_group_find", group_id=group_id)
        _, epoch, generation, protocol_type, protocol, leader, members = row
        group = ConsumerGroup(name, GroupState.EMPTY, generation, protocol_type, protocol)
        for each in _members(members):
            group.add(each)
        if group.members:
            group.state, group.leader = GroupState.STABLE, leader
        return Hold(group_id, epoch), group

    def write(self, hold: Hold, row: Mapping[str, Any]) -> bool:
        """Store a generation (`generation_row`); return whether the group is still coordinated here."""
        params = {**hold._asdict(), "owner": self._owner, **row}
        return self._database.run(lambda tx: bool(tx.change("broker", "kafka_group_put", **params)))

    def commit(self, hold: Hold, commits: Mapping[ClientPlace, ClientCommit]) -> bool:
        """Store offsets of a group; return whether it is still coordinated here."""

        return self._changed(hold, lambda tx: commit_places(tx, hold.group_id, commits))

    def _changed(self, hold: Hold, work: Callable[[Transaction], object]) -> bool:
        """Change a group in the store, if it is still coordinated here; return whether it is."""

        def change(tx: Transaction) -> bool:
            is_ours = self.holds(tx, hold)
            if is_ours:
                work(tx)
            return is_ours

        return self._database.run(change)

    def holds(self, tx: Transaction, hold: Hold) -> bool:
        """Return whether a group is still coordinated here, and lock it until the transaction ends."""
        return tx.rows("broker", "kafka_group_lock", group_id=hold.group_id) == [(self._owner, hold.epoch)]

    def forget(self, hold: Hold, places: Iterable[ClientPlace]) -> bool:
        """Delete the offsets of a group in some partitions."""
        wanted = list(places)
        return self._changed(hold, lambda tx: forget_places(tx, hold.group_id, wanted) if wanted else None)

    def committed(self, name: str) -> tuple[dict[ClientPlace, ClientCommit], set[ClientPlace]]:
        """Return the offsets of a group, and the partitions that open transactions may change."""

        def look(tx: Transaction) -> tuple[dict[ClientPlace, ClientCommit], set[ClientPlace]]:
            rows = tx.rows("delivery", "group_find", name=name)
            if not rows:
                return {}, set()
            ((group_id, _),) = rows
            return client_cursors.committed_places(tx, group_id), client_cursors.pending_places(tx, group_id)

        return self._database.look(look)

    def listed(self) -> list[ListedGroup]:
        """Return summaries of all groups of clients."""

        def look(tx: Transaction) -> list[ListedGroup]:
            known = {id: (type, bool(members)) for id, type, members in tx.rows("broker", "kafka_groups")}
            return [ListedGroup(name, *known.get(id, ("", False))) for id, name in tx.rows("delivery", "client_groups")]

        return self._database.look(look)

    def is_known(self, name: str) -> bool:
        """Return whether a group of clients of that name exists."""
        rows = self._database.look(lambda tx: tx.rows("delivery", "group_find", name=name))
        return any(kind == GroupKind.CLIENT.value for _, kind in rows)

    def delete(self, hold: Hold) -> None:
        """Delete the members of a group."""
        self._database.run(lambda tx: tx.change("broker", "kafka_group_delete", group_id=hold.group_id))


def generation_row(group: ConsumerGroup) -> dict[str, Any]:
    """Return the columns of a group's row for its present generation."""
    return {
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": msgspec.json.encode([each.stored() for each in group.members.values()]).decode(),
    }
