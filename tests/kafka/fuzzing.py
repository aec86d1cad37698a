"""Requests with some bytes changed, as many as are asked for, at a broker that must outlive them.

By hand: `python -m tests.kafka.fuzzing 10_000_000` serves a new store in a process of its own and tells, each
100,000 frames, how many were answered and how much memory the broker took more.
"""

import contextlib
import multiprocessing
import random
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import psutil

from penstock.wire.kafka.apis import APIS
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.records import PRODUCE
from penstock.wire.kafka.layout import Api
from tests.kafka.raw import RawClient, frame
from tests.kafka.served import Served, ServedProcess
from tests.unit.wire.kafka.samples import a_message

TOPIC = "name"  # as the samples call it
FRAMES = 10_000  # of one seed
# One thread: fewer caches, so that what grows is seen. What waits would only cost time here.
SETTINGS = {
    "PENSTOCK_BROKER_THREADS": "1",
    "PENSTOCK_BROKER_FETCH_WAIT": "0.01",
    "PENSTOCK_BROKER_JOIN_DELAY": "0.01",
}
_APIS = list(APIS.values())
_MB = 1024 * 1024
_KIND = slice(4, 6)  # the number of the API, behind the size
_GOOD_ID = b"\xff\xff\xff\xf9"
_GOOD = frame(API_VERSIONS, 0, b"", id=-7)


class Mutated(NamedTuple):
    """A request of any API, changed or not."""

    data: bytes
    is_whole: bool  # its size is the right one: a broker need not wait for more bytes

    @property
    def may_be_silent(self) -> bool:
        """Whether it may be one that has no answer: a produce request with acks=0."""
        return self.data[_KIND] == struct.pack(">h", PRODUCE.key)


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


def feed(address: str, seed: int, count: int = FRAMES) -> int:
    """Send frames; return how many were answered: others ended their connection.

    Raises TimeoutError for a frame with neither.
    """
    draw, answered = random.Random(seed), 0
    client = RawClient(address)
    for _ in range(count):
        each = mutated(draw)
        if each.is_whole and _is_answered(client, each):
            answered += 1
            continue
        with contextlib.suppress(ConnectionError):  # what waits for more bytes is not waited for
            client.send(b"" if each.is_whole else each.data)
        client.socket.close()
        client = RawClient(address)
    client.socket.close()
    return answered


def _is_answered(client: RawClient, each: Mutated) -> bool:
    """Send a frame, with a good one behind it where it may have no answer; return whether one came."""
    try:
        client.send(each.data + (_GOOD if each.may_be_silent else b""))
        answer = client.receive()
        while answer and each.may_be_silent and not answer.startswith(_GOOD_ID):
            answer = client.receive()
    except ConnectionError:
        return False
    return bool(answer)


def memory(pid: int) -> int:
    """Return the bytes of memory that a process holds."""
    held: int = psutil.Process(pid).memory_info().rss
    return held


@contextlib.contextmanager
def broker_to_feed(url: str) -> Iterator[ServedProcess]:
    """Serve a store with the topic that the frames name, in a process of its own."""
    with Served(url) as made:
        made.topic(TOPIC, 2)
    with ServedProcess(url, env=SETTINGS) as served:
        yield served


def _seeds_fed(address: str, seeds: Iterable[int], said: "multiprocessing.Queue[int]") -> None:
    for seed in seeds:
        said.put(feed(address, seed))


def by_hand(frames: int, clients: int = 3) -> None:
    """Feed a broker from several processes, and tell how it goes."""
    rounds = frames // FRAMES
    with (
        tempfile.TemporaryDirectory() as folder,
        broker_to_feed(f"sqlite:///{folder}/store.db") as served,
    ):
        said: multiprocessing.Queue[int] = multiprocessing.Queue()
        processes = [
            multiprocessing.Process(
                target=_seeds_fed, args=(served.address, range(first, rounds, clients), said)
            )
            for first in range(clients)
        ]
        for each in processes:
            each.start()
        answered = said.get(timeout=600)
        before = memory(served.process.pid)
        for done in range(2, rounds + 1):
            answered += said.get(timeout=600)
            if done % 10 == 0:
                more = (memory(served.process.pid) - before) / _MB
                print(f"{done * FRAMES:,} frames, {answered:,} answered, {more:+.1f} MB", flush=True)
        for each in processes:
            each.join()
            assert each.exitcode == 0
        assert feed(served.address, rounds, 100) > 10, "it serves no more"
        assert served.stop() == 0


if __name__ == "__main__":
    by_hand(int(sys.argv[1]))
