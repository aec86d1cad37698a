"""Doors as the attack table sees them: how somebody shows who they are there, and asks for something.

A further door is a class with such methods and a name in `DOORS`; every attack then runs at it, too, and
`python -m tests.access.attack_table` adds its column. What a door does not have, such as passwords, it has no
method for, and the attack is left out there.
"""

import gzip
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import cramjam
import grpc

from penstock.app import Outbox
from penstock.gateway.application import application
from penstock.gateway.listener import HttpListener
from penstock.gateway.lock import Locked
from penstock.wire.kafka.apis.cluster import API_VERSIONS, FIND_COORDINATOR
from penstock.wire.kafka.apis.groups import DESCRIBE_GROUPS
from penstock.wire.kafka.apis.records import LIST_OFFSETS, PRODUCE
from penstock.wire.kafka.apis.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.kafka.apis.topics import CREATE_TOPICS, METADATA
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.record_batch import Compression
from penstock.wire.kafka.records import KafkaRecord, encode_records
from penstock.wire.tinyq.frames import TinyqCommand as C
from penstock.wire.tinyq.messages import REQUESTS, ZSTD, encode
from tests.access.hogs import GrpcHogs, HttpHogs, KafkaHogs, TinyqHogs, served
from tests.access.house import PASSWORD, House, token
from tests.access.proofs import GrpcProofs, HttpProofs, KafkaProofs, TinyqProofs
from tests.gateway.grpc_client import GrpcClient, event
from tests.gateway.tinyq_client import NewClient
from tests.kafka.raw import RawClient, frame
from tests.kafka.test_foreign_producers import a_batch, begun, produce

IN, OUT, FORBIDDEN, INVALID = "in", "unauthenticated", "forbidden", "invalid"
LARGE, ONCE, REFUSED = "too large", "once", "refused"
SECONDS = 30
HUGE = 1 << 30
MANY = 20_000  # names or ranges in one request
BOMB = bytes(70_000_000)  # more than any door unpacks
Outcome = str


class Door:
    """One door of a house. It has the methods of the attacks that can be tried there.

    | method                            | tries                                                            |
    |-----------------------------------|------------------------------------------------------------------|
    | nothing                           | to ask without showing anything                                  |
    | bearer, basic, certificate        | to ask with a token, a password, a client's certificate          |
    | topic, group, create              | to read a topic, to read as a group, to make a topic, by a token |
    | plaintext, old_tls                | to speak without TLS, or by a version of it that is too old      |
    | announced                         | to send something very large, before saying who it is            |
    | too_large, bomb                   | the same as somebody known; a few bytes that unpack to very many |
    | replayed                          | to send what was heard on another connection                     |
    | twice, reused                     | to send a request with a token again; to send another with it    |
    | long_list                         | to send a request that names very many things                    |
    | half_open, silent, trickling      | to hold a connection: returned, for others to see when it ends   |
    | those of `proofs.py`              | what was revoked or withdrawn, made-up names, a tenant's limit   |
    | those of `hogs.py`                | to take all places, so that others get none                      |
    """

    name: str
    address: Callable[[House], str]

    def old_tls(self, house: House) -> Outcome:
        """Offer TLS 1.1 at most."""
        # A client of our own Python does not offer less than 1.2 either; this is what an old one would send.
        hello = bytes.fromhex("160301002f0100002b0302") + bytes(32) + bytes.fromhex("000004002f003501000000")
        with self.connected(house) as raw:
            raw.sendall(hello)
            answer = raw.recv(7)
        return OUT if not answer or answer[0] == 21 else IN  # 21: an alert

    def half_open(self, house: House) -> socket.socket:
        """Begin a handshake of TLS, and never end it."""
        raw = self.connected(house)
        raw.sendall(bytes.fromhex("16030101"))
        return raw

    def silent(self, house: House) -> socket.socket:
        """Say nothing after the handshake."""
        return house.context().wrap_socket(self.connected(house), server_hostname="localhost")

    def connected(self, house: House) -> socket.socket:
        """Open a connection, without TLS."""
        host, _, port = self.address(house).rpartition(":")
        return socket.create_connection((host, int(port)), timeout=SECONDS)


