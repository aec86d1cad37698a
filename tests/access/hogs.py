"""Attacks on the places of a door: somebody takes all they can get, and then another asks.

Each door has those that can be tried there, as methods for the attack table. The greedy one is `ops`, who may
do everything; the other is `ana`. They return SERVED if ana is served meanwhile.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Event, Thread
from typing import Any

import grpc

from penstock.wire.kafka.apis.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.tinyq.frames import TinyqCommand as C
from tests.access.house import PASSWORD, House, token
from tests.crash.waiting import wait_until
from tests.gateway.grpc_client import GrpcClient

SERVED, SHUT_OUT = "others are served", "shut out"
HOG_KINDS = ("crowd", "hog_connections", "hog_groups", "hog_streams", "hog_bytes", "retried", "sprayed")
CROWD, RETRIES, SPRAYED = 30, 55, 6


def served(is_served: bool) -> str:
    return SERVED if is_served else SHUT_OUT


class Hogs:
    """What is the same at every door."""

    def crowd(self, house: House) -> str:
        """Open more connections than are admitted before they say who they are, and be silent."""
        door: Any = self
        with ExitStack() as stack:
            for _ in range(CROWD):
                with suppress(OSError):
                    stack.enter_context(door.silent(house))
            return served(all(door.bearer(house, token()) == "in" for _ in range(3)))


class PasswordHogs(Hogs):
    """What is the same at doors that take passwords."""

    def retried(self, house: House) -> str:
        """Show a wrong password again and again; then somebody else at the address shows the right one."""
        door: Any = self
        for _ in range(RETRIES):
            assert door.basic(house, "ops", "wrong") == "unauthenticated"
        return served(door.basic(house, "ben", PASSWORD) == "in")

    def sprayed(self, house: House) -> str:
        """Show wrong passwords of many names at a time; then somebody shows the right one."""
        door: Any = self
        for number in range(50):  # an address may fail so often before its attempts take turns
            house.lock.access._failures.failed("127.0.0.1", f"earlier{number}")
        threads = [Thread(target=door.basic, args=(house, f"n{number}", "x")) for number in range(SPRAYED)]
        for each in threads:
            each.start()
        found = door.basic(house, "ben", PASSWORD)
        for each in threads:
            each.join()
        return served(found == "in")


class KafkaHogs(PasswordHogs):
    """The Kafka port."""

    def hog_connections(self, house: House) -> str:
        """Hold connections of one principal until there are no more."""
        door: Any = self
        with ExitStack() as stack:
            while True:
                client = stack.enter_context(door.connect(house))
                assert client.ask(SASL_HANDSHAKE, {"mechanism": "OAUTHBEARER"}, 1)["error_code"] == 0
                body = {"auth_bytes": f"n,,\x01auth=Bearer {token(sub='ops')}\x01\x01".encode()}
                try:
                    assert client.ask(SASL_AUTHENTICATE, body, 2)["error_code"] == 0
                except Exception:  # it has ended without an answer
                    break
            return served(door.bearer(house, token()) == "in")

    def hog_bytes(self, house: House) -> str:
        """Announce requests of 9 MB on many connections, and send 8 MB of each, as far as they are read."""
        door: Any = self
        with ExitStack() as stack:
            for _ in range(4):
                client = stack.enter_context(door.connect(house))
                said = f"n,,\x01auth=Bearer {token(sub='ops')}\x01\x01".encode()
                assert client.sasl("OAUTHBEARER", said) == 0
                client.socket.settimeout(0.3)
                with suppress(OSError):  # nothing more is read of it
                    client.send(struct.pack(">ihhih", 9 << 20, 0, 7, 1, -1) + bytes(8 << 20))
            return served(door.bearer(house, token()) == "in")


class HttpHogs(PasswordHogs):
    """HTTP."""

    def hog_bytes(self, house: House) -> str:
        """Send parts of bodies of 16 MB, as far as they are taken; then somebody publishes 500 KB."""
        door: Any = self
        head = f"POST /v1/topics/orders/records HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token(sub='ops')}"
        with ExitStack() as stack:
            for size in (10 << 20, (10 << 20) - 100_000):
                connection = stack.enter_context(_connected(house.http.address, house))
                connection.settimeout(2)
                with suppress(OSError):  # it is refused
                    connection.sendall(f"{head}\r\nContent-Length: {16 << 20}\r\n\r\n".encode())
                    connection.sendall(bytes(size))
            return served(door.publish(house, bytes(500_000), {"authorization": f"Bearer {token()}"}) == 201)

    def hog_connections(self, house: House) -> str:
        """Hold connections of one principal that go on asking, until there are no more."""
        door: Any = self
        with ExitStack() as stack:
            while self._begun(house, stack, "GET /v1/topics HTTP/1.1") == 200:
                pass
            return served(door.bearer(house, token()) == "in")

    def hog_streams(self, house: House) -> str:
        """Read server-sent events, as many streams as there are."""
        with ExitStack() as stack:
            while self._begun(house, stack, "GET /v1/topics/payroll/events HTTP/1.1") == 200:
                pass
            return served(self._begun(house, stack, "GET /v1/topics/orders/events HTTP/1.1", "ana") == 200)

    def hog_groups(self, house: House) -> str:
        """Lease records of as many groups as there are."""
        door: Any = self

        def lease(group: str, who: str) -> int:
            path = f"/v1/groups/{group}/topics/orders/leases"
            return int(door.ask(house, {"authorization": f"Bearer {token(sub=who)}"}, path=path, body={}))

        for number in range(20):
            if lease(f"hog-http-{number}", "ops") != 200:
                break
        return served(lease("orders-beside", "ana") == 200)

    def _begun(self, house: House, stack: ExitStack, line: str, who: str = "ops") -> int:
        connection = stack.enter_context(_connected(house.http.address, house))
        connection.sendall(f"{line}\r\nHost: a\r\nAuthorization: Bearer {token(sub=who)}\r\n\r\n".encode())
        return int(connection.recv(12)[9:12] or 0)


class GrpcHogs(PasswordHogs):
    """The gRPC port."""

    def hog_connections(self, house: House) -> str:
        """Hold calls of one principal until there are no more."""
        door: Any = self
        with self._client(house, "ops") as client:
            held, refused = list[Any](), 0
            while refused < 3:  # a call of somebody else may have ended in between
                one = client.subscribe("orders", "hog-grpc", credits=1)
                one.say(ack={"id": 1, "ranges": [{"partition": 0}]})
                held.append(one)
                try:
                    next(one.answers)
                except grpc.RpcError:
                    refused += 1
            found = door.bearer(house, token())
            for each in held:
                each.answers.cancel()
        return served(found == "in")

    def hog_groups(self, house: House) -> str:
        """Consume as many groups as there are."""
        with self._client(house, "ops") as client, self._client(house, "ana") as other:
            held = [client.subscribe("orders", f"hog-grpc-{number}") for number in range(8)]
            for each in held:
                with suppress(grpc.RpcError):
                    each.records(1)
            mine = other.subscribe("orders", "orders-beside-grpc")
            try:
                return served(bool(mine.records(1)))
            except grpc.RpcError:
                return SHUT_OUT
            finally:
                for each in (*held, mine):
                    each.answers.cancel()

    def hog_bytes(self, house: House) -> str:
        """Begin calls whose messages do not come: room is kept for each, until it is given up."""
        door: Any = self
        ended = Event()
        with self._client(house, "ops") as client:
            method = client.channel.stream_unary("/penstock.v1.Publishing/Publish", bytes, bytes)
            shown = [("authorization", f"Bearer {token(sub='ops')}")]
            held = [method.future(_nothing_until(ended), metadata=shown) for _ in range(9)]
            port = house.grpc._door
            wait_until(lambda: port.reading.used > 0 and port.calls.used > 5, "the calls have begun")
            found = door.bearer(house, token()) == "in"
            before_them = not all(each.done() for each in held)
            ended.set()
            for each in held:
                each.cancel()
        return served(found and before_them)

    def _client(self, house: House, who: str) -> GrpcClient:
        root = grpc.ssl_channel_credentials((house.certificates / "ca.pem").read_bytes())
        address = house.grpc.address.replace("127.0.0.1", "localhost")
        return GrpcClient(address, root, authorization=f"Bearer {token(sub=who)}")


class TinyqHogs(Hogs):
    """The TinyQ port."""

    def hog_connections(self, house: House) -> str:
        """Hold connections of one principal until there are no more."""
        door: Any = self
        with ExitStack() as stack:
            with suppress(AssertionError, OSError):
                while True:
                    door.begun(house, stack, "ops")
            return served(door.bearer(house, token()) == "in")

    def hog_groups(self, house: House) -> str:
        """Subscribe in as many groups as there are."""
        door: Any = self
        with ExitStack() as stack:
            for number in range(5):
                client = door.begun(house, stack, "ops")
                client.call(C.SUBSCRIBE, topic="orders", group=f"hog-tinyq-{number}", credits=1, lease_ms=0)
                with suppress(AssertionError, OSError):
                    client.receive()
            other = door.begun(house, stack, "ana")
            other.call(C.SUBSCRIBE, topic="orders", group="orders-beside-tinyq", credits=1, lease_ms=0)
            try:
                return served(bool(other.receive()))
            except (AssertionError, OSError):
                return SHUT_OUT


def _nothing_until(ended: Event) -> Iterator[bytes]:
    ended.wait(60)
    yield from ()


@contextmanager
def _connected(address: str, house: House) -> Iterator[socket.socket]:
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host, int(port)), timeout=30)
    with closing(house.context().wrap_socket(plain, server_hostname="localhost")) as connection:
        yield connection
