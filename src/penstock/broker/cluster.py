"""The brokers of one store: each a member with a number and an address, and who of them leads what.

Leader of a partition and coordinator of a group are found by a rendezvous hash over the living brokers: all
give the same answer, and when one goes only what it had moves. Any broker serves any partition, so a
different answer for a moment does no harm; what a coordinator writes is fenced.
"""

import logging
from collections.abc import Callable
from hashlib import blake2b
from threading import Event, Thread
from typing import NamedTuple

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock
from penstock.log.sql.database import Transaction
from penstock.log.store import Store
from penstock.membership.member import ClusterSettings, Member

logger = logging.getLogger("penstock.broker")

_LOOK_SECONDS = 1.0


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
        self.nodes: tuple[BrokerNode, ...] = ()
        self.id = 0
        self._stopping = Event()
        self._thread: Thread | None = None

    def start(self, host: str, port: int) -> None:
        """Become a broker at an address."""
        self.member.join()
        self._store.database.run(lambda tx: self._register(tx, host, port))
        self._look()
        self._thread = Thread(target=self._run, name="penstock-broker-member", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Be a broker no more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._store.database.run(lambda tx: tx.change("broker", "broker_delete", node_id=self.id))
            self.member.leave()

    def leader(self, topic_id: int, partition: int) -> int:
        """Return the number of the broker that leads a partition."""
        return self._chosen(f"{topic_id}/{partition}").id

    def coordinator(self, name: str) -> BrokerNode:
        """Return the broker that coordinates a group or a transactional id."""
        return self._chosen(name)

    def is_mine(self, name: str) -> bool:
        """Return whether this broker coordinates it."""
        return self._chosen(name).id == self.id

    def _chosen(self, name: str) -> BrokerNode:
        nodes = self.nodes
        return nodes[0] if len(nodes) == 1 else max(nodes, key=lambda node: _weight(name, node.id))

    def _register(self, tx: Transaction, host: str, port: int) -> None:
        tx.change("broker", "broker_put", host=host, port=port, member=self.member.id)
        living = self.member.living(tx)
        for node_id, at_host, at_port, member in tx.rows("broker", "brokers"):
            if (at_host, at_port) == (host, port):
                self.id = node_id
            elif member not in living:
                tx.change("broker", "broker_delete", node_id=node_id)

    def _look(self) -> None:
        def look(tx: Transaction) -> tuple[BrokerNode, ...]:
            living = set(self.member.living(tx))
            rows = tx.rows("broker", "brokers")
            return tuple(BrokerNode(id, host, port) for id, host, port, member in rows if member in living)

        found = self._store.database.look(look)
        if found and found != self.nodes:
            self.nodes = found
            self._changed()

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
