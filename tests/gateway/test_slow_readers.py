"""Clients that ask for much and take nothing: their answers are bounded together, and the others go on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any

import pytest

from penstock.gateway.rest import answers
from tests.crash.waiting import wait_until
from tests.gateway.served import ServedRest

RECORD, RECORDS = 100_000, 40  # 4 MB, which one answer would have
BOUND = 6_000_000
ASKED = b"GET /v1/topics/orders/partitions/0/records?max_bytes=8000000 HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def served(url: str, **settings: Any) -> Iterator[ServedRest]:
    """Give a door with 40 records, whose system keeps next to nothing for a client that does not take it."""
    rest = ServedRest(url, **settings)
    rest.listener.open()
    assert rest.listener._socket is not None
    rest.listener._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)  # connections inherit it
    with rest:
        rest.client.post("/topics", json={"name": "orders", "partitions": 1}).raise_for_status()
        for _ in range(RECORDS):
            rest.client.post("/topics/orders/records", json="x" * RECORD).raise_for_status()
        yield rest


def silent(port: int, times: int = 1, asked: bytes = ASKED) -> socket.socket:
    """Return a connection that has asked so often, and takes next to nothing."""
    conn = socket.socket()
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    conn.connect(("127.0.0.1", port))
    conn.sendall(asked * times)
    return conn


def test_answers_that_nobody_takes_are_bounded_together_and_others_are_served(
    sqlite_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty times 4 MB are wanted, two of each connection; 6 MB are kept, and then the silent are ended."""
    monkeypatch.setattr(answers, "TAKE_SECONDS", 1.0)
    with served(sqlite_store, answers_bytes=BOUND) as rest, ExitStack() as stack:
        assert rest.api.answers.used == 0
        most = 0
        for _ in range(30):
            conn = stack.enter_context(silent(rest.port, times=2))
            conn.settimeout(30)
            assert conn.recv(12).startswith(b"HTTP/1.1"), "it is answered: with records, or that there is no room"
            most = max(most, rest.api.answers.used)
            answer = rest.client.get("/topics/orders/partitions/0/records", params={"limit": 1})
            assert answer.status_code in (200, 503)
            if answer.status_code == 200:
                assert len(answer.json()["records"]) == 1, "one record is given however little room there is"
            else:
                assert answer.json()["code"] == "gateway_busy"
                assert answer.headers["retry-after"] == "1"
        assert BOUND // 2 < most < BOUND + 2 * RECORD
        wait_until(lambda: not rest.api.answers.is_short, "the silent ones are not ended")
        answer = rest.client.get("/topics/orders/partitions/0/records", params={"limit": 1})
        assert answer.status_code == 200
        stack.close()
        wait_until(lambda: rest.api.answers.used == 0, "bytes are counted that nobody has")


def test_a_slow_reader_is_given_all_while_there_is_room(sqlite_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "TAKE_SECONDS", 0.01)
    with served(sqlite_store) as rest:
        with silent(rest.port) as conn:
            wait_until(lambda: rest.api.answers.used > RECORD, "its answer is not counted")
            Event().wait(0.3)  # it takes nothing for thirty times as long as it would have without room
            assert not rest.api.answers.is_short
            conn.settimeout(30)
            head, got = b"", 0
            while b"\r\n\r\n" not in head:
                head += _received(conn, 4096)
            head, _, rest_of_it = head.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            got = len(rest_of_it)
            while got < length:
                got += len(_received(conn, 1 << 16))
            assert got == length > RECORD * RECORDS
        wait_until(lambda: rest.api.answers.used == 0, "bytes are counted that nobody has")


def test_what_was_published_is_answered_however_little_room_there_is(sqlite_store: str) -> None:
    """A refusal then would be repeated by the client, and the events would come twice."""
    events = [
        {"specversion": "1.0", "id": f"order-{n:060}", "source": "shop", "type": "t", "data": n} for n in range(900)
    ]
    with served(sqlite_store, answers_bytes=BOUND) as rest:
        rest.api.answers.count(None, BOUND)
        try:
            answer = rest.client.post(
                "/topics/orders/records", json=events, headers={"content-type": "application/cloudevents-batch+json"}
            )
        finally:
            rest.api.answers.count(None, -BOUND)
        assert answer.is_success
        assert len(answer.content) > answers.PIECE_BYTES, "an answer that is counted"


def test_leases_that_wait_together_are_given_no_more_than_there_is_room_for(
    sqlite_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty clients wait while nothing is used; then a record of 1 MB comes for each, and none takes it."""
    wanted = b'{"max_records": 1, "wait_seconds": 60, "lease_seconds": 600}'
    leasing = (
        b"POST /v1/groups/readers/topics/large/leases HTTP/1.1\r\nHost: localhost\r\n"
        b"content-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%s" % (len(wanted), wanted)
    )
    size = 1_000_000
    monkeypatch.setattr(answers, "TAKE_SECONDS", 600.0)  # none of them is ended
    with served(sqlite_store, answers_bytes=BOUND) as rest, ExitStack() as stack:
        rest.client.post("/topics", json={"name": "large", "partitions": 1}).raise_for_status()
        rest.client.post("/groups/readers/topics/large/leases", json={}).raise_for_status()
        group = rest.api.groups._groups["readers", "large"].result()
        for _ in range(20):
            stack.enter_context(silent(rest.port, asked=leasing))
        wait_until(lambda: len(group._waiters) == 20, "not all of them wait")
        for _ in range(20):
            rest.client.post("/topics/large/records", json="x" * size).raise_for_status()
        wait_until(lambda: not group._waiters, "some wait though there are records")
        assert BOUND - size < rest.api.answers.used < BOUND + 2 * size
        given = len(group._leases)
        assert given == sum(len(each.held) for each in group._leases.values()) < 10
        answer = rest.client.post("/groups/readers/topics/large/leases", json={"max_records": 1})
        assert (answer.status_code, answer.json()["code"]) == (503, "gateway_busy")
        stack.close()
        wait_until(lambda: rest.api.answers.used == 0, "bytes are counted that nobody has")
        wait_until(lambda: len(group._ready) == 20 - given, "what nobody was given is not there")
        answer = rest.client.post("/groups/readers/topics/large/leases", json={"max_records": 1})
        assert len(answer.json()["records"]) == 1


def _received(conn: socket.socket, size: int) -> bytes:
    found = conn.recv(size)
    assert found, "the connection was closed in the middle of the answer"
    return found
