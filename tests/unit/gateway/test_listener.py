"""The listener: takes its address before it serves, ends when told to, twice if need be."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import enumerate as threads
from typing import Any

import pytest

from penstock import Outbox, gateway, sockets
from penstock.errors import AddressRefused
from penstock.gateway import listener as listening
from penstock.gateway.listener import GatheringTransport, HttpListener
from penstock.testing import memory_outbox


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with closing(memory_outbox()) as made:
        yield made


def status(listener: HttpListener) -> int:
    host, _, port = listener.address.rpartition(":")
    with closing(http.client.HTTPConnection(host.strip("[]"), int(port), timeout=20)) as connection:
        connection.request("GET", "/healthz")
        return connection.getresponse().status


def serving() -> list[str]:
    return [each.name for each in threads() if each.name == "penstock-http"]


@pytest.mark.parametrize(("host", "has_uvloop"), [("127.0.0.1", True), ("127.0.0.1", False), ("::1", True)])
def test_it_answers_from_start_to_stop_and_leaves_nothing_behind(
    outbox: Outbox, host: str, has_uvloop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_uvloop:
        monkeypatch.setattr(sockets, "uvloop", None)
    listener = HttpListener(gateway.app(outbox), host, 0)
    try:
        listener.open()
    except AddressRefused:
        pytest.skip(f"this machine has no {host}")
    listener.start()
    listener.start()
    assert status(listener) == 200
    address = listener.address
    listener.stop()
    listener.stop()
    assert serving() == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(address.rpartition(":")[2])))


def test_an_address_of_another_machine_is_refused_with_the_remedy(outbox: Outbox) -> None:
    with pytest.raises(AddressRefused, match=r"cannot listen on 192.0.2.1 port 0: .*; use an address of"):
        HttpListener(gateway.app(outbox), "192.0.2.1", 0).open()


@pytest.mark.parametrize("host", ["x" * 70, "a..b"])
def test_what_can_be_no_host_is_refused_too(outbox: Outbox, host: str) -> None:
    with pytest.raises(AddressRefused, match="no name of a host"):
        HttpListener(gateway.app(outbox), host, 0).open()


def test_connections_that_ask_nothing_do_not_keep_their_places(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of them, kept open by anyone, would let every probe fail, and the worker be restarted."""
    monkeypatch.setattr(listening, "_CONNECTIONS", 2)
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.05)
    listener = HttpListener(gateway.app(outbox), "127.0.0.1", 0)
    listener.start()
    try:
        place = listener.address.split(":")
        silent = [socket.create_connection((place[0], int(place[1])), timeout=20) for _ in range(2)]
        silent[1].sendall(b"GET /heal")
        assert [each.recv(1) for each in silent] == [b"", b""]
        assert status(listener) == 200
        for each in silent:
            each.close()
    finally:
        listener.stop()


def test_answers_do_not_wait_for_the_acknowledgement_of_the_client(outbox: Outbox) -> None:
    listener = HttpListener(gateway.app(outbox), "127.0.0.1", 0)
    listener.open()
    try:
        assert listener._socket is not None
        with socket.create_connection(listener._socket.getsockname()), closing(listener._socket.accept()[0]) as taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        listener.stop()


class _HandTurnedLoop:
    """An event loop whose timers run when the test says so."""

    def __init__(self) -> None:
        self.call_soon = asyncio.get_running_loop().call_soon
        self.timers: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[..., None], *args: object) -> None:
        self.timers.append(lambda: call(*args))

    def pass_time(self) -> None:
        (timer,), self.timers = self.timers, []
        timer()


class _Closed(asyncio.Protocol):
    """The end of a door that has sent much and closed the connection."""

    def connection_made(self, transport: Any) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.transport, self.loop = transport, _HandTurnedLoop()
        gathering = GatheringTransport(transport, self.loop)
        gathering.write(bytes(_MUCH))
        gathering.close()
        gathering.close()  # as the server does when it has answered

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


_MUCH = 8_000_000


def test_a_closed_connection_lasts_as_long_as_its_client_takes_the_rest() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        _, door = await loop.create_connection(_Closed, sock=ours)
        left = door.transport.get_write_buffer_size
        await asyncio.sleep(0)
        while left() > _MUCH // 2:  # it takes some, time passes, it takes some
            before = left()
            while left() == before:
                assert await loop.sock_recv(theirs, 1 << 16)
            door.loop.pass_time()
            assert not door.ended.done()
        door.loop.pass_time()  # it has taken nothing since
        await asyncio.wait_for(door.ended, 30)
        assert door.loop.timers == []
        theirs.close()

    asyncio.run(run())


def test_a_closed_connection_whose_rest_is_taken_is_over() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        _, door = await loop.create_connection(_Closed, sock=ours)
        taken = 0
        while some := await loop.sock_recv(theirs, 1 << 20):
            taken += len(some)
        assert taken == _MUCH
        await asyncio.wait_for(door.ended, 30)
        theirs.close()

    asyncio.run(run())


def test_what_was_written_to_a_connection_that_gave_way_is_dropped() -> None:
    class Gone:
        def is_closing(self) -> bool:
            return True

        def write(self, data: bytes) -> None:
            raise RuntimeError("the handler is closed")  # as uvloop says it

    async def story() -> list[object]:
        loop, errors = asyncio.get_running_loop(), list[object]()
        loop.set_exception_handler(lambda _, found: errors.append(found))
        GatheringTransport(Gone(), loop).write(b"late")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return errors

    assert asyncio.run(story()) == []
