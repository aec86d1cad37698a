"""Many clients at once, readers that do not read, quotas: others are served, and memory stays bounded."""

import contextlib
import struct
import time
from collections.abc import Iterator

import psutil
import pytest

from penstock.wire.kafka.apis.records import FETCH
from penstock.wire.kafka.apis.topics import METADATA
from tests.crash.waiting import wait_until
from tests.kafka.raw import RawClient, frame
from tests.kafka.served import Served, ServedProcess
from tests.kafka.test_hostile import MB, batch, is_served, produced, producing

_LEAST_ANSWER, _READERS, _ASKED = 64 * 1024, 20, 150


def fetching(max_bytes: int = 4 * MB, max_wait_ms: int = 0, id: int = 1) -> bytes:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": max_bytes}
    asked = {
        "max_wait_ms": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "topics": [{"topic": "t", "partitions": [part]}],
    }
    return frame(FETCH, 11, FETCH.encode_request(asked, 11), id=id)


@pytest.fixture
def filled(sqlite_store: str) -> Iterator[Served]:
    """Give a broker with room for 4 MB, and a topic of 6 MB; over one store: the broker does the counting."""
    with Served(sqlite_store, total_bytes=4 * MB, connection_bytes=MB, threads=4) as served:
        served.topic("t", 1)
        with RawClient(served.address) as client:
            for _ in range(300):
                assert produced(client, producing(batch(20_000))) == 0
        yield served


@contextlib.contextmanager
def slow_readers(served: Served) -> Iterator[list[RawClient]]:
    """Let many ask for more than their sockets hold, and read nothing, until the broker holds all answers."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(served.address, holds=4096)) for _ in range(_READERS)]
        for each in clients:
            each.send(fetching() * _ASKED)
        wait_until(lambda: sum(each.is_full for each in served.broker.sessions) == _READERS, "all readers are full")
        yield clients


def test_answers_that_nobody_takes_are_counted_leave_room_and_end_those_who_asked(
    filled: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, flow, make_room = filled.broker, filled.broker.flow, filled.broker._make_room
    # Else its own look ends the first readers before the last is full, where the machine is busy.
    monkeypatch.setattr(broker, "_make_room", lambda now: None)
    with slow_readers(filled):
        full_since = [each.full_since for each in broker.sessions if each.is_full]
        assert MB < flow.answers.used <= 2 * MB + _READERS * (_LEAST_ANSWER + 21_000)
        with RawClient(filled.address) as client:
            client.send(fetching())
            assert len(client.receive()) > 20_000
            assert produced(client, producing(batch(100_000))) == 0
        held = flow.answers.used
        flow.answer(2 * MB)  # as if there were more of them
        with RawClient(filled.address) as good:
            broker.call_soon(make_room, min(full_since) + 5)
            assert good.ask(METADATA, {"topics": None}, 9)["brokers"]
            assert flow.answers.used >= held + 2 * MB
            broker.call_soon(make_room, max(full_since) + 11)
            wait_until(lambda: flow.answers.used <= 2 * MB, "answers have half of the room")
            assert good.ask(METADATA, {"topics": None}, 9)["brokers"]
        flow.answer(-2 * MB)
    wait_until(lambda: flow.answers.used == 0, "nothing is answered any more")
    with RawClient(filled.address) as client:
        client.send(fetching())
        assert len(client.receive()) > 8 * _LEAST_ANSWER - 21_000


def test_a_reader_that_comes_back_gets_every_answer_in_order(filled: Served) -> None:
    with RawClient(filled.address) as client:  # with a window as it comes: a tiny one is opened by timers only
        client.send(b"".join(fetching(id=number) for number in range(_ASKED)))
        wait_until(lambda: any(each.is_full for each in filled.broker.sessions), "a reader is full")
        for number in range(_ASKED):
            data = client.receive()
            assert struct.unpack_from(">i", data)[0] == number
            (part,) = FETCH.decode_answer(data, 11, 4)["responses"][0]["partitions"]
            assert part["error_code"] == 0
            assert part["records"][:8] == bytes(8)


@pytest.mark.slow
def test_a_thousand_idle_connections_take_little_memory(sqlite_store: str) -> None:
    with Served(sqlite_store) as made:
        made.topic("t", 1)
    with ServedProcess(sqlite_store) as served, contextlib.ExitStack() as stack:
        process = psutil.Process(served.process.pid)
        assert is_served(served.address)
        before = process.memory_info().rss
        clients = [stack.enter_context(RawClient(served.address)) for _ in range(1_000)]
        for each in clients:
            assert each.ask(METADATA, {"topics": None}, 9)["brokers"]
        assert process.memory_info().rss - before < 40 * MB
        with RawClient(served.address) as client:
            assert produced(client, producing(batch())) == 0


def test_ten_thousand_topics_that_are_not_there_are_answered_and_not_made(filled: Served) -> None:
    names = [{"name": f"absent-{number:05}"} for number in range(10_000)]
    with RawClient(filled.address) as client:
        answer = client.ask(METADATA, {"topics": names, "allow_auto_topic_creation": True}, 9)
        assert {each["error_code"] for each in answer["topics"]} == {3}
        assert len(answer["topics"]) == 10_000
        assert len(client.ask(METADATA, {"topics": None}, 9)["topics"]) == 1


def test_a_reader_above_its_quota_is_told_to_wait_and_not_served_meanwhile(sqlite_store: str) -> None:
    with Served(sqlite_store, fetch_bytes_per_second=20_000) as served:
        served.topic("t", 1)
        with RawClient(served.address) as client:
            assert produced(client, producing(batch(30_000))) == 0
            begun = time.monotonic()
            client.send(fetching() * 2)
            first = FETCH.decode_answer(client.receive(), 11, 4)
            assert 300 < first["throttle_time_ms"] < 2000
            second = FETCH.decode_answer(client.receive(), 11, 4)
            assert time.monotonic() - begun >= first["throttle_time_ms"] / 1000 - 0.05
            assert second["throttle_time_ms"] > 300
            assert is_served(served.address)
