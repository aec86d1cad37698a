"""Bytes in, a password and requests out: the receiving side of one connection.

| bytes | field     | meaning                                                                     |
|-------|-----------|-----------------------------------------------------------------------------|
| 0-63  | password  | SHA-256 of it in hex, white space around it ignored; once, at the beginning |
| 0     | command   | the command                                                                 |
| 1-4   | body size | bytes that follow, big-endian                                               |
| 5-    | body      |                                                                             |

A connection that begins with 0xFE, which is not a digit, negotiates before it authenticates. The buffer grows
with the received bytes, never with an announced size.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

PASSWORD_BYTES = 64
MAX_BODY_BYTES = 10_240_000
_HEAD = struct.Struct(">BI")
_BLANKS = b" \t\r\n"


class TinyqCommand(IntEnum):
    """The first byte of a request. Those above 4 and below 200 need negotiated frames."""

    CREATE_CONSUME = 1
    CREATE_BROADCAST = 2
    PUBLISH = 3
    SUBSCRIBE = 4
    AUTHENTICATE = 5
    ACK = 6
    NACK = 7
    CREDIT = 8
    CLEAR = 200
    DELETE = 201
    NEGOTIATE = 254


OLD_COMMANDS = frozenset({1, 2, 3, 4, 200, 201, 254})


class TinyqCode(IntEnum):
    """The first byte of an answer."""

    SUCCESS = 0
    MESSAGE = 1  # a record for a subscriber; negotiated frames only
    COMMAND_UNREADABLE = 10
    COMMAND_UNKNOWN = 11
    SIZE_UNREADABLE = 20
    SIZE_INVALID = 21
    BODY_UNREADABLE = 30
    BODY_INVALID = 31
    REFUSED = 40
    LATE = 41
    INTERNAL = 50
    BUSY = 51
    PASSWORD = 100


class TinyqRefusal(Exception):
    """The received bytes are invalid: the answer is this code, and the connection closes."""

    def __init__(self, code: TinyqCode) -> None:
        super().__init__(code.name)
        self.code = code


class TinyqPassword(NamedTuple):
    """The password at the beginning of a connection."""

    digest: str


class TinyqRequest(NamedTuple):
    """One request."""

    command: int
    body: bytes


class TinyqReader:
    """The receiving side of one connection. Used by one thread."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.max_body_bytes, self._data = max_body_bytes, bytearray()
        self._wants_password = True
        self._skips_blanks = True
        self._has_asked = False

    @property
    def is_inside(self) -> bool:
        """Whether the buffer holds an incomplete message."""
        return bool(self._data)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._data += data

    def next(self) -> TinyqPassword | TinyqRequest | None:
        """Return the next complete message; None: more bytes are needed. Raises TinyqRefusal."""
        if self._skips_blanks and self._data:
            kept = self._data.lstrip(_BLANKS)
            del self._data[: len(self._data) - len(kept)]
            self._skips_blanks = not self._data
        if self._wants_password:
            if self._data[:1] == bytes([TinyqCommand.NEGOTIATE]):
                self._wants_password = False
            else:
                return self._password()
        return self._request()

    def end(self) -> None:
        """Handle the end of the stream. Raises TinyqRefusal if a message is incomplete."""
        if self._wants_password:
            raise TinyqRefusal(TinyqCode.REFUSED)
        if not self._data:
            if self._has_asked:
                return
            raise TinyqRefusal(TinyqCode.COMMAND_UNREADABLE)
        is_head = len(self._data) < _HEAD.size
        raise TinyqRefusal(TinyqCode.SIZE_UNREADABLE if is_head else TinyqCode.BODY_UNREADABLE)

    def _password(self) -> TinyqPassword | None:
        if len(self._data) < PASSWORD_BYTES:
            return None
        digest = bytes(self._data[:PASSWORD_BYTES])
        del self._data[:PASSWORD_BYTES]
        self._wants_password, self._skips_blanks = False, True
        return TinyqPassword(digest.decode("latin-1"))

    def _request(self) -> TinyqRequest | None:
        if len(self._data) < _HEAD.size:
            return None
        command, size = _HEAD.unpack_from(self._data)
        if size > self.max_body_bytes:
            raise TinyqRefusal(TinyqCode.SIZE_INVALID)
        if len(self._data) < _HEAD.size + size:
            return None
        body = bytes(memoryview(self._data)[_HEAD.size : _HEAD.size + size])
        del self._data[: _HEAD.size + size]
        self._has_asked = True
        return TinyqRequest(command, body)


def encode_request(command: int, body: bytes) -> bytes:
    """Return a request as bytes."""
    return _HEAD.pack(command, len(body)) + body


def encode_answer(code: int, data: bytes) -> bytes:
    """Return an answer with data as bytes; one without data is the code alone."""
    return _HEAD.pack(code, len(data)) + data


def topic_of(body: bytes) -> str:
    """Return the topic name in a body. Raises TinyqRefusal."""
    try:
        return body.decode()
    except UnicodeDecodeError as exc:
        raise TinyqRefusal(TinyqCode.BODY_INVALID) from exc


def published(body: bytes) -> tuple[str, bytes]:
    """Return the topic and payload of a publish, separated by the first space. Raises TinyqRefusal."""
    topic, space, payload = body.partition(b" ")
    if not space:
        raise TinyqRefusal(TinyqCode.BODY_INVALID)
    return topic_of(topic), payload
