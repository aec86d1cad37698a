"""The listener: takes its address before it serves, ends when told to, twice if need be."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing
from threading import enumerate as threads

import pytest

from penstock import Outbox, gateway
from penstock.errors import AddressRefused
from penstock.gateway import event_loop
from penstock.gateway import listener as listening
from penstock.gateway.listener import HttpListener
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
        monkeypatch.setattr(event_loop, "uvloop", None)
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
    with pytest.raises(AddressRefused, match=r"cannot listen on 192.0.2.1 port 0: .*; take an address of"):
        HttpListener(gateway.app(outbox), "192.0.2.1", 0).open()


@pytest.mark.parametrize("host", ["x" * 70, "a..b"])
def test_what_can_be_no_host_is_refused_too(outbox: Outbox, host: str) -> None:
    with pytest.raises(AddressRefused, match="no name of a host"):
        HttpListener(gateway.app(outbox), host, 0).open()


def test_connections_that_ask_nothing_do_not_keep_their_places(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        with (
            socket.create_connection(listener._socket.getsockname()),
            closing(listener._socket.accept()[0]) as taken,
        ):
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        listener.stop()
