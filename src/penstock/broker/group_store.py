"""Groups of clients in the store: loaded once by their coordinator, and written under its epoch."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from penstock.clock import Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery.client_cursors import (
    ClientCommit,
    ClientPlace,
    commit_places,
    committed_places,
    forget_places,
    pending_places,
)
from penstock.delivery.groups import GroupKind, join_group
from penstock.log.store import Store

from .group import ConsumerGroup, GroupMember, GroupState, StoredMember

_members = msgspec.json.Decoder(list[StoredMember]).decode


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
            group.add(member_of(each))
        if group.members:
            group.state, group.leader = GroupState.STABLE, leader
        return Hold(group_id, epoch), group

    def write(self, hold: Hold, said: Mapping[str, Any]) -> bool:
        """Store a generation (`said_of`); return whether the group is still coordinated here."""
        params = {**hold._asdict(), "owner": self._owner, **said}
        return self._database.run(lambda tx: bool(tx.change("broker", "kafka_group_put", **params)))

    def commit(self, hold: Hold, commits: Mapping[ClientPlace, ClientCommit]) -> bool:
        """Store offsets of a group; return whether it is still coordinated here."""

        def change(tx: Transaction) -> bool:
            if not self.holds(tx, hold):
                return False
            commit_places(tx, hold.group_id, commits)
            return True

        return self._database.run(change)

    def holds(self, tx: Transaction, hold: Hold) -> bool:
        """Return whether a group is still coordinated here, and lock it until the transaction ends."""
        rows = tx.rows("broker", "kafka_group_lock", group_id=hold.group_id)
        return rows == [(self._owner, hold.epoch)]

    def forget(self, hold: Hold, places: Iterable[ClientPlace]) -> bool:
        """Delete the offsets of a group in some partitions."""
        wanted = list(places)

        def change(tx: Transaction) -> bool:
            if not self.holds(tx, hold):
                return False
            if wanted:
                forget_places(tx, hold.group_id, wanted)
            return True

        return self._database.run(change)

    def committed(self, name: str) -> tuple[dict[ClientPlace, ClientCommit], set[ClientPlace]]:
        """Return the offsets of a group, and the partitions that open transactions may change."""

        def look(tx: Transaction) -> tuple[dict[ClientPlace, ClientCommit], set[ClientPlace]]:
            rows = tx.rows("delivery", "group_find", name=name)
            if not rows:
                return {}, set()
            ((group_id, _),) = rows
            return committed_places(tx, group_id), pending_places(tx, group_id)

        return self._database.look(look)

    def listed(self) -> list[ListedGroup]:
        """Return summaries of all groups of clients."""

        def look(tx: Transaction) -> list[ListedGroup]:
            known = {id: (type, bool(members)) for id, type, members in tx.rows("broker", "kafka_groups")}
            rows = tx.rows("delivery", "client_groups")
            return [ListedGroup(name, *known.get(id, ("", False))) for id, name in rows]

        return self._database.look(look)

    def is_known(self, name: str) -> bool:
        """Return whether a group of clients of that name exists."""
        rows = self._database.look(lambda tx: tx.rows("delivery", "group_find", name=name))
        return any(kind == GroupKind.CLIENT.value for _, kind in rows)

    def delete(self, hold: Hold) -> None:
        """Delete the members of a group."""
        self._database.run(lambda tx: tx.change("broker", "kafka_group_delete", group_id=hold.group_id))


def said_of(group: ConsumerGroup) -> dict[str, Any]:
    """Return the columns of a group's row for its present generation."""
    members = [each.stored() for each in group.members.values()]
    return {
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": msgspec.json.encode(members).decode(),
    }


def member_of(stored: StoredMember) -> GroupMember:
    """Return a member from its stored form."""
    return GroupMember(
        stored.id,
        stored.instance_id,
        stored.client_id,
        stored.host,
        stored.session_ms,
        stored.rebalance_ms,
        stored.protocols,
        stored.assignment,
    )
