"""kill -9 of the process behind the TinyQ port, while clients publish with tokens and acknowledge."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections import Counter
from threading import Event, Thread

import pytest

from penstock.database.migrations import migrate
from penstock.errors import UnknownGroup
from penstock.log.store import Store, open_store
from penstock.operate import groups
from penstock.wire.tinyq.codes import TinyqCommand
from tests.gateway.tinyq_client import NewClient
from tests.services.budget import Budget
from tests.unit.cli.program import penstock

KEYS = "abcd"
EVENTS = 10  # of each key, in each round
SECRET = hashlib.sha256(b"secret").hexdigest()


class ServedPort:
    """`penstock serve --tinyq` as a process."""

    def __init__(self, url: str) -> None:
        command = [*penstock("serve", "--url", url), "--tinyq", "127.0.0.1:0", "--log-level", "warning"]
        environ = os.environ | {"PENSTOCK_TINYQ_PASSWORD_SHA256": SECRET}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.communicate()


class TinyqTraffic:
    """A publisher and a consumer who go on through every death of the port, until all is settled."""

    def __init__(self, url: str, store: Store) -> None:
        self._url, self._store, self.served = url, store, ServedPort(url)
        self.published: list[bytes] = []
        self.delivered: list[tuple[str, bytes, int]] = []
        self.settled: Counter[bytes] = Counter()
        self.moved = Event()  # something was acknowledged since the last kill

    def revive(self) -> None:
        """Kill the port, in the middle of whatever it does, and start another."""
        self.served.kill()
        self.served = ServedPort(self._url)
        self.moved.clear()

    def publish(self, round: int) -> None:
        """Publish messages of every key, each with a token, again until it is answered."""
        for number in range(EVENTS):
            for key in KEYS:
                payload = b"%s-%03d-%03d" % (key.encode(), round, number)
                token = hashlib.sha256(payload).digest()[:16]
                while True:
                    try:
                        with NewClient(self.served.port) as client:
                            assert client.publish("jobs", payload, token=token, key=key)["code"] == 0
                        break
                    except (OSError, AssertionError):  # whoever repeats it does not know what became of it
                        continue
                self.published.append(payload)
                self.moved.set()

    def consume(self, publisher: Thread) -> None:
        """Take and acknowledge until all is published and settled."""
        while publisher.is_alive() or not self._is_done():
            try:
                with NewClient(self.served.port) as client:
                    number = client.subscribe("jobs", "workers", credits=8)
                    client.socket.settimeout(0.5)
                    while True:
                        found = client.receive()
                        self.delivered.append((found["key"], found["payload"], found["redelivered"]))
                        ranges = [(found["partition"], found["offset"], found["offset"])]
                        client.socket.settimeout(20)
                        if client.call(TinyqCommand.ACK, subscription=number, ranges=ranges)["code"] == 0:
                            self.settled[found["payload"]] += 1
                            self.moved.set()
                        client.socket.settimeout(0.5)
            except (OSError, AssertionError):
                continue

    def _is_done(self) -> bool:
        try:
            found = groups.show(self._store, "workers").group
        except UnknownGroup:
            return False
        return found.lag == found.waiting == found.held == 0


@pytest.mark.slow
def test_a_killed_port_loses_doubles_and_reorders_nothing(sqlite_store: str, budget: Budget) -> None:
    store = open_store(sqlite_store)
    migrate(store.database)
    store.log.create_topic("jobs", partitions=3)
    traffic, rounds = TinyqTraffic(sqlite_store, store), 0
    try:
        for _ in budget("tinyq.kills"):
            rounds += 1
            publisher = Thread(target=traffic.publish, args=(rounds,))
            consumer = Thread(target=traffic.consume, args=(publisher,))
            for thread in (publisher, consumer):
                thread.start()
            assert traffic.moved.wait(60)
            traffic.revive()
            for thread in (publisher, consumer):
                thread.join(200)
                assert not thread.is_alive()
    finally:
        traffic.served.kill()
    held = [
        (each.key, each.data) for number in range(3) for each in store.log.read("jobs", number, limit=10**6)
    ]
    store.close()
    assert sorted(payload or b"" for _, payload in held) == sorted(traffic.published)  # none lost, none twice
    assert max(traffic.settled.values()) == 1  # what was acknowledged did not come again
    assert {payload for _, payload, _ in traffic.delivered} == set(traffic.published)
    for key in KEYS:
        mine = [payload for its, payload in held if its == key]
        assert mine == sorted(each for each in traffic.published if each.startswith(key.encode()))
        first = list(dict.fromkeys(payload for its, payload, _ in traffic.delivered if its == key))
        assert first == sorted(first)
    seen: set[bytes] = set()
    for _, payload, redelivered in traffic.delivered:
        assert redelivered or payload not in seen  # a repetition says so
        seen.add(payload)
