"""kill -9 of `penstock serve` while clients publish, consume and acknowledge, at each of its doors.

Nothing that was acknowledged is lost, nothing with a token is doubled, the order of every key is kept, and
what was in hand comes again at once, marked: the process is gone, so nobody waits for its leases to end.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from threading import Event, Thread
from typing import Any

import grpc
import httpx2
import pytest

from penstock import Record
from penstock.database.migrations import migrate
from penstock.errors import UnknownGroup
from penstock.log.store import open_store
from penstock.operate import groups
from penstock.wire.tinyq.frames import TinyqCommand
from tests.crash.waiting import wait_until
from tests.gateway.conftest import address_of
from tests.gateway.grpc_client import GrpcClient, GrpcProcess, PublishRequest
from tests.gateway.grpc_client import event as grpc_event
from tests.gateway.served import ServedGateway, client_of, event
from tests.gateway.tinyq_client import NewClient
from tests.services.budget import Budget
from tests.unit.cli.program import penstock

KEYS = "abcd"
EVENTS = 12  # of each key, in each round
GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def check_gone(error: grpc.RpcError) -> None:
    """Fail unless an error says that the gateway is gone."""
    assert error.code() in GONE, error


class Traffic(ABC):
    """A publisher and a consumer at one door, who go on through every death of the process behind it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.served = self.serve()
        self.acknowledged: list[str] = []
        self.delivered: list[tuple[str | None, str, bool]] = []
        self.settled: Counter[str] = Counter()
        self.moved = Event()  # something was acknowledged since the last kill
        self.done = Event()

    @abstractmethod
    def serve(self) -> Any:
        """Start the process."""

    @abstractmethod
    def publish(self, round: int) -> None:
        """Publish events of every key, in their order, with tokens, again until they are acknowledged."""

    @abstractmethod
    def consume(self) -> None:
        """Take and acknowledge until `done`: an acknowledgement may be written down unanswered."""

    @abstractmethod
    def is_settled(self) -> bool:
        """Return whether the group has nothing left to do."""

    def end(self) -> None:
        """Let the consumer end."""
        self.done.set()

    def id_of(self, record: Record) -> str | None:
        """Return what the publisher calls a record."""
        return record.id

    def disturb(self, round: int) -> None:
        """Kill the process in the middle of its work, start another, and wait until all is settled."""
        self.moved.clear()
        self.done.clear()
        publisher = Thread(target=self.publish, args=(round,))
        consumer = Thread(target=self.consume)
        for thread in (publisher, consumer):
            thread.start()
        assert self.moved.wait(60)
        self.served.kill()
        self.served = self.serve()
        publisher.join(200)
        assert not publisher.is_alive()
        wait_until(self.is_settled, "all is settled", seconds=200)
        self.end()
        consumer.join(60)
        assert not consumer.is_alive()


def ids(key: str, round: int, first: int, count: int) -> list[str]:
    """Return the ids of events of one key."""
    return [f"{key}-{round:03}-{number:03}" for number in range(first, first + count)]


