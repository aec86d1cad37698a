"""Connections that mean no good: each is answered or closed in its time, and others are served."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from penstock.errors import InvalidInput
from penstock.gateway import listener as listening
from penstock.gateway.rest.requests import ENCODINGS, _unpacked
from tests.crash.waiting import wait_until
from tests.gateway.served import JSON, ServedRest

HEAD = b"POST /v1/topics/orders/records HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture
def rest(sqlite_store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedRest]:
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.3)
    with ServedRest(sqlite_store, body_time=0.3, body_bytes=10_000, connections=50) as served:
        served.listener._server.config.timeout_keep_alive = 1
        served.store.log.create_topic("orders", partitions=1)
        yield served


def opened(rest: ServedRest) -> socket.socket:
    return socket.create_connection(("127.0.0.1", rest.port), timeout=30)


def rest_of(connection: socket.socket) -> bytes:
    """Return all that comes until the other end closes."""
    said = b""
    try:
        while piece := connection.recv(65536):
            said += piece
    except ConnectionResetError:
        pass
    return said


def is_served(rest: ServedRest) -> bool:
    return rest.client.post("/topics/orders/records", content=b"1", headers=JSON).status_code == 201


def test_a_head_that_never_ends_is_closed(rest: ServedRest) -> None:
    with closing(opened(rest)) as slow:
        slow.sendall(HEAD)
        assert is_served(rest)
        assert rest_of(slow) == b""


def test_a_second_head_that_never_ends_is_closed_too(rest: ServedRest) -> None:
    with closing(opened(rest)) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" + HEAD)
        said = rest_of(slow)
        assert said.startswith(b"HTTP/1.1 200")
        assert said.count(b"HTTP/1.1") == 1


def test_a_body_that_never_comes_is_answered_and_closed(rest: ServedRest) -> None:
    with closing(opened(rest)) as slow:
        slow.sendall(HEAD + b"content-length: 100\r\n\r\n{")
        assert is_served(rest)
        said = rest_of(slow)
        assert said.startswith(b"HTTP/1.1 408")
        assert b"body_late" in said


@pytest.mark.parametrize(
    ("more", "body"),
    [
        (b"content-length: 99999999999\r\n", b"x"),
        (b"transfer-encoding: chunked\r\n", b"fff\r\n" + b"x" * 4095 + b"\r\n"),
    ],
)
def test_a_body_of_too_many_bytes_is_refused(rest: ServedRest, more: bytes, body: bytes) -> None:
    with closing(opened(rest)) as large:
        large.sendall(HEAD + more + b"\r\n" + body * 3)
        assert rest_of(large).startswith(b"HTTP/1.1 413")
    assert is_served(rest)


@pytest.mark.parametrize(
    "bytes_sent",
    [
        HEAD + b"x: " + b"y" * 100_000 + b"\r\n\r\n",
        HEAD + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n1",
        HEAD + b"x: a\r\n folded\r\nbad header\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
)
def test_what_is_no_request_is_answered_400_or_closed(rest: ServedRest, bytes_sent: bytes) -> None:
    with closing(opened(rest)) as odd:
        odd.sendall(bytes_sent)
        said = rest_of(odd)
        assert not said or said.startswith(b"HTTP/1.1 4")
    assert is_served(rest)


def test_many_silent_connections_keep_nobody_out_for_long(rest: ServedRest) -> None:
    with ExitStack() as held:
        for _ in range(60):
            held.enter_context(closing(opened(rest)))
        wait_until(lambda: is_served(rest), "silent connections are closed")


def test_a_client_with_too_many_connections_hears_how_many_there_are(sqlite_store: str) -> None:
    with ServedRest(sqlite_store, connections=4) as rest, ExitStack() as held:
        answers = []
        for _ in range(4):  # one client has three of four
            connection = held.enter_context(closing(HTTPConnection("127.0.0.1", rest.port, timeout=30)))
            connection.request("GET", "/v1/topics")
            answers.append(connection.getresponse())
            body = answers[-1].read()
        assert [each.status for each in answers] == [200, 200, 200, 503]
        assert b"you hold as many of 4 connections as one client may (gateway.connections" in body


@pytest.mark.parametrize(
    ("path", "name"), [("/why?subject=a%ff", "subject"), ("/groups/a%ffb", "group"), ("/dead?key=%ef%bf%bd%c3", "key")]
)
def test_a_parameter_that_is_no_text_is_refused_by_its_name(rest: ServedRest, path: str, name: str) -> None:
    answer = rest.client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
    assert f"the parameter {name} is not UTF-8" in answer.json()["detail"]


def test_a_replacement_character_that_was_sent_is_one(rest: ServedRest) -> None:
    answers = rest.client.get("/why?subject=%ef%bf%bd").json()
    assert [each["subject"] for each in answers] == ["\N{REPLACEMENT CHARACTER}"]
    assert rest.client.get("/groups/%ef%bf%bd").status_code == 404


def test_names_are_never_answered_as_headers(rest: ServedRest) -> None:
    answer = rest.client.get("/topics/a%0d%0aset-cookie:%20a=b")
    assert (answer.status_code, "set-cookie" in answer.headers) == (400, False)


@pytest.mark.parametrize("packed", [gzip.compress(b"1"), zlib.compress(b"1")], ids=["gzip", "deflate"])
def test_what_follows_a_packed_body_is_not_gathered(packed: bytes) -> None:
    """It is refused when it comes, not when the last of it has come."""
    asked = 0

    async def stream() -> AsyncIterator[bytes]:
        nonlocal asked
        yield packed
        for _ in range(100):
            asked += 1
            yield bytes(10_000)

    window = ENCODINGS["gzip" if packed[:1] == b"\x1f" else "deflate"]
    with pytest.raises(InvalidInput, match="more follows its end"):
        asyncio.run(_unpacked(stream(), window, 1_000_000, lambda size: None))
    assert asked == 1


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_bodies_of_all_connections_have_a_bound_and_what_is_answered_makes_room(
    sqlite_store: str, packed: bool
) -> None:
    with ServedRest(sqlite_store, body_bytes=10_000, bodies_bytes=33_400, body_time=20) as rest, ExitStack() as held:
        rest.store.log.create_topic("orders", partitions=1)
        for number in range(1, 4):  # each has sent 8 000 bytes of 9 000; one address gets 25 000 or so
            slow = held.enter_context(closing(opened(rest)))
            slow.sendall(HEAD + b"content-length: 9000\r\n\r\n" + bytes(8_000))
            wait_until(lambda n=number: rest.api.bodies.used == n * 8_000, "its bytes are counted")  # type: ignore[misc]
        body = gzip.compress(bytes(2_000)) if packed else bytes(2_000)
        headers = {"content-encoding": "gzip"} if packed else {}
        answer = rest.client.post("/topics/orders/records", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (503, "gateway_busy")
        assert answer.headers["retry-after"] == "1"
        assert is_served(rest)  # a small one finds room
        slow.sendall(bytes(1_000))
        assert slow.recv(65536).startswith(b"HTTP/1.1 201")
        assert rest.client.post("/topics/orders/records", content=body, headers=headers).status_code == 201
    assert rest.api.bodies.used == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1"}, 403),  # another port is another site
        ({"origin": "http://{host}"}, 201),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://{host}"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://behind-a-proxy.example"}, 201),
        ({"sec-fetch-site": "none"}, 201),
    ],
)
def test_a_page_of_another_site_changes_nothing(rest: ServedRest, headers: dict[str, str], status: int) -> None:
    """A browser would add a password that it knows, and reaches ports of its own machine."""
    sent = {name: value.format(host=f"127.0.0.1:{rest.port}") for name, value in headers.items()}
    answer = rest.client.post("/topics/orders/records", content=b"1", headers=JSON | sent)
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["code"] == "foreign_page"
        assert not list(rest.store.log.read("orders", 0))
        assert rest.client.get("/topics", headers=sent).status_code == 200  # it cannot read the answer


def test_a_connection_that_has_ended_is_held_by_nothing(rest: ServedRest) -> None:
    """What is held until Python looks for cycles is held for long: a full search comes rarely in a server."""

    def held() -> int:
        # By type: `isinstance` asks lazy objects of libraries, such as Django's settings, for their class.
        return sum(issubclass(type(each), listening.ImpatientProtocol) for each in gc.get_objects())

    assert is_served(rest)
    gc.collect()
    gc.disable()
    try:
        before = held()
        for _ in range(10):
            with closing(opened(rest)) as asking:
                asking.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert asking.recv(1000).startswith(b"HTTP/1.1 200")
        wait_until(lambda: held() <= before, "nothing holds them")
    finally:
        gc.enable()
