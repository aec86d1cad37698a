"""The topics of one store as this broker knows them, and its brokers, each a member that leads some partitions.

A rendezvous hash over the living brokers finds the leader of a partition and the coordinator of a group: all
brokers get the same result, and when one goes only its own share moves. Any broker serves any partition, so a
different result for a moment does no harm; the writes of a coordinator are fenced.

A dead broker stays in the list for another minute, while it leads and coordinates nothing: librdkafka loses
its transactional producers when the broker they talk to vanishes from the list. A broker that stops cleanly
deletes its row, and leaves the list at once.
"""

import logging
from collections.abc import Callable
from hashlib import blake2b
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock
from penstock.database.database import Transaction
from penstock.errors import UnknownTopic
from penstock.log.contract import Log, Topic
from penstock.log.store import Store
from penstock.log.topics import MessageBounds, topic_uuid
from penstock.membership.member import ClusterSettings, Member

logger = logging.getLogger("penstock.broker")

_LOOK_SECONDS = 1.0
LISTED_SECONDS = 60.0  # how long a broker stays listed after its death was noticed


class BrokerNode(NamedTuple):
    """A broker as clients see it."""

    id: int
    host: str
    port: int


class Cluster:
    """This broker among the others, between `start` and `stop`. Reading is safe from any thread."""

    def __init__(self, store: Store, clock: Clock, changed: Callable[[], None]) -> None:
        """`changed` is called, from a thread, when brokers come or go."""
        self._store, self._clock, self._changed = store, clock, changed
        self._settings = ClusterSettings.load()
        self.member = Member(store.database, self._settings, clock)
        self.nodes: tuple[BrokerNode, ...] = ()  # the living brokers
        self.listed: tuple[BrokerNode, ...] = ()  # the brokers that clients see, by number
        self._died: dict[str, float] = {}  # when each death was noticed here, by member
        self.id = 0
        self._address = ("", 0)
        self._stopping = Event()
        self._thread: Thread | None = None

    def start(self, host: str, port: int) -> None:
        """Register as a broker at an address."""
        self.member.join()
        self._address = (host, port)
        self._store.database.run(self._register)
        self._look()
        self._thread = Thread(target=self._run, name="penstock-broker-member", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Unregister the broker."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._forget(self.id, self.member.id)
            self.member.leave()

    def leader(self, topic_id: int, partition: int) -> int:
        """Return the number of the broker that leads a partition."""
        return self.coordinator(f"{topic_id}/{partition}").id

    def coordinator(self, name: str) -> BrokerNode:
        """Return the broker that coordinates a group or a transactional id."""
        nodes = self.nodes
        return nodes[0] if len(nodes) == 1 else max(nodes, key=lambda node: _weight(name, node.id))

    def is_mine(self, name: str) -> bool:
        """Return whether this broker coordinates a group or transactional id."""
        return self.coordinator(name).id == self.id

    def _register(self, tx: Transaction) -> None:
        host, port = self._address
        tx.change("broker", "broker_put", host=host, port=port, member=self.member.id)
        (self.id,) = [row[0] for row in tx.rows("broker", "brokers") if row[1:3] == self._address]

    def _look(self) -> None:
        living, rows = self._store.database.look(lambda tx: (set(self.member.living(tx)), tx.rows("broker", "brokers")))
        if all(row[0] != self.id for row in rows):  # others took it for dead during a long pause
            self._store.database.run(self._register)
            return
        now = self._clock.monotonic()
        self._died = {row[3]: self._died.get(row[3], now) for row in rows if row[3] not in living}
        late = {member for member, seen in self._died.items() if now - seen >= LISTED_SECONDS}
        nodes = tuple(BrokerNode(*row[:3]) for row in rows if row[3] in living)
        listed = tuple(BrokerNode(*row[:3]) for row in rows if row[3] not in late)
        if nodes and (nodes, listed) != (self.nodes, self.listed):
            self.nodes, self.listed = nodes, listed
            self._changed()
        for row in rows:
            if row[3] in late:
                self._forget(row[0], row[3])

    def _forget(self, node_id: int, member: str) -> None:
        """Delete the row of a broker, unless another process serves its address by now."""
        gone = {"node_id": node_id, "member": member}
        self._store.database.run(lambda tx: tx.change("broker", "broker_delete", **gone))

    def _run(self) -> None:
        backoff = Backoff("broker", PollingSettings.load())
        beat = self._settings.heartbeat_interval.total_seconds()
        due = self._clock.monotonic() + beat
        while not self._stopping.wait(min(_LOOK_SECONDS, beat)):
            try:
                if self._clock.monotonic() >= due:
                    self.member.heartbeat()
                    due = self._clock.monotonic() + beat
                self._look()
                backoff.is_well()
            except Exception as exc:
                backoff.trouble(exc)


def _weight(name: str, node_id: int) -> bytes:
    return blake2b(f"{name}/{node_id}".encode(), digest_size=8).digest()


class Topics:
    """All topics by name and id. `version` rises when one is made, deleted or grown. Safe from any thread."""

    def __init__(self, log: Log, bounds: MessageBounds, clock: Clock) -> None:
        self._log, self.bounds, self._clock, self._lock = log, bounds, clock, Lock()
        self.cluster_id = log.identity().id  # the name of the log, as the cluster's
        self.version = 0
        self._listed: list[Topic] = []
        self.by_name: MappingProxyType[str, Topic] = MappingProxyType({})
        self.by_id: MappingProxyType[int, Topic] = MappingProxyType({})
        self.by_uuid: MappingProxyType[UUID, Topic] = MappingProxyType({})

    def refresh(self) -> None:
        """Read the present topics."""
        with self._lock:
            found = self._log.topics()
            self.bounds.refresh(self._clock.monotonic())
            if found == self._listed:
                return
            self._listed = found
            self.by_name = MappingProxyType({each.name: each for each in found})
            self.by_id = MappingProxyType({each.id: each for each in found})
            self.by_uuid = MappingProxyType({self.uuid(each): each for each in found})
            self.version += 1

    def get(self, name: str) -> Topic:
        """Return a known topic. Raises UnknownTopic."""
        found = self.by_name.get(name)
        if found is None:
            raise UnknownTopic(name)
        return found

    def having(self, name: str, partition: int) -> Topic | None:
        """Return a known topic, if it has a partition."""
        topic = self.by_name.get(name)
        return topic if topic is not None and 0 <= partition < topic.partitions else None

    def uuid(self, topic: Topic) -> UUID:
        """Return the id by which Kafka's clients know a topic: permanent, and never another topic's."""
        return topic_uuid(self.cluster_id, topic.id)
