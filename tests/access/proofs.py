"""Attacks on what somebody shows: a certificate that was revoked, keys of tokens behind a URL, names that
nobody has. And on a limit that a tenant shares.

Each door has those that can be tried there, as methods for the attack table.
"""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import grpc

from penstock.access.json_web_token import JwtRules
from penstock.access.policy import User
from penstock.access.rate_limits import RateLimit
from penstock.access.remote_keys import KeysUrl, RemoteKeys
from penstock.access.rule import parse_rule
from penstock.access.scram import MECHANISMS, ScramSecret
from penstock.access.tls import ServerTls, TlsFiles
from penstock.gateway.grpc.door import GrpcDoor
from penstock.gateway.grpc.listener import GrpcListener
from penstock.wire.kafka.apis.records import PRODUCE
from penstock.wire.kafka.apis.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.access.house import AUDIENCE, ISSUER, OTHER_RSA, REVOKED, House, token
from tests.access.key_server import KeyServer, jwks
from tests.gateway.grpc_client import GrpcClient

SLOWED, ALIKE = "slowed", "told alike"
IN, OUT = "in", "unauthenticated"
_KEY = "k9"
_OWN = ScramSecret("", 40_000, bytes(24), bytes(32), bytes(32))  # not as `penstock access hash` makes them


class Proofs:
    """What is the same at every door. A door says how `published` ends: IN, or SLOWED."""

    def keys_by_url(self, house: House) -> str:
        """Show a token of a key that the URL of the access file gives."""
        with _keys_at(house):
            return self._signed(house)

    def keys_elsewhere(self, house: House) -> str:
        """Show a token of a key that another host gives, to which the URL leads."""
        with KeyServer(jwks(**{_KEY: OTHER_RSA})) as other, _keys_at(house, location=other.url):
            outcome = self._signed(house)
            assert other.asked == []
            return outcome

    def keys_withdrawn(self, house: House) -> str:
        """Show a token that was taken before its key was withdrawn."""
        with _keys_at(house) as (server, remote):
            assert self._signed(house) == IN
            server.document, remote._tried = jwks(other=OTHER_RSA).encode(), None  # as if it were long ago
            remote.look()
            return self._signed(house)

    def tenant(self, house: House) -> str:
        """Ask as a principal of a tenant whose limit another principal of it has used up."""
        door: Any = self
        policy = house.lock.access._force.policy
        rules = (*policy.rules, parse_rule("allow tenant/* write topic orders"))
        limit = RateLimit("tenant/*", "*", requests_per_second=0.001, shared=True)
        with _installed(house, rules=rules, limits=(limit,)):
            assert door.published(house, "tenant/ana") == IN
            outcome: str = door.published(house, "tenant/ben")
            assert door.published(house, "ana") == IN
            return outcome

    def _signed(self, house: House) -> str:
        door: Any = self
        outcome: str = door.bearer(house, token(OTHER_RSA, head={"kid": _KEY}))
        return outcome


class KafkaProofs(Proofs):
    """The Kafka port."""

    def revoked(self, house: House) -> str:
        """Show a certificate that was revoked."""
        return _certified(self, house)

    def scram_names(self, house: House) -> str:
        """Begin to log in as somebody and as nobody, then show the same wrong proof."""
        users = {"ana": User("ana", scram={each: _OWN._replace(mechanism=each) for each in MECHANISMS})}
        with _installed(house, users=users):
            names = ("ana", "nobody", "nobody-2")
            told = {self._told(house, each, name) for each in MECHANISMS for name in names}
        return ALIKE if len(told) == 1 else f"told apart by {told}"

    def published(self, house: House, who: str) -> str:
        """Produce a record."""
        door: Any = self
        records = bytes(encode_records([KafkaRecord(0, 1, b"k", b"v", [])]))
        topic = {"name": "orders", "partition_data": [{"index": 0, "records": records}]}
        with door.connect(house) as client:
            said = f"n,,\x01auth=Bearer {token(sub=who)}\x01\x01".encode()
            assert client.sasl("OAUTHBEARER", said) == 0
            asked = {"acks": -1, "timeout_ms": 10_000, "topic_data": [topic]}
            answer = client.ask(PRODUCE, asked, 7)
            (part,) = answer["responses"][0]["partition_responses"]
            assert part["error_code"] == 0
            return SLOWED if answer["throttle_time_ms"] else IN

    def _told(self, house: House, mechanism: str, name: str) -> tuple[str, int, int, str]:
        door: Any = self
        with door.connect(house) as client:
            assert client.ask(SASL_HANDSHAKE, {"mechanism": mechanism}, 1)["error_code"] == 0
            first = client.ask(SASL_AUTHENTICATE, {"auth_bytes": f"n,,n={name},r=abcdef".encode()}, 2)
            nonce, salt, iterations = first["auth_bytes"].decode().split(",")
            last = f"c=biws,{nonce},p=AAAA".encode()
            answer = client.ask(SASL_AUTHENTICATE, {"auth_bytes": last}, 2)
            return iterations, len(salt), answer["error_code"], answer["error_message"]


