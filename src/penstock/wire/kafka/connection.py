"""A connection of Kafka's protocol without its socket: bytes in, requests out; answers in, bytes out.

| bytes | field          | meaning                                                      |
|-------|----------------|--------------------------------------------------------------|
| 0-3   | size           | bytes that follow                                            |
| 4-5   | api_key        | the API (requests only)                                      |
| 6-7   | api_version    | its version (requests only)                                  |
| 8-11  | correlation_id | repeated in the answer                                       |
| 12-   | client_id      | a nullable string (requests only)                            |
|       | tags           | in flexible versions; never in an answer of ApiVersions      |

Bytes are received straight into a buffer: a small one for many small requests, a separate one for a larger
request. That one grows with the received bytes, never with the announced size: four bytes can announce very
many. The bytes of a request belong to its receiver; nothing here writes to them again.
"""

import struct
from typing import NamedTuple

from penstock.errors import FrameTooLarge, InvalidRequest

from .apis import APIS
from .apis.cluster import API_VERSIONS
from .layout import Api, FieldReader

_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")
_ANSWER = struct.Struct(">ii")
_FIRST, _SMALL = 4 * 1024, 64 * 1024  # sizes of the buffer: an idle connection needs little
_NAME_BYTES = 255  # kept of a client id: quotas, members and logs go by it
_HTTP_STARTS = frozenset((b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "))
_TLS_START = b"\x16\x03"  # a handshake
_GROWTH, _MOST_GROWTH = 4, 1 << 20  # the buffer of a large request grows by this factor, or bytes


class KafkaRequest(NamedTuple):
    """One request: its API and version; its own fields are in `data` from `at` on."""

    key: int
    version: int
    correlation_id: int
    client_id: str
    data: bytearray
    at: int

    @property
    def api(self) -> Api | None:
        """The API, if it is known."""
        return APIS.get(self.key)

    @property
    def is_served(self) -> bool:
        """Whether the API and version are served."""
        return self.key in APIS and APIS[self.key].has(self.version)


class RequestReader:
    """The receiving side of one connection. Used by one thread."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: the limit for one request."""
        self.max_bytes = max_bytes
        self.before_login = False  # whether the limit is that of a client that is not known yet
        self._buffer = bytearray(_FIRST)
        self._filled = 0  # bytes in the buffer, from its start
        self._large: bytearray | None = None  # buffer of the large request that is being received
        self._size = 0  # its size
        self._at = 0  # bytes of it received so far

    @property
    def large_bytes(self) -> int:
        """The size of the buffer of an incomplete large request, now or after the next bytes."""
        return 0 if self._large is None else self._grown(self._at)

    def room(self) -> memoryview:
        """Return the buffer for the next bytes; at least one."""
        if self._large is not None:
            self._grow(self._large)
            return memoryview(self._large)[self._at :]
        return memoryview(self._buffer)[self._filled :]

    def received(self, count: int) -> list[KafkaRequest]:
        """Process `count` bytes; return the requests now complete. Raises InvalidRequest, FrameTooLarge: close it."""
        if self._large is not None:
            self._at += count
            if self._at < self._size:
                return []
            whole, self._large = self._large, None
            return [_request(whole)]
        self._filled += count
        is_full = self._filled == len(self._buffer)
        found = self._requests()
        if is_full and len(self._buffer) < _SMALL:
            self._buffer = self._buffer + bytes(_SMALL - len(self._buffer))
        return found

    def _requests(self) -> list[KafkaRequest]:
        found, at = list[KafkaRequest](), 0
        while self._filled - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._buffer, at)
            if size < _HEAD.size:
                raise InvalidRequest(f"its size is {size} bytes")
            if size > self.max_bytes:
                raise _foreign(self._buffer[at : at + _SIZE.size]) or FrameTooLarge(
                    size, self.max_bytes, before_login=self.before_login
                )
            begin = at + _SIZE.size
            if self._filled - begin < size:
                if size > _FIRST and size > len(self._buffer) - _SIZE.size:
                    self._size, self._at = size, self._filled - begin
                    self._large = bytearray(memoryview(self._buffer)[begin : self._filled])
                    self._filled = 0
                    return found
                break
            found.append(_request(self._buffer[begin : begin + size]))
            at = begin + size
        if at:
            rest = self._filled - at
            self._buffer[:rest] = self._buffer[at : self._filled]
            self._filled = rest
        return found

    def _grow(self, large: bytearray) -> None:
        """Enlarge a full buffer in place: copying many megabytes would hold the loop."""
        more = bytes(self._grown(self._at) - len(large))
        try:
            large += more
        except BufferError:  # it is still lent out for receiving
            self._large = large + more

    def _grown(self, at: int) -> int:
        assert self._large is not None
        if at < len(self._large):
            return len(self._large)
        return min(self._size, max(_SMALL, min(_GROWTH * at, at + _MOST_GROWTH)))


def _foreign(start: bytearray) -> InvalidRequest | None:
    """Return the error for the first bytes of another protocol, which as a size are very large."""
    if bytes(start) in _HTTP_STARTS:
        return InvalidRequest("it looks like HTTP, but this is the Kafka port; use the address of --http")
    if start.startswith(_TLS_START):
        return InvalidRequest(
            "it looks like TLS, which this port does not use; set the client's security.protocol to "
            "PLAINTEXT or SASL_PLAINTEXT, or serve with --tls-cert and --tls-key"
        )
    return None


def _request(data: bytearray) -> KafkaRequest:
    key, version, correlation_id = _HEAD.unpack_from(data)
    reader = FieldReader(data, _HEAD.size)
    (length,) = struct.unpack(">h", reader.take(2))
    client_id = "" if length < 0 else _name(reader.take(length))
    api = APIS.get(key)
    if api is not None and api.is_flexible(version):
        reader.skip_tags()
    return KafkaRequest(key, version, correlation_id, client_id, data, reader.at)


def _name(data: memoryview) -> str:
    """Return the beginning of a client id, which is only a name: invalid UTF-8 is escaped."""
    return str(data[:_NAME_BYTES], "utf-8", "backslashreplace")


def answer_head(api: Api | None, version: int, correlation_id: int, size: int) -> bytes:
    """Return the head of an answer of `size` bytes."""
    tagged = api is not None and api.is_flexible(version) and api.key != API_VERSIONS.key
    head = _ANSWER.pack(size + 4 + tagged, correlation_id)
    return head + b"\0" if tagged else head
