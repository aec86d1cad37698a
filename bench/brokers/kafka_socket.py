"""Kafka's protocol over a bare socket: one record in a request, so that the client costs next to nothing.

Clients with threads of their own are measured with every message that is sent alone; this one blocks in
`recv`, and is the same for our broker and for Apache's.
"""

import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Self

from bench.brokers.server import Server
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.records import FETCH, LIST_OFFSETS, PRODUCE
from penstock.wire.kafka.apis.topics import CREATE_TOPICS, DELETE_TOPICS, METADATA
from penstock.wire.kafka.layout import Api, Message
from penstock.wire.kafka.records import KafkaRecord, encode_records

_PRODUCE_VERSION, _FETCH_VERSION = 7, 11
_ERROR_AT = struct.Struct(">h")
_LEADER_SECONDS = 60


def _frame(api: Api, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhi", api.key, version, 1) + struct.pack(">h", 5) + b"bench"
    data = head + (b"\0" if api.is_flexible(version) else b"") + body
    return struct.pack(">i", len(data)) + data


class KafkaSocket:
    """One connection; one thread."""

    def __init__(self, server: Server, seconds: float = 60) -> None:
        self.socket = socket.create_connection(server.place, timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""  # of an answer that is not whole

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, api: Api, message: Message, version: int) -> Message:
        """Ask something and return the answer."""
        self.send(_frame(api, version, api.encode_request(message, version)))
        tagged = api.is_flexible(version) and api.key != API_VERSIONS.key
        return api.decode_answer(self.receive(), version, 5 if tagged else 4)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """Return the next answer without its size. Raises ConnectionError."""
        (size,) = struct.unpack(">i", self._take(4))
        return self._take(size)

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the server has ended the connection")
            data += piece
        return data

    # -- topics

    def create_topics(self, names: Sequence[str], partitions: int = 1) -> None:
        """Make topics, and wait until one of them can be written."""
        topics = [{"name": each, "num_partitions": partitions, "replication_factor": 1} for each in names]
        answer = self.ask(CREATE_TOPICS, {"topics": topics, "timeout_ms": 60_000}, 4)
        failed = [each for each in answer["topics"] if each["error_code"]]
        assert not failed, failed[0]
        self.end(names[-1], partitions - 1)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self.ask(DELETE_TOPICS, {"topic_names": [name], "timeout_ms": 60_000}, 3)

    def end(self, topic: str, partition: int = 0) -> int:
        """Return the end of a partition, once it has a leader."""
        wanted = {"partition_index": partition, "timestamp": -1}
        asked = {"topics": [{"name": topic, "partitions": [wanted]}]}
        until = time.monotonic() + _LEADER_SECONDS
        while True:
            answer = self.ask(LIST_OFFSETS, asked, 2)
            (part,) = answer["topics"][0]["partitions"]
            if not part["error_code"]:
                return int(part["offset"])
            assert time.monotonic() < until, f"{topic} has no leader: error {part['error_code']}"
            time.sleep(0.02)

    # -- records

    def one_by_one(self, request: bytes, count: int) -> list[float]:
        """Send a request and wait for its answer, so many times; return how long each took, in seconds."""
        took = []
        for _ in range(count):
            begun = time.perf_counter()
            self.send(request)
            answer = self.receive()
            took.append(time.perf_counter() - begun)
            check_produced(answer)
        return took

    def answers_in(self, data: bytes) -> int:
        """Return how many answers to Produce requests end in the bytes that came."""
        found, at, data = 0, 0, self._rest + data
        while len(data) - at >= 4 and len(data) - at - 4 >= (size := struct.unpack_from(">i", data, at)[0]):
            check_produced(data[at + 4 : at + 4 + size])
            at += 4 + size
            found += 1
        self._rest = data[at:]
        return found


def one_record(topic: str, size: int, partition: int = 0) -> bytes:
    """Return a Produce request of one record, acknowledged by all."""
    record = KafkaRecord(0, int(time.time() * 1000), None, os.urandom(size), [])
    part = {"index": partition, "records": bytes(encode_records([record]))}
    asked = {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": topic, "partition_data": [part]}]}
    return _frame(PRODUCE, _PRODUCE_VERSION, PRODUCE.encode_request(asked, _PRODUCE_VERSION))


def fetch_request(topic: str, offset: int, max_bytes: int) -> bytes:
    """Return a Fetch request of one partition that does not wait."""
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    asked = {"min_bytes": 1, "max_bytes": max_bytes, "topics": [{"topic": topic, "partitions": [part]}]}
    return _frame(FETCH, _FETCH_VERSION, FETCH.encode_request(asked, _FETCH_VERSION))


def check_produced(answer: bytes) -> None:
    """Raise unless the one partition of an answer was written."""
    # correlation id, one topic, its name, one partition, its number; then the error
    (length,) = struct.unpack_from(">h", answer, 8)
    (error,) = _ERROR_AT.unpack_from(answer, 10 + length + 4 + 4)
    assert not error, f"a message was refused with error {error}"


def is_kafka(server: Server) -> bool:
    """Return whether a Kafka broker answers, and has itself as a node."""
    with KafkaSocket(server, 5) as client:
        return bool(client.ask(METADATA, {"topics": []}, 9)["brokers"])
