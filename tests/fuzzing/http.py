"""HTTP: every operation of REST, the probes and the console, by requests with some bytes changed."""

from __future__ import annotations

import random
import re
import socket
from typing import NamedTuple

from penstock.gateway.rest.api import OPERATIONS
from tests.fuzzing.feeder import TOPIC, Fed, Feeder, Place, WrongAnswer, changed

_VALUES = {"topic": TOPIC, "partition": "0", "group": "group", "lease": "0" * 32, "id": "1", "type": "t"}
_QUERIES = (b"", b"?limit=2", b"?offset=1&limit=1", b"?topic=name&key=k", b"?after=x&limit=0", b"?subject=a")
_BODIES: tuple[tuple[bytes, bytes], ...] = (
    (b"application/json", b"{}"),
    (b"application/json", b'{"records":[{"value":"x","key":"k"}]}'),
    (b"application/json", b'{"done":[{"partition":0,"first":0,"last":9}]}'),
    (b"application/cloudevents+json", b'{"specversion":"1.0","id":"1","type":"t","source":"/a","data":{"n":1}}'),
    (b"application/cloudevents-batch+json", b'[{"specversion":"1.0","id":"2","type":"t","source":"/a"}]'),
    (b"application/octet-stream", bytes(range(64))),
    (b"text/plain", b"x"),
)
_MAKES = {"create_topic", "create_group", "register_schema"}
_WAITS = {"tail_topic", "lease_records"}  # they have no end, or start the worker of a group
_OTHERS = (b"/healthz", b"/readyz", b"/metrics", b"/v1/openapi.json", b"/", b"/console/", b"/v1/nothing")
_STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")


class _Line(NamedTuple):
    method: bytes
    path: bytes
    takes: bool
    makes: bool


def _lines() -> list[_Line]:
    found = [_Line(b"GET", each, False, False) for each in _OTHERS]
    for each in OPERATIONS:
        path = re.sub(r"\{(\w+)(:\w+)?\}", lambda name: _VALUES.get(name[1], "1"), each.path)
        if each.method == "DELETE":
            path = path.replace(TOPIC, "gone")
        if each.id not in _WAITS and not each.path.endswith("/events"):
            found.append(_Line(each.method.encode(), path.encode(), bool(each.takes), each.id in _MAKES))
    return found


_LINES = _lines()


class Mutated(NamedTuple):
    """A request, changed or not."""

    data: bytes
    is_whole: bool  # no byte is changed by which a server knows where it ends


def mutated(draw: random.Random) -> Mutated:
    """Return a request with some bytes changed."""
    line = draw.choice(_LINES)
    path = changed(draw, line.path + draw.choice(_QUERIES), names_nothing=line.makes)
    if draw.random() < 0.9:  # else HTTP itself refuses some of them
        path = b"".join(bytes([each]) if 0x20 < each < 0x7F else b"%%%02X" % each for each in path)
    path = path.replace(b"\r", b"%").replace(b"\n", b"%")
    head = [b"Host: localhost"]
    body = b""
    if line.takes:
        kind, body = draw.choice(_BODIES)
        body = changed(draw, body, names_nothing=line.makes)
        head += [b"Content-Type: " + kind, b"Content-Length: %d" % len(body)]
    if draw.random() < 0.1:
        head.append(b"Idempotency-Key: " + draw.randbytes(8).hex().encode())
    data = b"%s %s HTTP/1.1\r\n%s\r\n\r\n%s" % (line.method, path, b"\r\n".join(head), body)
    if draw.random() < 0.95:
        return Mutated(data, True)
    return Mutated(changed(draw, data, names_nothing=line.makes), False)


class HttpFeeder(Feeder):
    """One connection at a time, which lasts as long as requests are whole and answers do not end it."""

    def __init__(self, place: Place, seed: int) -> None:
        super().__init__(place, seed)
        self._came = b""
        self._socket = self._connected()

    def some(self) -> Fed:
        """Send one."""
        each = mutated(self.draw)
        try:
            self._socket.sendall(each.data)
            if each.is_whole and self._is_answered(each.data):
                return Fed(1, 1)
            answered = int(each.is_whole)
        except ConnectionError:
            answered = 0
        self._socket.close()
        self._socket = self._connected()
        return Fed(1, answered)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _connected(self) -> socket.socket:
        self._came = b""
        made = socket.create_connection(self.place, timeout=30)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def _is_answered(self, asked: bytes) -> bool:
        """Take one answer; return False if the connection ends with it."""
        while b"\r\n\r\n" not in self._came:
            if not self._more():
                raise ConnectionResetError("it has ended without an answer")
        head, _, self._came = self._came.partition(b"\r\n\r\n")
        status, length = _STATUS.match(head), _LENGTH.search(head + b"\r\n")
        if status is None or int(status[1]) == 500:
            raise WrongAnswer(f"{asked!r}: {head!r}")
        if length is None:  # no more is said of what HTTP itself refuses, and a redirect has no body
            while self._more():
                pass
            return False
        while len(self._came) < int(length[1]):
            if not self._more():
                return False
        body, self._came = self._came[: int(length[1])], self._came[int(length[1]) :]
        is_ours = asked.split(b" ", 2)[1].startswith(b"/v1/") and int(status[1]) not in (404, 405)
        if int(status[1]) >= 400 and is_ours and b'"code"' not in body:
            raise WrongAnswer(f"{asked!r}: {head!r} {body!r}")
        return b"connection: close" not in head

    def _more(self) -> bool:
        piece = self._socket.recv(65536)
        self._came += piece
        return bool(piece)