class TlsClient(RawClient):
    """A Kafka connection by hand, over TLS."""

    def __init__(self, address: str, context: ssl.SSLContext, seconds: float = 30) -> None:
        super().__init__(address, seconds)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def sasl(self, mechanism: str, data: bytes) -> E:
        """Show something; return the number of the answer."""
        shaken = self.ask(SASL_HANDSHAKE, {"mechanism": mechanism}, 1)
        if shaken["error_code"]:
            return E(shaken["error_code"])
        return E(self.ask(SASL_AUTHENTICATE, {"auth_bytes": data}, 2)["error_code"])


class KafkaDoor(KafkaProofs, KafkaHogs, Door):
    """The Kafka port."""

    name = "kafka"

    def address(self, house: House) -> str:
        """Return where it is."""
        return house.broker.address

    def connect(self, house: House, client: str | None = None) -> TlsClient:
        """Open a connection."""
        return TlsClient(house.broker.address, house.context(client))

    def nothing(self, house: House) -> Outcome:
        """Ask for versions, which everybody may, then for more."""
        with self.connect(house) as client:
            assert client.ask(API_VERSIONS, {"client_software_name": "raw", "client_software_version": "1"}, 3)[
                "api_keys"
            ]
            return self._asked(client)

    def bearer(self, house: House, token: str) -> Outcome:
        """Show a token by OAUTHBEARER."""
        with self.connect(house) as client:
            return self._shown(client, "OAUTHBEARER", f"n,,\x01auth=Bearer {token}\x01\x01".encode())

    def basic(self, house: House, name: str, password: str) -> Outcome:
        """Show a password by PLAIN."""
        with self.connect(house) as client:
            return self._shown(client, "PLAIN", f"\0{name}\0{password}".encode("utf-8", "surrogatepass"))

    def certificate(self, house: House, client: str) -> Outcome:
        """Show a certificate."""
        try:
            with self.connect(house, client) as connected:
                return self._asked(connected)
        except (ssl.SSLError, ConnectionError):
            return OUT

    def topic(self, house: House, token: str, name: str) -> Outcome:
        """Ask where a topic ends."""
        with self.connect(house) as client:
            assert self._shown(client, "OAUTHBEARER", f"n,,\x01auth=Bearer {token}\x01\x01".encode()) == IN
            partitions = [{"partition_index": 0, "timestamp": -1}]
            asked = {"replica_id": -1, "topics": [{"name": name, "partitions": partitions}]}
            found = client.ask(LIST_OFFSETS, asked, 5)["topics"][0]["partitions"][0]
            return _outcome(found["error_code"])

    def group(self, house: House, token: str, name: str) -> Outcome:
        """Ask for a group and for its coordinator; both say the same."""
        with self.connect(house) as client:
            assert self._shown(client, "OAUTHBEARER", f"n,,\x01auth=Bearer {token}\x01\x01".encode()) == IN
            found = client.ask(FIND_COORDINATOR, {"key": name, "key_type": 0}, 2)
            described = client.ask(DESCRIBE_GROUPS, {"groups": [name]}, 4)["groups"][0]
            assert _outcome(found["error_code"]) == _outcome(described["error_code"])
            return _outcome(found["error_code"])

    def create(self, house: House, token: str, name: str) -> Outcome:
        """Make a topic."""
        with self.connect(house) as client:
            assert self._shown(client, "OAUTHBEARER", f"n,,\x01auth=Bearer {token}\x01\x01".encode()) == IN
            topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
            asked = {"topics": [topic], "timeout_ms": 10_000}
            return _outcome(client.ask(CREATE_TOPICS, asked, 5)["topics"][0]["error_code"])

    def plaintext(self, house: House) -> Outcome:
        """Send a request as it is."""
        with RawClient(house.broker.address) as client:
            return self._asked(client)

    def announced(self, house: House) -> Outcome:
        """Announce a request of a gigabyte."""
        with self.connect(house) as client:
            client.send(struct.pack(">i", HUGE))
            return OUT if client.receive() == b"" else IN

    def too_large(self, house: House) -> Outcome:
        """The same, once it is known who it is."""
        with self.known(house) as client:
            client.send(struct.pack(">i", HUGE))
            return LARGE if client.receive() == b"" else IN

    def bomb(self, house: House) -> Outcome:
        """Produce a batch that unpacks to very many bytes."""
        records = bytes(encode_records([KafkaRecord(0, 1, b"k", BOMB, [])], codec=Compression.ZSTD))
        topic = {"name": "orders", "partition_data": [{"index": 0, "records": records}]}
        with self.known(house) as client:
            asked = {"acks": -1, "timeout_ms": 1000, "topic_data": [topic]}
            (part,) = client.ask(PRODUCE, asked, 7)["responses"][0]["partition_responses"]
            return LARGE if E(part["error_code"]) is E.MESSAGE_TOO_LARGE else IN

    def reused(self, house: House) -> Outcome:
        """Produce other bytes under the sequences of a batch that was taken."""
        with self.known(house) as client:
            producer = begun(client, None)
            numbers = [produce(client, a_batch(value, producer, 0, in_transaction=False))[0] for value in (b"a", b"b")]
        assert numbers[0] is E.NONE
        return REFUSED if numbers[1] is E.OUT_OF_ORDER_SEQUENCE_NUMBER else ONCE

    def long_list(self, house: House) -> Outcome:
        """Ask for topics of very many names; somebody else asks before the answer has come."""
        names = [{"name": f"payroll-{each}"} for each in range(MANY)]
        body = METADATA.encode_request({"topics": names, "allow_auto_topic_creation": False}, 4)
        with self.known(house) as client:
            client.send(frame(METADATA, 4, body))
            found = self.bearer(house, token())
            assert len(METADATA.decode_answer(client.receive(), 4, 4)["topics"]) == MANY
        return served(found == IN)

    def replayed(self, house: House) -> Outcome:
        """Send the messages by which somebody has shown a password on another connection."""
        first = b"n,,n=ana,r=abcdefghijklmnop"
        with self.connect(house) as client:
            last = self._scram(client, first, None)
        with self.connect(house) as other:
            self._scram(other, first, last)
            return OUT if other.receive() == b"" else IN

    def trickling(self, house: House) -> socket.socket:
        """Say nothing that is whole; others send the next byte of it at times."""
        return self.connect(house).socket

    def known(self, house: House) -> TlsClient:
        """Open a connection of ana's."""
        client = self.connect(house)
        assert client.sasl("OAUTHBEARER", f"n,,\x01auth=Bearer {token()}\x01\x01".encode()) is E.NONE
        return client

    def _scram(self, client: TlsClient, first: bytes, last: bytes | None) -> bytes:
        """Show ana's password, or what was sent elsewhere instead; return what was sent last."""
        assert client.ask(SASL_HANDSHAKE, {"mechanism": "SCRAM-SHA-256"}, 1)["error_code"] == 0
        said = client.ask(SASL_AUTHENTICATE, {"auth_bytes": first}, 2)["auth_bytes"]
        if last is None:
            nonce, salt, rounds = (each[2:] for each in said.decode().split(","))
            salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b64decode(salt), int(rounds))
            key = hmac.digest(salted, b"Client Key", "sha256")
            bare = f"c=biws,r={nonce}"
            signed = b",".join((first[3:], said, bare.encode()))
            stored = hashlib.sha256(key).digest()
            proof = bytes(a ^ b for a, b in zip(key, hmac.digest(stored, signed, "sha256"), strict=True))
            last = f"{bare},p={b64encode(proof).decode()}".encode()
            assert client.ask(SASL_AUTHENTICATE, {"auth_bytes": last}, 2)["error_code"] == 0
        else:
            assert client.ask(SASL_AUTHENTICATE, {"auth_bytes": last}, 2)["error_code"] != 0
        return last

    def _shown(self, client: TlsClient, mechanism: str, data: bytes) -> Outcome:
        number = client.sasl(mechanism, data)
        if number is E.NONE:
            return self._asked(client)
        assert client.receive() == b"", "the connection goes on after a failure"
        return OUT

    def _asked(self, client: RawClient) -> Outcome:
        """Ask for what everybody who is known may."""
        body = METADATA.encode_request({"topics": []}, 1)
        try:
            client.send(frame(METADATA, 1, body))
            return IN if client.receive() else OUT
        except (ConnectionError, ssl.SSLError, TimeoutError):
            return OUT


