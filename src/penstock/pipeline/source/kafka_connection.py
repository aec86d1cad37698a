"""One connection to one broker of a Kafka cluster: encrypted and logged in as the settings say.

Answers are not trusted: the peer may not be Kafka at all. An answer has a maximum size, memory is allocated
as its bytes arrive, and an unreadable answer is reported in one sentence.
"""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.clock import SYSTEM
from penstock.errors import InvalidRequest, StoreError, StoreUnreachable, Unauthenticated, shown
from penstock.log.kafka_settings import KafkaSettings, tls_refusal
from penstock.wire.kafka.apis.records import FETCH, LIST_OFFSETS
from penstock.wire.kafka.apis.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Api, Message
from penstock.wire.kafka.sasl_client import sasl_exchange

# Supported by Apache Kafka 3.0 and later, and by our broker.
_VERSIONS = {METADATA.key: 12, LIST_OFFSETS.key: 7, FETCH.key: 12}
_VERSIONS |= {SASL_HANDSHAKE.key: 1, SASL_AUTHENTICATE.key: 2}
_SECONDS = 30.0
_MOST_BYTES = 16 << 20  # of an answer without records
_MOST_FETCHED = 128 << 20  # of an answer with records: a batch comes whole, however large
_AT_ONCE = 16 << 20  # bytes of memory allocated before any have arrived
_SESSION_SHARE = 0.8  # of a login's lifetime; then a new connection is made
_ENDED = "it ended the connection"
_PROTOCOL = "kafka.security.protocol"


class BrokerConnection:
    """A connection with one request at a time. `fresh` turns false before its login expires."""

    def __init__(self, host: str, port: int, settings: KafkaSettings, tls: ssl.SSLContext | None) -> None:
        """Raises StoreUnreachable, StoreError."""
        self._where, self._settings, self._number = f"{host}:{port}", settings, 0
        self._until: float | None = None
        with self._talking():
            self._socket = socket.create_connection((host, port), timeout=_SECONDS)
        try:
            if tls is not None:
                with self._talking():
                    self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            if settings.logs_in:
                self._log_in()
        except BaseException:
            self.close()
            raise

    @property
    def fresh(self) -> bool:
        """Whether its login is not about to expire."""
        return self._until is None or SYSTEM.monotonic() < self._until

    def ask(self, api: Api, message: Message) -> Message:
        """Send a request, and return the answer. Raises StoreUnreachable, StoreError."""
        version, self._number = _VERSIONS[api.key], self._number + 1
        flexible = api.is_flexible(version)
        head = struct.pack(">hhih8s", api.key, version, self._number, 8, b"penstock")
        data = head + (b"\0" if flexible else b"") + api.encode_request(message, version)
        with self._talking():
            self._socket.sendall(struct.pack(">i", len(data)) + data)
            answer = self._answer(_MOST_FETCHED if api is FETCH else _MOST_BYTES)
        try:
            if len(answer) < 4 or struct.unpack_from(">i", answer)[0] != self._number:
                raise InvalidRequest("it belongs to no request")
            return api.decode_answer(answer, version, 5 if flexible else 4)
        except InvalidRequest as exc:
            raise self._no_kafka(str(exc)) from exc

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    # -- reading untrusted answers

    def _answer(self, at_most: int) -> bytearray:
        (size,) = struct.unpack(">i", self._take(4))
        if not 0 <= size <= at_most:
            raise self._no_kafka(f"an answer of {size:,} bytes is announced, and {at_most:,} are taken")
        return self._take(size)

    def _take(self, count: int) -> bytearray:
        data, at = bytearray(min(count, _AT_ONCE)), 0
        while at < count:
            if at == len(data):
                data += bytes(min(count - at, _AT_ONCE))
            with memoryview(data) as view:
                got = self._socket.recv_into(view[at:])
            if not got:
                raise ConnectionResetError(_ENDED)
            at += got
        return data

    def _no_kafka(self, why: str) -> StoreError:
        return StoreError(
            f"{self._where} does not answer as a Kafka cluster does ({why}); give the address of its Kafka "
            f"port, and if that wants TLS, {_PROTOCOL}"
        )

    @contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except ssl.SSLError as exc:
            raise tls_refusal(self._where, exc) from exc
        except TimeoutError as exc:
            raise StoreUnreachable(
                self._where, f"it says nothing for {_SECONDS:g} s; a Kafka port answers at once"
            ) from exc
        except OSError as exc:
            closed = isinstance(exc, ConnectionError) and not isinstance(exc, ConnectionRefusedError)
            used = self._settings.security_protocol
            hint = f"; it may want another {_PROTOCOL} than {used}" if closed else ""
            raise StoreUnreachable(self._where, (str(exc) or _ENDED) + hint) from exc

    # -- the login

    def _log_in(self) -> None:
        settings = self._settings
        begun, mechanism = SYSTEM.monotonic(), settings.sasl_mechanism
        found = self.ask(SASL_HANDSHAKE, {"mechanism": mechanism})
        if found["error_code"] == E.UNSUPPORTED_SASL_MECHANISM:
            taken = shown(", ".join(found["mechanisms"]))
            raise StoreError(
                f"the Kafka cluster {self._where} takes no logins by {mechanism}, but by {taken}: kafka.sasl.mechanism"
            )
        self._check(found)
        steps = sasl_exchange(mechanism, settings.sasl_username, settings.sasl_password)
        try:
            message = next(steps)
            while True:
                found = self.ask(SASL_AUTHENTICATE, {"auth_bytes": message})
                self._check(found)
                message = steps.send(found["auth_bytes"] or b"")
        except StopIteration:
            lifetime_ms = found["session_lifetime_ms"]
            self._until = begun + lifetime_ms / 1000 * _SESSION_SHARE if lifetime_ms > 0 else None
        except Unauthenticated as exc:
            raise self._refused(str(exc)) from exc

    def _check(self, answer: Message) -> None:
        number = answer["error_code"]
        if number != E.NONE:
            said = " ".join((answer.get("error_message") or "").split())
            name = E(number).name if number in E._value2member_map_ else f"error {number}"
            raise self._refused(shown(said, 200) if said else name)

    def _refused(self, why: str) -> StoreError:
        return StoreError(
            f"the Kafka cluster {self._where} refuses the login of {shown(self._settings.sasl_username)} by "
            f"{self._settings.sasl_mechanism}: {why}"
        )
