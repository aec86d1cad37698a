"""kill -9 of the gateway in the middle of publishing, consuming and acknowledging over gRPC.

Nothing that was acknowledged is lost, nothing with a token is doubled, the order of every key is kept, and
what was in hand comes again, marked.
"""

from __future__ import annotations

from collections import Counter
from threading import Event, Thread

import grpc
import pytest

from penstock.database.migrations import migrate
from penstock.log.store import open_store
from penstock.operate import groups
from tests.crash.waiting import wait_until
from tests.gateway.grpc_client import GrpcClient, GrpcProcess, PublishRequest, event
from tests.services.budget import Budget

KEYS = "abcd"
EVENTS = 12  # of each key, in each round
GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def check_gone(error: grpc.RpcError) -> None:
    """Fail unless an error says that the gateway is gone."""
    assert error.code() in GONE, error


class Traffic:
    """A publisher and a consumer who go on through every death of the gateway, until all is settled."""

    def __init__(self, url: str) -> None:
        self._url, self.gateway = url, GrpcProcess(url)
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.delivered: list[tuple[str, str, bool]] = []
        self.settled: Counter[str] = Counter()
        self.moved = Event()  # something was acknowledged since the last kill
        self.done = Event()

    def revive(self) -> None:
        """Kill the gateway, in the middle of whatever it does, and start another."""
        self.gateway.kill()
        self.gateway = GrpcProcess(self._url)
        self.moved.clear()

    def publish(self, round: int) -> None:
        """Send events of every key over a stream, each pair with a token, again until all are answered."""
        left = [
            PublishRequest(
                topic="orders",
                events=[event(f"{key}-{round:03}-{number + each:03}", key) for each in range(2)],
                token=f"{key}-{round:03}-{number:03}",
            )
            for number in range(0, EVENTS, 2)
            for key in KEYS
        ]
        while left:
            with GrpcClient(self.gateway.address) as client:
                try:
                    for answer in client.stream("Publishing.PublishStream", iter(list(left))):
                        answered, left = left[: answer.requests], left[answer.requests :]
                        events = [each for request in answered for each in request.events]
                        for each, place in zip(events, answer.places, strict=True):
                            self.acknowledged[each.id] = (place.partition, place.offset)
                        self.moved.set()
                except grpc.RpcError as exc:
                    check_gone(exc)

    def consume(self) -> None:
        """Take and acknowledge until all is settled: an acknowledgement may be written down unanswered."""
        while not self.done.is_set():
            with GrpcClient(self.gateway.address) as client:
                self._subscriber = subscriber = client.subscribe("orders", "mailer", lease_seconds=60)
                try:
                    while True:
                        found = subscriber.records(1)
                        self.delivered += [(each.key, each.id, each.redelivered) for each in found]
                        if subscriber.ack(*found).count:
                            self.settled.update(each.id for each in found)
                            self.moved.set()
                except grpc.RpcError as exc:
                    check_gone(exc)

    def is_settled(self) -> bool:
        """Return whether the group has nothing left to do."""
        with GrpcClient(self.gateway.address) as client:
            found = client("Groups.Get", name="mailer")
        return bool(found.lag == found.waiting == found.held == 0)

    def end(self) -> None:
        """Let the consumer end."""
        self.done.set()
        self._subscriber.answers.cancel()


@pytest.mark.slow
def test_a_killed_gateway_loses_doubles_and_reorders_nothing_over_grpc(
    store_url: str, budget: Budget
) -> None:
    store = open_store(store_url)
    migrate(store.database)
    store.log.create_topic("orders", partitions=3)
    store.close()
    traffic, rounds = Traffic(store_url), 0
    try:
        for _ in budget("gateway.kills"):
            rounds += 1
            traffic.done.clear()
            publisher = Thread(target=traffic.publish, args=(rounds,))
            consumer = Thread(target=traffic.consume)
            for thread in (publisher, consumer):
                thread.start()
            assert traffic.moved.wait(60)
            traffic.revive()
            publisher.join(200)
            assert not publisher.is_alive()
            wait_until(traffic.is_settled, "all is settled", seconds=200)
            traffic.end()
            consumer.join(60)
            assert not consumer.is_alive()
    finally:
        traffic.gateway.kill()
    store = open_store(store_url)
    held = [
        (each.id, each.key) for number in range(3) for each in store.log.read("orders", number, limit=10**6)
    ]
    assert groups.show(store, "mailer").group.lag == 0
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
