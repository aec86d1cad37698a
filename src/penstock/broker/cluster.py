"""The brokers of one store, each a member that leads some partitions.

A rendezvous hash over the living brokers finds the leader of a partition and the coordinator of a group: all
brokers get the same result, and when one goes only its own share moves. Any broker serves any partition, so a
different result for a moment does no harm; the writes of a coordinator are fenced.

A dead broker stays in the list for another minute, while it leads and coordinates nothing: librdkafka loses
its transactional producers when the broker they talk to vanishes from the list. A broker that stops cleanly
deletes its row, and leaves the list at once.
"""

import logging
from hashlib import blake2b
from threading import Event, Thread
from typing import NamedTuple

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock
from penstock.database.database import Transaction
from penstock.log.store import Store
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

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._settings = ClusterSettings.load()
        self.member = Member(store.database, self._settings, clock)
        self.version = 0  # rises when brokers come or go
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
            self.version += 1  # last: with a new version nobody reads old nodes
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
