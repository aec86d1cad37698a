"""No request over HTTP, gRPC or TinyQ holds the loop of its port for long, whatever it brings."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import cramjam
import grpc
import httpx2
import pytest

from penstock.broker.process import collect_rarely
from penstock.errors import InvalidInput
from penstock.gateway.grpc.door import GrpcDoor
from penstock.gateway.grpc.listener import GrpcListener
from penstock.gateway.lease import held_within
from penstock.sockets import new_loop
from penstock.wire.tinyq.frames import TinyqCommand
from tests.gateway.grpc_client import Event, GrpcClient, PublishRequest
from tests.gateway.served import ServedRest
from tests.gateway.test_tinyq import ServedTinyq
from tests.gateway.tinyq_client import NewClient, OldClient
from tests.loop_watch import LoopWatch

_NOTHING = "nothing at {}/{}-{}"
MILLIONS = 1_000_000
LARGE = 9_000_000  # bytes


@pytest.fixture(autouse=True, scope="module")
def rare_collections() -> Iterator[None]:
    """Collect cycles as `penstock serve` does."""
    thresholds = gc.get_threshold()
    collect_rarely()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.AbstractEventLoop]:
    """Give the loops that ports make for themselves: asyncio's own."""
    made: list[asyncio.AbstractEventLoop] = []

    def make(*args: Any) -> asyncio.AbstractEventLoop:
        made.append(new_loop(*args))
        return made[-1]

    monkeypatch.setattr("penstock.sockets.uvloop", None)
    for port in ("listener", "tinyq.listener"):
        monkeypatch.setattr(f"penstock.gateway.{port}.new_loop", make)
    return made


@pytest.fixture
def rest(tmp_path: Path, loops: list[asyncio.AbstractEventLoop]) -> Iterator[ServedRest]:
    """Give a REST door with a topic."""
    with ServedRest(f"sqlite:///{tmp_path}/store.db", threads=2) as served:
        served.store.log.create_topic("orders", partitions=2)
        yield served


@cache
def events(count: int) -> bytes:
    """Return a batch of CloudEvents."""
    told = {"specversion": "1.0", "type": "t", "source": "s", "data": {"a": 1}}
    return json.dumps([told | {"id": f"i{number}"} for number in range(count)]).encode()


