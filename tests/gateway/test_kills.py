"""kill -9 of the gateway in the middle of publishing, consuming and acknowledging, on every kind of store.

Nothing that was acknowledged is lost, nothing with a token is doubled, the order of every key is kept, and
what was leased comes again at once: the process is gone, so nobody waits for its lease to end.
"""

from __future__ import annotations

from collections import Counter
from threading import Event, Thread
from typing import Any

import httpx2
import pytest

from penstock.database.migrations import migrate
from penstock.log.store import open_store
from tests.gateway.served import ServedGateway, client_of, event
from tests.services.budget import Budget

BATCH = {"content-type": "application/cloudevents-batch+json"}
KEYS = "abcd"
EVENTS = 12  # of each key, in each round
LEASES = "/groups/mailer/topics/orders/leases"


class Traffic:
    """A publisher and a consumer who go on through every death of the gateway, until all is settled."""

    def __init__(self, url: str) -> None:
        self._url, self.gateway = url, ServedGateway(url)
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.delivered: list[tuple[str, str, bool]] = []
        self.settled: Counter[str] = Counter()
        self.moved = Event()  # something was acknowledged since the last kill

    def revive(self) -> None:
        """Kill the gateway, in the middle of whatever it does, and start another."""
        self.gateway.kill()
        self.gateway = ServedGateway(self._url)
        self.moved.clear()

    def ask(self, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Ask until there is an answer; whoever repeats a request does not know what became of it."""
        while True:
            try:
                with client_of(self.gateway.address) as client:
                    answer = client.post(path, json=body, headers=headers)
                if answer.status_code != 503:
                    return answer
            except httpx2.TransportError:
                continue

    def publish(self, round: int) -> None:
        """Send events of every key, two at a time, each pair with a token; the order of sending is theirs."""
        for number in range(0, EVENTS, 2):
            for key in KEYS:
                ids = [f"{key}-{round:03}-{number + each:03}" for each in range(2)]
                token = {"idempotency-key": ids[0]}
                answer = self.ask("/topics/orders/records", [event(id, key) for id in ids], BATCH | token)
                assert answer.status_code == 201, answer.text
                for id, place in zip(ids, answer.json()["records"], strict=True):
                    self.acknowledged[id] = (place["partition"], place["offset"])
                self.moved.set()

    def is_done(self) -> bool:
        """Return whether the group has nothing left to do."""
        try:
            with client_of(self.gateway.address) as client:
                found = client.get("/groups/mailer").json().get("group")
        except httpx2.TransportError:
            return False
        return found is not None and found["lag"] == found["waiting"] == found["held"] == 0

    def consume(self, publisher: Thread) -> None:
        """Take and acknowledge until all is published and settled."""
        while publisher.is_alive() or not self.is_done():
            found = self.ask(LEASES, {"wait_seconds": 1, "lease_seconds": 60}).json()
            for each in found["records"]:
                self.delivered.append((each["key"], each["id"], each["redelivered"]))
            if found["lease"] and self.ask(f"{LEASES}/{found['lease']}/ack", {}).status_code == 200:
                self.settled.update(each["id"] for each in found["records"])
                self.moved.set()


@pytest.mark.slow
def test_a_killed_gateway_loses_doubles_and_reorders_nothing(store_url: str, budget: Budget) -> None:
    store = open_store(store_url)
    migrate(store.database)
    store.log.create_topic("orders", partitions=3)
    store.close()
    traffic, rounds = Traffic(store_url), 0
    try:
        for _ in budget("gateway.kills"):
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
        traffic.gateway.kill()
    store = open_store(store_url)
    held = [
        (each.id, each.key) for number in range(3) for each in store.log.read("orders", number, limit=10**6)
    ]
    store.close()
    sent = sorted(traffic.acknowledged)
    assert sorted(id for id, _ in held) == sent  # none lost, none twice
    assert max(traffic.settled.values()) == 1  # what was acknowledged did not come again
    for key in KEYS:
        assert [id for id, its in held if its == key] == [id for id in sent if id.startswith(key)]
        first = list(dict.fromkeys(id for its, id, _ in traffic.delivered if its == key))
        assert first == sorted(first)
    seen: set[str] = set()
    for _, id, redelivered in traffic.delivered:
        assert redelivered or id not in seen, id  # a repetition says so
        seen.add(id)
    assert seen == set(sent)
