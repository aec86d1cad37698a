"""A small cluster on one database: members that share, and the least of a store for their cursors."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from penstock.database.database import Database, Transaction
from penstock.membership import member as member_module
from penstock.membership.domain import touch
from penstock.membership.filters import filter_of
from penstock.membership.member import ClusterSettings
from penstock.membership.process import Process
from penstock.membership.serving import SLOTS, Domain, ServedGroup, Serves
from penstock.membership.sharing import SharingMember
from penstock.testing import FakeClock

GATHER, LEASE = timedelta(seconds=3), timedelta(seconds=30)
GROUP, TOPIC, PARTITIONS = 1, 1, 8
CURSORS = Domain(GROUP, TOPIC)
OLD, NEW = filter_of(["events:order.placed"]), filter_of(["events:order.placed", "events:order.cancelled"])
Owned = dict[int, tuple[str | None, int]]  # row to owner and epoch


def serves(*, slots: bool = True, filter: tuple[str, ...] = OLD, pins: Iterable[int] | None = None) -> Serves:
    """Return what most members of these tests serve: the slots and one group on one topic."""
    pinned = None if pins is None else frozenset(pins)
    return Serves(slots, (ServedGroup(GROUP, filter, (TOPIC,)),), pinned)


@dataclass(eq=False)
class Pod:
    """One process: its member, and what it believes to own of the group's cursors."""

    member: SharingMember
    cursors: dict[int, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Return the member's id."""
        return self.member.id


class Cluster:
    """Pods on one database, with time in the test's hand."""

    def __init__(self, database: Database, clock: FakeClock, settings: ClusterSettings | None = None) -> None:
        self.database, self.clock = database, clock
        self.settings = settings or ClusterSettings(gather_joins=GATHER, lease_ttl=LEASE)
        self.pods: list[Pod] = []
        self.started = 0
        database.run(self._make)
        self.add_cursors(TOPIC, range(PARTITIONS))

    def start(self, what: Serves | None = None, process: Process | None = None) -> Pod:
        """Start a process, somewhere else unless told, and let it join; it owns nothing yet."""
        pod = Pod(SharingMember(self.database, self.settings, self.clock))
        self.started += 1
        pod.member.id = f"member-{self.started}"  # the same in every run
        with patch.object(member_module, "this_process", lambda: process or Process("elsewhere", 1, "1")):
            pod.member.serve(serves() if what is None else what)
            pod.member.join()
        self.pods.append(pod)
        return pod

    def work(self, pod: Pod) -> None:
        """Do what a worker does when it looks: take and release what has changed."""
        for domain in pod.member.look():
            if domain == SLOTS:
                pod.member.exchange_slots()
            else:
                self.exchange_cursors(pod)

    def calm(self, *, rebalance: bool = True) -> None:
        """Let all do all they can, until nothing changes."""
        for _ in range(20):
            before = self.slots(), self.cursors()
            for pod in self.pods:
                pod.member.heartbeat()
                if rebalance:
                    pod.member.rebalance()
            for pod in [*self.pods, *self.pods]:
                self.work(pod)
            if before == (self.slots(), self.cursors()):
                return
        raise AssertionError("the cluster does not come to rest")

    def gather(self) -> None:
        """Let the newcomers' time go by, and all do what follows."""
        self.clock.advance(GATHER)
        self.calm()

    def leave(self, pod: Pod) -> None:
        """Let a pod end well: its cursors first."""
        self.pods.remove(pod)
        self.database.run(lambda tx: self._release(tx, pod, all=True))
        pod.cursors = {}
        pod.member.leave()

    def crash(self, pod: Pod) -> None:
        """Let a pod end without a word."""
        self.pods.remove(pod)

    def exchange_cursors(self, pod: Pod) -> None:
        """Do for the cursors what the delivery store does."""
        self.database.run(lambda tx: self._release(tx, pod, all=False))
        pod.cursors = self.database.run(lambda tx: self._take(tx, pod))

    def add_cursors(self, topic_id: int, partitions: Iterable[int]) -> None:
        """Make cursors of the group, as the delivery store does before it serves a topic."""
        values = ", ".join(f"({GROUP}, {topic_id}, {partition}, 0)" for partition in partitions)
        statement = f'INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset") VALUES {values}'
        self.database.run(lambda tx: tx.conn.execute(statement))

    def slots(self) -> Owned:
        """Return owner and epoch of each slot."""
        return self._rows("SELECT slot, owner, epoch FROM penstock_slot")

    def cursors(self) -> Owned:
        """Return owner and epoch of each cursor."""
        return self._rows("SELECT partition, owner, epoch FROM penstock_cursor")

    def wanted(self, table: str = "slot") -> Counter[str | None]:
        """Return how many rows each should own."""
        rows = self.fetch(f"SELECT owner_wanted FROM penstock_{table}")
        return Counter(row[0] for row in rows)

    def version(self, domain: Domain = SLOTS) -> int:
        """Return a domain's version; 0 when it has no row."""
        rows = self.fetch(f"SELECT version FROM penstock_domain WHERE name = '{domain.name}'")
        return rows[0][0] if rows else 0

    def fetch(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return self.database.look(lambda tx: list(tx.conn.execute(statement).fetchall()))

    def _rows(self, statement: str) -> Owned:
        return {row: (owner, epoch) for row, owner, epoch in self.fetch(statement)}

    @staticmethod
    def _make(tx: Transaction) -> None:
        tx.conn.execute("UPDATE penstock_slot SET owner_wanted = NULL")
        always = "OVERRIDING SYSTEM VALUE" if hasattr(tx.conn, "info") else ""
        tx.conn.execute(f"INSERT INTO penstock_group (id, name, created_ms) {always} VALUES ({GROUP}, 'mailer', 0)")

    @staticmethod
    def _release(tx: Transaction, pod: Pod, *, all: bool) -> None:
        which = f"owner = '{pod.id}'"
        if not all:
            which += f" AND (owner_wanted IS NULL OR owner_wanted <> '{pod.id}')"
        if tx.conn.execute(f"SELECT count(*) FROM penstock_cursor WHERE {which}").fetchone()[0]:
            touch(tx, CURSORS)  # before the lock on the rows; not for nothing, or members never come to rest
            tx.conn.execute(f"UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 1 WHERE {which}")

    @staticmethod
    def _take(tx: Transaction, pod: Pod) -> dict[int, int]:
        tx.rows("delivery", "group_lock", group_id=GROUP)
        living = ", ".join(f"'{id}'" for id in pod.member.living(tx))
        tx.conn.execute(
            f"UPDATE penstock_cursor SET owner = '{pod.id}', epoch = epoch + 1 "
            f"WHERE owner_wanted = '{pod.id}' AND (owner IS NULL OR owner NOT IN ({living}))"
        )
        owned = tx.conn.execute(f"SELECT partition, epoch FROM penstock_cursor WHERE owner = '{pod.id}'")
        return {row[0]: row[1] for row in owned.fetchall()}