def _outcome(number: int) -> Outcome:
    if "AUTHORIZATION" in E(number).name:
        return FORBIDDEN
    return INVALID if E(number) is E.INVALID_TOPIC_EXCEPTION else IN


class HttpDoor(HttpProofs, HttpHogs, Door):
    """HTTP: metrics, and REST beside them."""

    name = "http"

    def address(self, house: House) -> str:
        """Return where it is."""
        return house.http.address

    def ask(
        self,
        house: House,
        headers: dict[str, str],
        client: str | None = None,
        path: str = "/metrics",
        body: object = None,
    ) -> int:
        """Return the status of an answer; 0 when there is none."""
        host, _, port = house.http.address.rpartition(":")
        connection = http.client.HTTPSConnection(host, int(port), context=house.context(client), timeout=30)
        try:
            if body is None:
                connection.request("GET", path, headers=headers)
            else:
                connection.request("POST", path, json.dumps(body), headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def nothing(self, house: House) -> Outcome:
        """Ask without a header."""
        return _status(self.ask(house, {}))

    def bearer(self, house: House, token: str) -> Outcome:
        """Send a bearer token."""
        try:
            return _status(self.ask(house, {"authorization": f"Bearer {token}"}))
        except ValueError:  # http.client does not send a line feed
            return OUT

    def basic(self, house: House, name: str, password: str) -> Outcome:
        """Send a password."""
        shown = b64encode(f"{name}:{password}".encode("utf-8", "surrogatepass")).decode()
        return _status(self.ask(house, {"authorization": f"Basic {shown}"}))

    def certificate(self, house: House, client: str) -> Outcome:
        """Show a certificate."""
        return _status(self.ask(house, {}, client))

    def topic(self, house: House, token: str, name: str) -> Outcome:
        """Read a topic."""
        path = f"/v1/topics/{quote(name, safe='')}/partitions/0/records"
        return _done(self.ask(house, {"authorization": f"Bearer {token}"}, path=path))

    def group(self, house: House, token: str, name: str) -> Outcome:
        """Ask for a group."""
        path = f"/v1/groups/{quote(name, safe='')}"
        return _done(self.ask(house, {"authorization": f"Bearer {token}"}, path=path))

    def create(self, house: House, token: str, name: str) -> Outcome:
        """Make a topic."""
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return _done(self.ask(house, headers, path="/v1/topics", body={"name": name, "partitions": 1}))

    def announced(self, house: House) -> Outcome:
        """Announce a body of a gigabyte, and send a part of it."""
        return _status(self.publish(house, b"x", {"content-length": str(HUGE)}))

    def too_large(self, house: House) -> Outcome:
        """The same, as somebody who is known."""
        headers = {"authorization": f"Bearer {token()}", "content-length": str(HUGE)}
        return _done(self.publish(house, b"x", headers))

    def bomb(self, house: House) -> Outcome:
        """Publish a body that unpacks to very many bytes."""
        headers = {"authorization": f"Bearer {token()}", "content-encoding": "gzip"}
        return _done(self.publish(house, gzip.compress(BOMB, 9), headers))

    def twice(self, house: House) -> Outcome:
        """Publish with a token, two times."""
        before = house.store.log.bounds("orders", 0)[1]
        headers = {"authorization": f"Bearer {token()}", "idempotency-key": "http-once"}
        statuses = [self.publish(house, b"once", headers) for _ in range(2)]
        assert statuses == [201, 201]
        return ONCE if house.store.log.bounds("orders", 0)[1] == before + 1 else IN

    def reused(self, house: House) -> Outcome:
        """Publish other bytes with a token that was used."""
        headers = {"authorization": f"Bearer {token()}", "idempotency-key": "http-reused"}
        statuses = [self.publish(house, body, headers) for body in (b"a", b"b")]
        assert statuses[0] == 201
        return REFUSED if statuses[1] == 422 else ONCE

    def long_list(self, house: House) -> Outcome:
        """Acknowledge very many ranges of records; then somebody else asks."""
        ranges = [{"partition": 0, "first": each, "last": each} for each in range(MANY)]
        path = f"/v1/groups/orders-many/topics/orders/leases/{'0' * 32}/ack"
        headers = {"authorization": f"Bearer {token()}", "content-type": "application/json"}
        assert self.ask(house, headers, path=path, body={"done": ranges}) in (400, 404)
        return served(self.bearer(house, token()) == IN)

    def rebound(self, house: House) -> Outcome:
        """Ask without TLS for a host name that resolves to this machine, as a page of another site does."""
        listener = HttpListener(
            Locked(application([Outbox(house.store)], worker=False), house.lock.access), "127.0.0.1", 0
        )
        listener.start()
        try:
            host, _, port = listener.address.rpartition(":")
            connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
            connection.request("GET", "/metrics", headers={"host": "evil.example:80"})
            status = connection.getresponse().status
            connection.close()
        finally:
            listener.stop()
        return REFUSED if status == 421 else IN

    def trickling(self, house: House) -> socket.socket:
        """Begin a request; others send the next byte of it at times."""
        connection = self.silent(house)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nx: ")
        return connection

    def publish(self, house: House, body: bytes, headers: dict[str, str]) -> int:
        """Publish something; return the status of the answer."""
        host, _, port = house.http.address.rpartition(":")
        connection = http.client.HTTPSConnection(host, int(port), context=house.context(), timeout=SECONDS)
        try:
            connection.request("POST", "/v1/topics/orders/records", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def plaintext(self, house: House) -> Outcome:
        """Send a request as it is."""
        host, _, port = house.http.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request("GET", "/healthz")
            return IN if connection.getresponse().status else OUT
        except (OSError, http.client.HTTPException):
            return OUT
        finally:
            connection.close()


def _status(status: int) -> Outcome:
    """Who is known is in, though they may not look at the metrics."""
    return IN if status in (200, 403) else OUT


def _done(status: int) -> Outcome:
    """What is not there may be asked for by who may; what cannot be is 400."""
    return {400: INVALID, 401: OUT, 403: FORBIDDEN, 413: LARGE}.get(status, IN)


class TinyqClient(NewClient):
    """A TinyQ connection over TLS that has negotiated, and has not said yet who it is."""

    def __init__(self, house: House) -> None:
        host, _, port = house.tinyq.address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=30)
        super().__init__(0, connected=house.context().wrap_socket(plain, server_hostname="localhost"))


class TinyqDoor(TinyqProofs, TinyqHogs, Door):
    """The TinyQ port, by negotiated frames: the old ones have no room for a token."""

    name = "tinyq"

    def address(self, house: House) -> str:
        """Return where it is."""
        return house.tinyq.address

    def nothing(self, house: House) -> Outcome:
        """Ask for something before saying who it is."""
        with TinyqClient(house) as client:
            client.send(C.CREATE_CONSUME, encode(REQUESTS[C.CREATE_CONSUME], request=1, topic="orders"))
            return OUT if client.ends_with(40) else IN

    def bearer(self, house: House, token: str) -> Outcome:
        """Show a token."""
        with TinyqClient(house) as client:
            client.send(C.AUTHENTICATE, encode(REQUESTS[C.AUTHENTICATE], request=1, secret=token.encode()))
            return IN if client.code() == 0 else OUT

    def topic(self, house: House, token: str, name: str) -> Outcome:
        """Subscribe to a topic, in a group that ana may read as."""
        return self._subscribed(house, token, name, "orders-tinyq")

    def group(self, house: House, token: str, name: str) -> Outcome:
        """Subscribe in a group, to a topic that ana may read."""
        return self._subscribed(house, token, "orders", name)

    def announced(self, house: House) -> Outcome:
        """Announce a request of a megabyte, which who is known may send."""
        with TinyqClient(house) as client:
            client.socket.sendall(struct.pack(">BI", C.PUBLISH, 1 << 20))
            return OUT if client.ends_with(21) else IN

    def too_large(self, house: House) -> Outcome:
        """Announce a request of a gigabyte."""
        with self.known(house) as client:
            client.socket.sendall(struct.pack(">BI", C.PUBLISH, HUGE))
            return LARGE if client.ends_with(21) else IN

    def bomb(self, house: House) -> Outcome:
        """Publish a payload that unpacks to very many bytes."""
        with self.known(house) as client:
            code = client.publish("orders", bytes(cramjam.zstd.compress(BOMB)), packed=ZSTD)["code"]
            return LARGE if code == 21 else IN

    def twice(self, house: House) -> Outcome:
        """Publish with a token, two times."""
        before = house.store.log.bounds("orders", 0)[1]
        with self.known(house) as client:
            codes = [client.publish("orders", b"once", token=b"tinyq-once-16-by")["code"] for _ in range(2)]
        assert codes == [0, 0]
        return ONCE if house.store.log.bounds("orders", 0)[1] == before + 1 else IN

    def reused(self, house: House) -> Outcome:
        """Publish other bytes with a token that was used."""
        with self.known(house) as client:
            codes = [client.publish("orders", value, token=b"tinyq-reused-16b")["code"] for value in (b"a", b"b")]
        assert codes[0] == 0
        return REFUSED if codes[1] == 31 else ONCE

    def long_list(self, house: House) -> Outcome:
        """Acknowledge very many ranges of records; then somebody else asks."""
        with self.known(house) as client:
            number = client.subscribe("orders", "orders-many-tinyq", credits=0)
            ranges = [(0, each, each) for each in range(MANY)]
            assert client.call(C.ACK, subscription=number, ranges=ranges)["code"] == 31
            return served(self.bearer(house, token()) == IN)

    def trickling(self, house: House) -> socket.socket:
        """Negotiate, then begin a request; others send the next byte of it at times."""
        client = TinyqClient(house)
        client.socket.sendall(struct.pack(">BI", C.AUTHENTICATE, 1000))
        return client.socket

    def begun(self, house: House, stack: ExitStack, who: str) -> "TinyqClient":
        """Open a connection of somebody's, which lasts as long as the stack."""
        client = stack.enter_context(TinyqClient(house))
        assert client.call(C.AUTHENTICATE, secret=token(sub=who).encode())["code"] == 0
        return client

    def known(self, house: House) -> "TinyqClient":
        """Open a connection of ana's."""
        client = TinyqClient(house)
        assert client.call(C.AUTHENTICATE, secret=token().encode())["code"] == 0
        return client

    def _subscribed(self, house: House, token: str, name: str, group: str) -> Outcome:
        with TinyqClient(house) as client:
            assert client.call(C.AUTHENTICATE, secret=token.encode())["code"] == 0
            code = client.call(C.SUBSCRIBE, topic=name, group=group, credits=0, lease_ms=0)["code"]
            return {0: IN, 31: INVALID, 40: FORBIDDEN}[code]

    def create(self, house: House, token: str, name: str) -> Outcome:
        """Make a topic."""
        with TinyqClient(house) as client:
            assert client.call(C.AUTHENTICATE, secret=token.encode())["code"] == 0
            code = client.call(C.CREATE_CONSUME, topic=name)["code"]
            return {0: IN, 31: INVALID, 40: FORBIDDEN}[code]

    def plaintext(self, house: House) -> Outcome:
        """Wait for the one byte that the server begins with."""
        host, _, port = house.tinyq.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as raw:
            raw.sendall(b"0" * 64)
            try:
                return IN if raw.recv(1) == bytes([100]) else OUT
            except ConnectionError:
                return OUT


class GrpcDoor(GrpcProofs, GrpcHogs, Door):
    """The gRPC port. It does not ask for a certificate where that is optional, as here: see test_grpc.py."""

    name = "grpc"

    def address(self, house: House) -> str:
        """Where it listens."""
        return house.grpc.address

    def ask(
        self,
        house: House,
        method: str,
        authorization: str | None = None,
        plaintext: bool = False,
        packed: bool = False,
        **asked: Any,
    ) -> grpc.StatusCode:
        """Return the status of a call."""
        address = house.grpc.address.replace("127.0.0.1", "localhost")
        root = (house.certificates / "ca.pem").read_bytes()
        credentials = None if plaintext else grpc.ssl_channel_credentials(root)
        said = {} if authorization is None else {"authorization": authorization}
        with GrpcClient(address, credentials, packed=packed, **said) as client:
            try:
                client(method, **asked)
            except grpc.RpcError as exc:
                return exc.code()
            except ValueError:  # grpcio does not send a line feed
                return grpc.StatusCode.UNAUTHENTICATED
        return grpc.StatusCode.OK

    def nothing(self, house: House) -> Outcome:
        """Ask without metadata."""
        return _of_status(self.ask(house, "Topics.List"))

    def bearer(self, house: House, token: str) -> Outcome:
        """Send a bearer token."""
        return _of_status(self.ask(house, "Topics.List", f"Bearer {token}"))

    def basic(self, house: House, name: str, password: str) -> Outcome:
        """Send a password."""
        shown = b64encode(f"{name}:{password}".encode("utf-8", "surrogatepass")).decode()
        return _of_status(self.ask(house, "Topics.List", f"Basic {shown}"))

    def topic(self, house: House, token: str, name: str) -> Outcome:
        """Read a topic."""
        return _of_status(self.ask(house, "Consuming.Read", f"Bearer {token}", topic=name))

    def group(self, house: House, token: str, name: str) -> Outcome:
        """Ask for a group."""
        return _of_status(self.ask(house, "Groups.Get", f"Bearer {token}", name=name))

    def create(self, house: House, token: str, name: str) -> Outcome:
        """Make a topic."""
        return _of_status(self.ask(house, "Topics.Create", f"Bearer {token}", name=name, partitions=1))

    def plaintext(self, house: House) -> Outcome:
        """Send a request as it is."""
        return _of_status(self.ask(house, "Topics.List", plaintext=True))

    def announced(self, house: House) -> Outcome:
        """Send a message that is too large."""
        return _of_status(self.publish(house, None, value=bytes(20_000_000)))

    def too_large(self, house: House) -> Outcome:
        """The same, as somebody who is known."""
        return _of_status(self.publish(house, f"Bearer {token()}", value=bytes(20_000_000)))

    def bomb(self, house: House) -> Outcome:
        """Publish a message that unpacks to very many bytes."""
        return _of_status(self.publish(house, f"Bearer {token()}", value=BOMB, packed=True))

    def twice(self, house: House) -> Outcome:
        """Publish with a token, two times."""
        before = house.store.log.bounds("orders", 0)[1]
        codes = {self.publish(house, f"Bearer {token()}", token="grpc-once") for _ in range(2)}
        assert codes == {grpc.StatusCode.OK}
        return ONCE if house.store.log.bounds("orders", 0)[1] == before + 1 else IN

    def reused(self, house: House) -> Outcome:
        """Publish other bytes with a token that was used."""
        codes = [self.publish(house, f"Bearer {token()}", value, token="grpc-reused") for value in (b"a", b"b")]
        assert codes[0] is grpc.StatusCode.OK
        return REFUSED if codes[1] is grpc.StatusCode.FAILED_PRECONDITION else ONCE

    def long_list(self, house: House) -> Outcome:
        """Acknowledge very many ranges of records; then somebody else asks."""
        with self._client(house, "ana") as client:
            stream = client.subscribe("orders", "orders-many-grpc", credits=0)
            stream.say(ack={"id": 1, "ranges": [{"partition": 0, "first": each} for each in range(MANY)]})
            assert next(stream.answers).settled.code == "invalid_input"
            stream.answers.cancel()
        return served(self.bearer(house, token()) == IN)

    def trickling(self, house: House) -> socket.socket:
        """Begin a connection of HTTP/2; others send the next byte of it at times."""
        context = house.context()
        context.set_alpn_protocols(["h2"])
        connection = context.wrap_socket(self.connected(house), server_hostname="localhost")
        connection.sendall(b"PRI * HT")
        return connection

    def silent(self, house: House) -> socket.socket:
        """Say nothing after the handshake, which agrees on HTTP/2."""
        context = house.context()
        context.set_alpn_protocols(["h2"])
        return context.wrap_socket(self.connected(house), server_hostname="localhost")

    def publish(
        self, house: House, authorization: str | None, value: bytes = b"x", *, packed: bool = False, **more: Any
    ) -> grpc.StatusCode:
        """Publish something; return the status of the answer."""
        events = [event("e-once", value=value, content_type="text/plain")]
        return self.ask(
            house, "Publishing.Publish", authorization, packed=packed, topic="orders", events=events, **more
        )


def _of_status(code: grpc.StatusCode) -> Outcome:
    known = {
        grpc.StatusCode.INVALID_ARGUMENT: INVALID,
        grpc.StatusCode.PERMISSION_DENIED: FORBIDDEN,
        grpc.StatusCode.UNAUTHENTICATED: OUT,
        grpc.StatusCode.UNAVAILABLE: OUT,  # no connection comes about
        grpc.StatusCode.RESOURCE_EXHAUSTED: LARGE,
    }
    return known.get(code, IN)


DOORS: tuple[Door, ...] = (KafkaDoor(), HttpDoor(), GrpcDoor(), TinyqDoor())