BATCH, EVENT = "application/cloudevents-batch+json", "application/cloudevents+json"
BODIES: dict[str, tuple[str, Callable[[], bytes], int]] = {
    "a-batch": (BATCH, lambda: events(10_000), 201),
    "a-batch-of-too-many": (BATCH, lambda: events(50_000), 400),
    "a-batch-of-millions-of-nothing": (BATCH, lambda: b"[" + b"{}," * MILLIONS + b"{}]", 400),
    "deep": (EVENT, lambda: b"[" * 1_000_000, 400),
    "large": ("application/octet-stream", lambda: bytes(LARGE), 413),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("body", BODIES)
def test_no_body_over_http_holds_up_anybody(
    rest: ServedRest, loops: list[asyncio.AbstractEventLoop], body: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, make, status = BODIES[body]
    data = make()
    head = {"content-type": kind} | ({"content-encoding": "gzip"} if packed else {})
    watch = LoopWatch(monkeypatch, lambda: loops[0])
    rest.client.get("/topics")
    sent = gzip.compress(data, 1) if packed else data
    answer = watch.hold(lambda: rest.client.post("/topics/orders/records", content=sent, headers=head))
    assert answer.status_code == status, answer.text


def test_a_head_of_thousands_of_lines_is_refused_before_it_is_read(
    rest: ServedRest, loops: list[asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = LoopWatch(monkeypatch, lambda: loops[0])
    assert rest.client.get("/topics", headers={f"x{number}": "y" for number in range(900)}).status_code == 200

    def ask() -> None:
        with httpx2.Client(base_url=rest.client.base_url) as client:
            lines = {f"x{number}": "y" for number in range(9_000)}
            assert client.get("/topics", headers=lines).status_code == 400

    watch.hold(ask)


@pytest.fixture
def raw_grpc(rest: ServedRest) -> Iterator[tuple[GrpcListener, GrpcClient]]:
    listener = GrpcListener(GrpcDoor(rest.store), "127.0.0.1", 0)
    listener.start()
    client = GrpcClient(listener.address)
    yield listener, client
    client.channel.close()
    listener.stop()


def long_field(number: int, data: bytes) -> bytes:
    """Return a field of bytes as it stands in a message."""
    size, out = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size]) + data


ORDERS = long_field(1, b"orders")
SMALL = Event(type="t", value=b"v").SerializeToString()
MESSAGES = {
    "ten-thousand-events": (ORDERS + long_field(2, SMALL) * 10_000, None),
    "millions-of-events": (ORDERS + long_field(2, b"") * MILLIONS, "more than 100000 events and headers"),
    "millions-of-headers": (
        ORDERS + long_field(2, long_field(5, b"") * MILLIONS),
        "more than 100000 events and headers",
    ),
    "a-large-event": (PublishRequest(topic="orders", events=[Event(value=bytes(LARGE))]).SerializeToString(), "value"),
    "nonsense": (b"\xff" * LARGE, "is no penstock"),
}


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("method", ["Publish", "PublishStream"])
def test_no_message_over_grpc_holds_up_anybody(
    raw_grpc: tuple[GrpcListener, GrpcClient], message: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, client = raw_grpc
    data, refusal = MESSAGES[message]
    assert listener._loop is not None
    loop = listener._loop
    watch = LoopWatch(monkeypatch, lambda: loop)
    client("Topics.List")
    call = client.channel.stream_stream(f"/penstock.v1.Publishing/{method}", bytes, bytes)

    def ask() -> Any:
        try:
            return list(call(iter([data]), timeout=120))
        except grpc.RpcError as exc:
            return exc.details()

    found = watch.hold(ask)
    assert len(found) == 1 if refusal is None else refusal in found, found


def test_no_request_over_tinyq_holds_up_anybody(
    tmp_path: Path, loops: list[asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServedTinyq(f"sqlite:///{tmp_path}/store.db") as served:
        watch = LoopWatch(monkeypatch, lambda: loops[-1])
        with NewClient(served.port, codecs=3) as client:
            packed = {"packed": client.agreed["codec"]}
            client.publish("orders", b"first")
            zeros = bytes(cramjam.zstd.compress(bytes(LARGE)))
            for sent in ({"payload": bytes(LARGE)}, {"payload": zeros, **packed}):
                assert watch.hold(partial(client.publish, "orders", **sent))["code"] == 0
            ack = partial(client.call, TinyqCommand.ACK, subscription=1, ranges=[(0, 1, 2)] * 65_535)
            assert watch.hold(ack)["code"]
            watch.clear()
            client.subscribe("orders", "readers")
            assert [len(client.receive()["payload"]) < LARGE for _ in range(3)] == [True] * 3
            watch.check(one_request=False)
        with OldClient(served.port) as old:
            body = b"orders v"
            watch.clear()
            old.socket.sendall((struct.pack(">BI", TinyqCommand.PUBLISH, len(body)) + body) * 3_000)
            assert old.read(3_000) == bytes(3_000)
            watch.check(one_request=False)


class Held(dict[tuple[int, int], Any]):
    """Records in hand, and how often all of them are looked through."""

    walks = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self.walks += 1
        return super().__iter__()


def test_a_thousand_ranges_look_through_what_is_held_once() -> None:
    """A look for each of them would be a million looks in the loop."""

    held = Held({(number % 2, number): f"record {number}" for number in range(1_000)})
    found: list[Any] = held_within(held, [(number % 2, 0, 999) for number in range(1_000)], _NOTHING)
    assert sorted(found) == sorted(held.values())
    assert held.walks == 1
    some: list[Any] = [*held_within(held, [(1, 5, 7), (0, 4, 4), (1, 7, 9)], _NOTHING)]
    assert some == ["record 4", "record 5", "record 7", "record 9"]
    with pytest.raises(InvalidInput):
        held_within(held, [(0, 4, 4), (1, 2, 2)], _NOTHING)
