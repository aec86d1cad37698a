"""What clients should not do: others are served all the same, and memory stays bounded."""

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.wire.kafka.apis import APIS
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.record_batch import Compression
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.crash.waiting import wait_until
from tests.kafka.raw import RawClient, frame
from tests.kafka.served import Served

MB = 1024 * 1024
SOFTWARE = {"client_software_name": "raw", "client_software_version": "1"}


@pytest.fixture
def small(sqlite_store: str) -> Iterator[Served]:
    """Give a broker with small bounds."""
    with Served(
        sqlite_store,
        frame_bytes=2 * MB,
        connection_bytes=MB,
        total_bytes=4 * MB,
        connections=68,  # three quarters of them for one address
        batch_bytes=MB,
    ) as served:
        served.topic("t", 2)
        yield served


def is_served(address: str) -> bool:
    """Return whether a well-behaved client gets an answer."""
    with RawClient(address) as client:
        return bool(client.ask(METADATA, {"topics": None}, 9)["brokers"])


def batch(size: int = 100, codec: Compression = Compression.NONE) -> bytes:
    return bytes(encode_records([KafkaRecord(0, 1, b"k", b"\0" * size, [])], codec=codec))


def producing(records: bytes, version: int = 7, acks: int = -1) -> bytes:
    topic = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
    asked = {"acks": acks, "timeout_ms": 1000, "topic_data": [topic]}
    return frame(PRODUCE, version, PRODUCE.encode_request(asked, version))


def produced(client: RawClient, data: bytes, version: int = 7) -> int:
    client.send(data)
    answer = PRODUCE.decode_answer(client.receive(), version, 4)
    (part,) = answer["responses"][0]["partition_responses"]
    number: int = part["error_code"]
    return number


def test_an_unknown_version_and_an_unknown_api_are_answered(small: Served) -> None:
    with RawClient(small.address) as client:
        client.send(frame(API_VERSIONS, 5, b"\x02a\x02b\x00"))
        answer = API_VERSIONS.decode_answer(client.receive(), 0, 4)
        assert answer["error_code"] == 35
        ranges = {each["api_key"]: each for each in answer["api_keys"]}
        assert ranges[18]["max_version"] == 4
        client.send(frame(METADATA, 99, b"\0"))
        assert struct.unpack(">ih", client.receive()) == (1, 35)
        client.send(struct.pack(">ihhih", 10, 999, 0, 7, -1))
        assert struct.unpack(">ih", client.receive()) == (7, 35)
        assert client.ask(METADATA, {"topics": None}, 1)["brokers"]


def test_what_is_offered_is_what_is_served(small: Served) -> None:
    with RawClient(small.address) as client:
        offered = {
            each["api_key"]: (each["min_version"], each["max_version"])
            for each in client.ask(API_VERSIONS, SOFTWARE, 3)["api_keys"]
        }
    assert offered == {key: api.versions for key, api in APIS.items()}


def test_requests_cut_at_every_byte_are_answered_in_order(small: Served) -> None:
    asked = b"".join(frame(METADATA, 9, METADATA.encode_request({"topics": None}, 9), id=number) for number in range(3))
    with RawClient(small.address) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in asked:
            client.send(bytes([byte]))
        assert [struct.unpack_from(">i", client.receive())[0] for _ in range(3)] == [0, 1, 2]


def test_answers_come_in_order_also_behind_a_waiting_fetch(small: Served) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    waiting = {"max_wait_ms": 300, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [part]}]}
    with RawClient(small.address) as client:
        client.send(frame(FETCH, 11, FETCH.encode_request(waiting, 11), id=1))
        client.send(frame(API_VERSIONS, 0, b"", id=2))
        assert [struct.unpack_from(">i", client.receive())[0] for _ in range(2)] == [1, 2]


def test_what_is_refused_at_once_is_answered_behind_what_is_written(small: Served) -> None:
    def asked(topic: str, id: int) -> bytes:
        part = {"index": 0, "records": batch(100_000)}
        body = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": [part]}]}
        return frame(PRODUCE, 7, PRODUCE.encode_request(body, 7), id=id)

    with RawClient(small.address) as client:
        client.send(b"".join(asked("absent" if id % 2 else "t", id) for id in range(10)))
        answers = [client.receive() for _ in range(10)]
    assert [struct.unpack_from(">i", each)[0] for each in answers] == list(range(10))
    numbers = [
        PRODUCE.decode_answer(each, 7, 4)["responses"][0]["partition_responses"][0]["error_code"] for each in answers
    ]
    assert numbers == [0, 3] * 5
    assert small.store.log.bounds("t", 0) == (0, 5)


