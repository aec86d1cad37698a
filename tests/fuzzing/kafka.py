"""The Kafka port: every API in every version, with a value in every field."""

from __future__ import annotations

import contextlib
import random
import struct
from functools import cache
from typing import NamedTuple

from penstock.wire.kafka.apis import APIS
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.records import PRODUCE
from penstock.wire.kafka.layout import Api
from tests.fuzzing.feeder import Fed, Feeder, Place, WrongAnswer
from tests.kafka.raw import RawClient, frame
from tests.unit.wire.kafka.samples import a_message

_APIS = list(APIS.values())
_HEAD = struct.Struct(">hhi")  # the API, its version, the request's number; behind the size
_UNEXPECTED = -1  # UNKNOWN_SERVER_ERROR
_GOOD_ID = b"\xff\xff\xff\xf9"
_GOOD = frame(API_VERSIONS, 0, b"", id=-7)


class Mutated(NamedTuple):
    """A request of any API, changed or not."""

    data: bytes
    is_whole: bool  # its size is the right one: a broker need not wait for more bytes

    @property
    def may_be_silent(self) -> bool:
        """Whether it may be one that has no answer: a produce request with acks=0."""
        return self.data[4:6] == struct.pack(">h", PRODUCE.key)


def mutated(draw: random.Random) -> Mutated:
    """Return a request of any API with some bytes changed."""
    api = draw.choice(_APIS)
    version = draw.randint(*api.versions)
    data = bytearray(frame(api, version, _body(api, version, draw.randrange(50)), id=draw.randrange(1 << 31)))
    size = bytes(data[:4])
    for _ in range(draw.randrange(4)):
        data[draw.randrange(4 if draw.random() < 0.9 else 0, len(data))] = draw.randrange(256)
    return Mutated(bytes(data), data[:4] == size)


@cache
def _body(api: Api, version: int, sample: int) -> bytes:
    return api.encode_request(a_message(api.request, version, sample), version)


class KafkaFeeder(Feeder):
    """One connection at a time: a frame that is not answered has ended it."""

    def __init__(self, place: Place, seed: int) -> None:
        super().__init__(place, seed)
        self._client = self._connected()

    def some(self) -> Fed:
        """Send one."""
        each = mutated(self.draw)
        if each.is_whole and self._is_answered(each):
            return Fed(1, 1)
        with contextlib.suppress(ConnectionError):  # what waits for more bytes is not waited for
            self._client.send(b"" if each.is_whole else each.data)
        self._client.socket.close()
        self._client = self._connected()
        return Fed(1)

    def close(self) -> None:
        """End the connection."""
        self._client.socket.close()

    def _connected(self) -> RawClient:
        return RawClient(f"{self.place[0]}:{self.place[1]}")

    def _is_answered(self, each: Mutated) -> bool:
        """Send a frame, with a good one behind it where it may have no answer; return whether one came."""
        key, version, _number = _HEAD.unpack_from(each.data, 4)
        try:
            self._client.send(each.data + (_GOOD if each.may_be_silent else b""))
            answer = self._client.receive()
            if answer and answer[:4] == each.data[8:12]:
                _check(key, version, answer)
            while answer and each.may_be_silent and not answer.startswith(_GOOD_ID):
                answer = self._client.receive()
        except ConnectionError:
            return False
        return bool(answer)


def _check(key: int, version: int, answer: bytes) -> None:
    """Look at the answer of a version that there is: it can be read, and tells of no unexpected error."""
    api = APIS.get(key)
    if api is None or not api.versions[0] <= version <= api.versions[1]:
        return
    tagged = api.is_flexible(version) and key != API_VERSIONS.key
    found = api.decode_answer(answer, version, 5 if tagged else 4)
    if found.get("error_code") == _UNEXPECTED:
        raise WrongAnswer(f"{api.name} {version}: {found}")
