"""gRPC: every method by messages with some bytes changed; at times the frames of HTTP/2 are changed, too."""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

from google.protobuf.message_factory import GetMessageClass

from penstock.gateway.grpc.messages import SERVICES, service
from tests.fuzzing.feeder import TOPIC, Fed, Feeder, Place, WrongAnswer, changed
from tests.gateway.grpc_client import event
from tests.gateway.http2 import DATA, END, HEADERS, HEADERS_END, SETTINGS, Http2Client, frame, head, message

_TOGETHER = 16  # calls under way on one connection
_WINDOW = 1 << 30  # of bytes that are sent to us, before we say that we have taken them
_UNKNOWN, _INTERNAL = 2, 13
_STATUS = re.compile(rb"grpc-status[\x01\x02](\d\d?)")
_NO_TABLE = frame(SETTINGS, struct.pack(">HI", 1, 0))  # so that trailers name what they say
_MAKES = {"Topics.Create", "Groups.Create", "Schemas.Register"}
_FIRST: dict[str, dict[str, Any]] = {
    "Topics.Delete": {"name": "gone"},
    "Groups.Delete": {"name": "gone"},
    "Publishing.Publish": {"topic": TOPIC, "events": [event("e", "k")], "token": "t"},
    "Publishing.PublishStream": {"topic": TOPIC, "events": [event("f")]},
    "Consuming.Read": {"topic": TOPIC, "limit": 2, "max_bytes": 100},
    "Topics.Create": {"name": TOPIC, "partitions": 1, "partitioner": "kafka"},
    "Groups.Create": {"name": "group", "topic": TOPIC},
}


class _Method(NamedTuple):
    name: str
    head: bytes
    messages: tuple[bytes, ...]
    makes: bool


def _methods() -> list[_Method]:
    found = []
    for of in SERVICES:
        for each in service(of).methods:
            name = f"{of}.{each.name}"
            kind: Any = GetMessageClass(each.input_type)
            given = _FIRST.get(name)
            if given is None:
                named = {"name": "group" if of == "Groups" else TOPIC, "topic": TOPIC, "limit": 2}
                fields = [field.name for field in each.input_type.fields]
                given = {field: named[field] for field in fields if field in named}
            messages = (kind(**given).SerializeToString(),)
            if name == "Consuming.Subscribe":
                ranges = [{"partition": 0, "first": 0, "last": 9}]
                said: list[dict[str, Any]] = [
                    {"begin": {"topic": TOPIC, "group": "group", "credits": 3}},
                    {"ack": {"id": 1, "ranges": ranges}},
                    {"nack": {"id": 2, "ranges": ranges, "after_seconds": 1.0, "reason": "no"}},
                    {"credits": {"credits": 3}},
                ]
                messages = tuple(kind(**one).SerializeToString() for one in said)
            makes = name in _MAKES or name == "Consuming.Subscribe"
            found.append(_Method(name, head(name), messages, makes))
    return found


_METHODS = _methods()


class GrpcFeeder(Feeder):
    """Some calls at a time on a connection; one whose frames were changed is not waited for."""

    def __init__(self, place: Place, seed: int) -> None:
        super().__init__(place, seed)
        self._client, self._stream = self._connected(), 1

    def some(self) -> Fed:
        """Send some calls."""
        begun: dict[int, str] = {}
        sent = bytearray()
        for _ in range(_TOGETHER):
            method = self.draw.choice(_METHODS)
            sent += frame(HEADERS, method.head, stream=self._stream, flags=HEADERS_END)
            sent += frame(DATA, self._messages(method), stream=self._stream, flags=END)
            begun[self._stream] = method.name
            self._stream += 2
        breaks = self.draw.random() < 0.03
        try:
            self._client.send(changed(self.draw, bytes(sent)) if breaks else bytes(sent))
            left = 0 if breaks else self._answers(begun)
        except ConnectionError:
            left = _TOGETHER
        except TimeoutError:
            raise WrongAnswer(f"no end of {begun} of {bytes(sent)!r}") from None
        if breaks or left or self._stream > 1 << 20:
            self.close()
            self._client, self._stream = self._connected(), 1
        return Fed(_TOGETHER, 0 if breaks else _TOGETHER - left)

    def close(self) -> None:
        """End the connection."""
        self._client.socket.close()

    def _connected(self) -> Http2Client:
        client = Http2Client(self.place, window=_WINDOW)
        client.took(_WINDOW)
        client.send(_NO_TABLE)
        return client

    def _messages(self, method: _Method) -> bytes:
        chosen = method.messages
        if len(chosen) > 1:
            chosen = chosen[: self.draw.randrange(1, len(chosen) + 1)]
        some = [message(changed(self.draw, each, names_nothing=method.makes)) for each in chosen]
        return changed(self.draw, b"".join(some)) if self.draw.random() < 0.01 else b"".join(some)

    def _answers(self, begun: dict[int, str]) -> int:
        """Take what comes until every call has ended; return how many have not."""
        taken = 0
        while begun:
            found = self._client.receive()
            if found is None:
                break
            taken += len(found.body)
            if found.stream in begun and found.ends:
                name = begun.pop(found.stream)
                status = _STATUS.search(found.body)
                if status is not None and int(status[1]) == _UNKNOWN:
                    raise WrongAnswer(f"{name}: {found.body!r}")
        self._client.took(taken)
        return len(begun)
