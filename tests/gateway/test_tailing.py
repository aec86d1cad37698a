"""Tailing by server-sent events, on every kind of store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.datastructures import Headers

from penstock.access.access import Access
from penstock.access.policy import AccessPolicy
from penstock.access.principal import Peer, anonymous
from penstock.access.rule import parse_rule
from penstock.gateway.rest.call import RestCall
from penstock.gateway.rest.tail import TAIL, _events
from penstock.model.record import Record
from penstock.operate.tail import StoreTail, some
from tests.crash.waiting import wait_until
from tests.gateway.served import JSON, ServedRest

EVENTS = "/topics/orders/events"


def events(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield kind, id and data of each event."""
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            found[name] = value.strip()
        elif found.get("event"):
            data = found.get("data")
            yield found["event"], found.get("id", ""), json.loads(data) if data else None
            found = {}


def send(rest: ServedRest, *values: str) -> None:
    for each in values:
        rest.client.post("/topics/orders/records?key=k", content=each.encode(), headers=JSON)


def test_records_come_as_they_are_published_and_a_client_takes_up_where_it_was(rest: ServedRest) -> None:
    send(rest, "1")
    with rest.client.stream("GET", EVENTS, params={"from": "earliest"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = events(answer.iter_lines())
        assert next(stream)[0] == "place"
        assert next(stream)[2]["value"] == 1
        kind, place, _ = next(stream)
        assert kind == "place"
        send(rest, '{\n"a": 2\r\n}')  # line ends in a value are none of the stream's
        assert next(stream)[2]["value"] == {"a": 2}
    send(rest, "3")
    with rest.client.stream("GET", EVENTS, headers={"last-event-id": place}) as answer:
        stream = events(answer.iter_lines())
        assert next(stream)[:2] == ("place", place)
        assert [next(stream)[2]["value"] for _ in range(2)] == [{"a": 2}, 3]


def test_only_what_is_new_comes_unless_asked_for(rest: ServedRest) -> None:
    send(rest, "1")
    with rest.client.stream("GET", EVENTS) as answer:
        stream = events(answer.iter_lines())
        next(stream)
        send(rest, "2")
        assert next(stream)[2]["value"] == 2


@pytest.mark.parametrize("last", ["x", "1", "1:-1", "1:" + "9" * 30, "0:1,"])
def test_a_place_that_was_never_sent_is_refused(sqlite_store: str, last: str) -> None:
    with ServedRest(sqlite_store) as rest:
        rest.store.log.create_topic("orders", partitions=4)
        refused = rest.client.get(EVENTS, headers={"last-event-id": last})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")


def test_a_stream_ends_when_its_reader_may_read_no_more(sqlite_store: str) -> None:
    access = Access()
    with ServedRest(sqlite_store, access=access) as rest:
        rest.store.log.create_topic("orders", partitions=4)
        with rest.client.stream("GET", EVENTS) as answer:
            stream = events(answer.iter_lines())
            next(stream)
            access.install(AccessPolicy(rules=(parse_rule("deny anonymous read topic orders"),)))
            kind, _, problem = next(stream)
            assert (kind, problem["code"]) == ("error", "not_allowed")
            assert list(stream) == []


def called(rest: ServedRest) -> RestCall:
    given = {"topic": "orders", "partition": None}
    return RestCall(rest.api, next(iter(TAIL)), anonymous(Peer()), Headers(), given, b"", None)  # type: ignore[arg-type]


def tail_of(rest: ServedRest) -> StoreTail:
    return StoreTail(rest.store, "orders", "earliest")


def test_records_that_were_read_already_are_not_sent_to_who_may_read_no_more(sqlite_store: str) -> None:
    """A slow reader may take the first of them a long time before the last."""
    access = Access()

    async def read(rest: ServedRest) -> list[bytes]:
        stream = _events(called(rest), "orders", tail_of(rest))
        found = [await anext(stream), await anext(stream)]
        access.install(AccessPolicy(rules=(parse_rule("deny anonymous read topic orders"),)))
        return found + [each async for each in stream]

    with ServedRest(sqlite_store, access=access) as rest:
        rest.store.log.create_topic("orders", partitions=1)
        send(rest, "1", "2", "3")
        kinds = [each.split()[1] for each in asyncio.run(read(rest))]
        assert kinds == [b"place", b"record", b"error"]


def test_streams_that_begin_at_the_same_time_are_no_more_than_the_bound(sqlite_store: str) -> None:
    """All were admitted while none of them had begun."""

    async def begun(rest: ServedRest) -> list[bytes]:
        streams = [_events(called(rest), "orders", tail_of(rest)) for _ in range(5)]
        first = [await anext(each) for each in streams]
        assert rest.api.streams.used == 2
        assert [len([event async for event in each]) for each in streams[2:]] == [0, 0, 0], "they have ended"
        for each in streams[:2]:
            await each.aclose()
        assert rest.api.streams.used == 0
        return first

    with ServedRest(sqlite_store, streams=3) as rest:  # two of three for one client
        rest.store.log.create_topic("orders", partitions=1)
        first = asyncio.run(begun(rest))
        assert [each.split()[1] for each in first] == [b"place"] * 2 + [b"error"] * 3
        assert b"gateway_busy" in first[2]


def test_what_is_read_at_once_is_bounded_in_bytes_too() -> None:
    read = iter([Record(str(each), None, bytes(600), None, (), 0) for each in range(10)])
    assert [len(some(read, 3, 10_000)), len(some(read, 9, 1000)), len(some(read, 9, 1))] == [3, 2, 1]
    assert [len(some(read, 9, 10_000)), len(some(read, 9, 10_000))] == [4, 0]


def test_so_many_streams_and_no_more_until_one_has_ended(sqlite_store: str) -> None:
    with ServedRest(sqlite_store, streams=1) as rest:
        rest.store.log.create_topic("orders", partitions=4)
        with rest.client.stream("GET", EVENTS) as answer:
            stream = events(answer.iter_lines())
            next(stream)
            refused = rest.client.get(EVENTS)
            assert (refused.status_code, refused.json()["code"]) == (503, "gateway_busy")
            assert refused.headers["retry-after"]
            assert "it sends 1 streams of 1 (gateway.streams)" in refused.json()["detail"]

        def is_served() -> bool:
            with rest.client.stream("GET", EVENTS) as again:
                return again.status_code == 200

        wait_until(is_served, "the first has ended")