class RestTraffic(Traffic):
    """Over HTTP, two events at a time."""

    def serve(self) -> ServedGateway:
        return ServedGateway(self.url)

    def _ask(self, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
        while True:
            try:
                with client_of(self.served.address) as client:
                    answer = client.post(path, json=body, headers=headers)
                if answer.status_code != 503:
                    return answer
            except httpx2.TransportError:
                continue

    def publish(self, round: int) -> None:
        kind = {"content-type": "application/cloudevents-batch+json"}
        for number in range(0, EVENTS, 2):
            for key in KEYS:
                names = ids(key, round, number, 2)
                head = {**kind, "idempotency-key": names[0]}
                answer = self._ask("/topics/orders/records", [event(id, key) for id in names], head)
                assert answer.status_code == 201, answer.text
                self.acknowledged += names
                self.moved.set()

    def consume(self) -> None:
        leases = "/groups/mailer/topics/orders/leases"
        while not self.done.is_set():
            found = self._ask(leases, {"wait_seconds": 1, "lease_seconds": 60}).json()
            self.delivered += [(each["key"], each["id"], each["redelivered"]) for each in found["records"]]
            if found["lease"] and self._ask(f"{leases}/{found['lease']}/ack", {}).status_code == 200:
                self.settled.update(each["id"] for each in found["records"])
                self.moved.set()

    def is_settled(self) -> bool:
        with client_of(self.served.address) as client:
            found = client.get("/groups/mailer").json().get("group")
        return found is not None and found["lag"] == found["waiting"] == found["held"] == 0


class GrpcTraffic(Traffic):
    """Over one stream of gRPC each."""

    def serve(self) -> GrpcProcess:
        return GrpcProcess(self.url)

    def publish(self, round: int) -> None:
        left = [
            PublishRequest(
                topic="orders",
                events=[grpc_event(id, key) for id in ids(key, round, number, 2)],
                token=f"{key}-{round:03}-{number:03}",
            )
            for number in range(0, EVENTS, 2)
            for key in KEYS
        ]
        while left:
            with GrpcClient(self.served.address) as client:
                try:
                    for answer in client.stream("Publishing.PublishStream", iter(list(left))):
                        answered, left = left[: answer.requests], left[answer.requests :]
                        self.acknowledged += [each.id for request in answered for each in request.events]
                        self.moved.set()
                except grpc.RpcError as exc:
                    check_gone(exc)

    def consume(self) -> None:
        while not self.done.is_set():
            with GrpcClient(self.served.address) as client:
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
        with GrpcClient(self.served.address) as client:
            found = client("Groups.Get", name="mailer")
        return bool(found.lag == found.waiting == found.held == 0)

    def end(self) -> None:
        super().end()
        self._subscriber.answers.cancel()


class TinyqProcess:
    """`penstock serve --tinyq` as a process."""

    def __init__(self, url: str) -> None:
        command = [*penstock("serve", "--url", url), "--tinyq", "127.0.0.1:0", "--log-level", "warning"]
        secret = hashlib.sha256(b"secret").hexdigest()
        environ = os.environ | {"PENSTOCK_TINYQ_PASSWORD_SHA256": secret}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.communicate()


class TinyqTraffic(Traffic):
    """Over frames of TinyQ; payloads are the ids."""

    def serve(self) -> TinyqProcess:
        return TinyqProcess(self.url)

    def id_of(self, record: Record) -> str:
        return bytes(record.data or b"").decode()

    def publish(self, round: int) -> None:
        for number in range(EVENTS):
            for key in KEYS:
                (id,) = ids(key, round, number, 1)
                token = hashlib.sha256(id.encode()).digest()[:16]
                while True:
                    try:
                        with NewClient(self.served.port) as client:
                            assert client.publish("orders", id.encode(), token=token, key=key)["code"] == 0
                        break
                    except (OSError, AssertionError):
                        continue
                self.acknowledged.append(id)
                self.moved.set()

    def consume(self) -> None:
        while not self.done.is_set():
            try:
                with NewClient(self.served.port) as client:
                    number = client.subscribe("orders", "mailer", credits=8)
                    while True:
                        client.socket.settimeout(0.5)
                        found = client.receive()
                        id = found["payload"].decode()
                        self.delivered.append((found["key"], id, bool(found["redelivered"])))
                        ranges = [(found["partition"], found["offset"], found["offset"])]
                        client.socket.settimeout(20)
                        if client.call(TinyqCommand.ACK, subscription=number, ranges=ranges)["code"] == 0:
                            self.settled[id] += 1
                            self.moved.set()
            except (OSError, AssertionError):
                continue

    def is_settled(self) -> bool:
        store = open_store(self.url)
        try:
            found = groups.show(store, "mailer").group
        except UnknownGroup:
            return False
        finally:
            store.close()
        return found.lag == found.waiting == found.held == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "traffic"),
    [
        ("sqlite", RestTraffic),
        ("postgres", RestTraffic),
        ("files", RestTraffic),
        ("sqlite", GrpcTraffic),
        ("sqlite", TinyqTraffic),
    ],
    ids=["rest-sqlite", "rest-postgres", "rest-files", "grpc", "tinyq"],
)
def test_a_killed_gateway_loses_doubles_and_reorders_nothing(
    kind: str, traffic: type[Traffic], budget: Budget, request: pytest.FixtureRequest
) -> None:
    url = address_of(kind, request)
    store = open_store(url)
    migrate(store.database)
    store.log.create_topic("orders", partitions=3)
    store.close()
    clients = traffic(url)
    try:
        for round, _ in enumerate(budget("gateway.kills")):
            clients.disturb(round)
    finally:
        clients.served.kill()
    store = open_store(url)
    records = [each for number in range(3) for each in store.log.read("orders", number, limit=10**6)]
    store.close()
    held = [(each.key, clients.id_of(each)) for each in records]
    sent = sorted(clients.acknowledged)
    assert sorted(id or "" for _, id in held) == sent  # none lost, none twice
    assert max(clients.settled.values()) == 1  # what was acknowledged did not come again
    for key in KEYS:
        assert [id for its, id in held if its == key] == [id for id in sent if id.startswith(key)]
        first = list(dict.fromkeys(id for its, id, _ in clients.delivered if its == key))
        assert first == sorted(first)
    seen: set[str] = set()
    for _, id, redelivered in clients.delivered:
        assert redelivered or id not in seen, id  # a repetition says so
        seen.add(id)
    assert seen == set(sent)