def test_answers_come_in_order_whether_written_at_once_or_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clients, alone or with several requests at a time, small and large; the log does not wait."""
    monkeypatch.setenv("PENSTOCK_FILES_DURABILITY", "os")
    draw, kept = random.Random(1), list[tuple[int, bytes]]()
    with Served(f"{tmp_path}/data/") as served:
        served.topic("t", 1)
        clients = [RawClient(served.address) for _ in range(2)]
        for number in range(60):
            some = [
                [b"%d-%d-%d" % (number, who, each) for each in range(draw.choice((1, 1, 1, 5)))] for who in range(2)
            ]
            for client, values in zip(clients, some, strict=True):
                sizes = [draw.choice((1, 1, 50_000)) for _ in values]
                records = [
                    encode_records([KafkaRecord(0, 1, None, value + b"." * size, [])])
                    for value, size in zip(values, sizes, strict=True)
                ]
                client.send(b"".join(producing(bytes(each)) for each in records))
            for client, values in zip(clients, some, strict=True):
                for value in values:
                    answer = PRODUCE.decode_answer(client.receive(), 7, 4)
                    (part,) = answer["responses"][0]["partition_responses"]
                    assert part["error_code"] == 0
                    kept.append((part["base_offset"], value))
        for client in clients:
            client.socket.close()
        found = served.store.log.read("t", 0, 0, len(kept) + 1)
    assert [(each.offset, bytes(each.data or b"").rstrip(b".")) for each in found] == sorted(kept)
    for who in b"01":
        own = [offset for offset, value in kept if value.split(b"-")[1] == bytes([who])]
        assert own == sorted(own), "what a client sends first stands first"


def test_a_huge_frame_is_refused_and_others_are_served(small: Served) -> None:
    with RawClient(small.address) as client:
        client.send(struct.pack(">i", 1 << 30))
        assert client.receive() == b""
    assert is_served(small.address)


def test_an_announced_size_takes_no_memory_until_its_bytes_come(small: Served) -> None:
    clients = [RawClient(small.address) for _ in range(20)]
    for each in clients:
        each.send(struct.pack(">i", 2 * MB) + b"\0" * 10)
    wait_until(lambda: sum(each.is_within for each in small.broker.sessions) == 20, "some have not begun")
    assert 0 < small.broker.flow.partial.used <= 20 * 64 * 1024
    for each in clients:
        each.socket.close()
    wait_until(lambda: small.broker.flow.requests.used == 0, "room is kept for requests that were given up")
    assert is_served(small.address)


def test_more_large_requests_than_there_is_room_for_are_taken_one_by_one(small: Served) -> None:
    """Six requests of almost 1 MB do not fit into 4 MB together: all are answered all the same."""
    data = producing(batch(int(0.9 * MB)))
    clients = [RawClient(small.address) for _ in range(6)]
    for each in clients:
        each.send(data[: len(data) - 100_000])
    most = 0
    for each in clients:
        each.send(data[len(data) - 100_000 :])
        most = max(most, small.broker.flow.requests.used)
    for each in clients:
        answer = PRODUCE.decode_answer(each.receive(), 7, 4)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
        each.socket.close()
    assert most <= 6 * MB
    assert is_served(small.address)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_few_bytes_that_unpack_to_very_many_are_refused(small: Served, codec: Compression) -> None:
    bomb = batch(30 * MB, codec)
    assert len(bomb) < 2 * MB
    with RawClient(small.address) as client:
        assert produced(client, producing(bomb)) == 10
        assert produced(client, producing(batch())) == 0


def test_damaged_and_foreign_batches_are_refused_by_number(small: Served) -> None:
    good = batch()
    flipped = bytearray(good)
    flipped[-1] ^= 1
    old = bytearray(good)
    old[16] = 1
    with RawClient(small.address) as client:
        assert produced(client, producing(bytes(flipped))) == 2
        assert produced(client, producing(bytes(old))) == 87
        assert produced(client, producing(batch(codec=Compression.ZSTD), 3), 3) == 76
        assert produced(client, producing(good, acks=5)) == 21
        assert produced(client, producing(b"")) == 87
        assert produced(client, producing(good)) == 0
    assert small.store.log.bounds("t", 0) == (0, 1)


def test_a_reader_that_does_not_read_holds_up_nobody(small: Served) -> None:
    with RawClient(small.address) as client:
        for _ in range(20):
            assert produced(client, producing(batch(200_000))) == 0
    asked = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 4 * MB}]}],
    }
    with RawClient(small.address) as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(50):
            slow.send(frame(FETCH, 11, FETCH.encode_request(asked, 11)))
        assert is_served(small.address)
        (session,) = [each for each in small.broker.sessions if each.pending > 1]
        assert session.pending <= 50
    assert is_served(small.address)


def test_half_a_request_holds_up_nobody(small: Served) -> None:
    with RawClient(small.address) as slow:
        slow.send(producing(batch(MB))[:100_000])
        assert is_served(small.address)


def test_more_connections_than_may_be_are_refused(small: Served) -> None:
    with ExitStack() as clients:
        for _ in range(51):
            clients.enter_context(RawClient(small.address))
        wait_until(lambda: len(small.broker.sessions) == 51, "some of them are not connected")
        with RawClient(small.address) as one_more:
            assert one_more.receive() == b""
    wait_until(lambda: not small.broker.sessions, "connections that were closed are kept")
    assert is_served(small.address)


def test_idle_connections_are_closed(sqlite_store: str) -> None:
    from datetime import timedelta

    with Served(sqlite_store, idle=timedelta(seconds=1)) as served, RawClient(served.address) as client:
        assert client.receive() == b""
        assert is_served(served.address)


def test_a_client_above_its_quota_is_told_to_wait(sqlite_store: str) -> None:
    with Served(sqlite_store, produce_bytes_per_second=10_000) as served:
        served.topic("t", 1)
        with RawClient(served.address) as client:
            client.send(producing(batch(15_000)))
            answer = PRODUCE.decode_answer(client.receive(), 7, 4)
            assert 300 < answer["throttle_time_ms"] < 2000