class HttpProofs(Proofs):
    """HTTP."""

    def revoked(self, house: House) -> str:
        """Show a certificate that was revoked."""
        return _certified(self, house)

    def published(self, house: House, who: str) -> str:
        """Publish a record."""
        door: Any = self
        status = door.publish(house, b"x", {"authorization": f"Bearer {token(sub=who)}"})
        return {201: IN, 429: SLOWED}[status]


class GrpcProofs(Proofs):
    """The gRPC port."""

    def revoked(self, house: House) -> str:
        """Show a certificate that was revoked, at a port that requires one, with a token that holds."""
        folder = house.certificates
        files = TlsFiles(folder / "server.pem", folder / "server.key", folder / "ca.pem")
        door = GrpcDoor(house.store, access=house.lock.access)
        listener = GrpcListener(door, "127.0.0.1", 0, tls=ServerTls(files))
        listener.start()
        try:
            assert _code(house, listener, "ana") is grpc.StatusCode.OK
            return OUT if _code(house, listener, REVOKED) is grpc.StatusCode.UNAUTHENTICATED else IN
        finally:
            listener.stop()

    def published(self, house: House, who: str) -> str:
        """Publish a record."""
        door: Any = self
        code = door.publish(house, f"Bearer {token(sub=who)}")
        return {grpc.StatusCode.OK: IN, grpc.StatusCode.RESOURCE_EXHAUSTED: SLOWED}[code]


class TinyqProofs(Proofs):
    """The TinyQ port."""

    def revoked(self, house: House) -> str:
        """Show a certificate that was revoked."""
        assert self._greeted(house, "ana")
        return IN if self._greeted(house, REVOKED) else OUT

    def published(self, house: House, who: str) -> str:
        """Publish a record."""
        door: Any = self
        with ExitStack() as stack:
            client = door.begun(house, stack, who)
            return {0: IN, 51: SLOWED}[client.publish("orders", b"x")["code"]]

    def _greeted(self, house: House, client: str) -> bool:
        """Return whether the server says its first byte."""
        door: Any = self
        try:
            plain: socket.socket = door.connected(house)
            with house.context(client).wrap_socket(plain, server_hostname="localhost") as connection:
                connection.sendall(b"0" * 64)
                return connection.recv(1) != b""
        except (ssl.SSLError, ConnectionError):
            return False


def _certified(door: Any, house: House) -> str:
    assert door.certificate(house, "ana") == IN
    outcome: str = door.certificate(house, REVOKED)
    return outcome


def _code(house: House, listener: GrpcListener, client: str) -> grpc.StatusCode:
    root, key, pem = ((house.certificates / each).read_bytes() for each in ("ca.pem", f"{client}.key", f"{client}.pem"))
    credentials = grpc.ssl_channel_credentials(root, key, pem)
    address = listener.address.replace("127.0.0.1", "localhost")
    with GrpcClient(address, credentials, authorization=f"Bearer {token()}") as connected:
        try:
            connected("Topics.List")
        except grpc.RpcError as exc:
            code: grpc.StatusCode = exc.code()
            return code
    return grpc.StatusCode.OK


@contextmanager
def _installed(house: House, **changes: Any) -> Iterator[None]:
    """Let another policy be in force for a while."""
    access = house.lock.access
    before = access._force.policy
    access.install(replace(before, **changes))
    try:
        yield
    finally:
        access.install(before)


@contextmanager
def _keys_at(house: House, **headers: str) -> Iterator[tuple[KeyServer, RemoteKeys]]:
    """Let the keys of tokens be behind a URL for a while; with headers it leads elsewhere."""
    with KeyServer(jwks(**{_KEY: OTHER_RSA})) as server:
        server.headers, server.status = headers, 302 if headers else 200
        remote = RemoteKeys(JwtRules("RS256", AUDIENCE, ISSUER), KeysUrl(server.url))
        remote.look()
        with _installed(house, jwt=remote.verifier):
            yield server, remote
