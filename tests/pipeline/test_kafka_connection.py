"""What a port sends that is no Kafka, or means harm: one sentence, and no memory is taken for it."""

from __future__ import annotations

import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.errors import Damaged, InvalidOption, StoreError, StoreUnreachable
from penstock.log.kafka_settings import KafkaSettings
from penstock.pipeline.source import kafka_connection
from penstock.pipeline.source.batch import BatchReader
from penstock.pipeline.source.kafka_topic import KafkaTopicReader
from penstock.pipeline.source.options import read_options
from penstock.wire.kafka.apis.records import FETCH, LIST_OFFSETS
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.layout import Message
from penstock.wire.kafka.record_batch import Compression
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.pipeline.test_source import read_all

LITTLE = 40 << 20
APIS = {each.key: each for each in (METADATA, LIST_OFFSETS, FETCH)}
Speaks = Callable[[socket.socket], object]


@contextmanager
def port(speaks: Speaks) -> Iterator[str]:
    """Give the address of a port at which somebody speaks, once to each who connects."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                try:
                    speaks(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"kafka://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(30)


def known(url: str, settings: KafkaSettings | None = None) -> None:
    """Ask what there is at a port."""
    with closing(KafkaTopicReader(url, "orders", settings)) as reader:
        reader.known()


def asked(connection: socket.socket) -> bytes:
    """Return a request as it came; nothing when there is none any more."""
    head = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL) if head else b""


def announcing(size: int, then: bytes = b"") -> Speaks:
    def speaks(connection: socket.socket) -> None:
        asked(connection)
        connection.sendall(struct.pack(">i", size) + then)

    return speaks


def answering(data: bytes) -> Speaks:
    def speaks(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(data)

    return speaks


@pytest.mark.parametrize(
    ("speaks", "why"),
    [
        (announcing(1 << 30), "an answer of 1,073,741,824 bytes is announced"),
        (announcing(-1), "an answer of -1 bytes is announced"),
        (announcing((16 << 20) + 1), "16,777,217 bytes"),
        (announcing(4, struct.pack(">i", 77)), "it belongs to no request"),
        (announcing(0), "it belongs to no request"),
        (announcing(8, struct.pack(">ii", 1, -1)), "does not answer as a Kafka cluster does"),
        (announcing(0x15030303, b"\x02\x46"), "does not answer as a Kafka cluster does"),  # an alert of TLS
    ],
)
def test_an_answer_that_is_none_is_one_sentence_and_no_memory(speaks: Speaks, why: str) -> None:
    with port(speaks) as url:
        tracemalloc.start()
        try:
            with pytest.raises(StoreError, match=why) as refused:
                known(url)
            assert tracemalloc.get_traced_memory()[1] < LITTLE
        finally:
            tracemalloc.stop()
    assert "\n" not in str(refused.value)
    assert not refused.value.retryable


def test_memory_is_taken_as_bytes_come() -> None:
    """A port may announce as much as is taken of an answer with records, and send none of it."""
    with port(Cluster(announces=128 << 20)) as url:
        reader = KafkaTopicReader(url, "orders")
        reader.bounds()
        tracemalloc.start()
        try:
            with pytest.raises(StoreUnreachable, match="it ended the connection"):
                list(reader.batches(0, 0, 10))
            assert tracemalloc.get_traced_memory()[1] < LITTLE
        finally:
            tracemalloc.stop()
            reader.close()


def test_an_answer_larger_than_what_is_taken_at_once_comes_whole() -> None:
    value = bytes(range(256)) * (80 << 10)
    batch = encode_records([KafkaRecord(0, 1000, b"k", value, [])])
    with port(Cluster(batch=bytes(batch))) as url:
        found = _rows(url)
    assert [row["value"] == value for row in found] == [True]


def test_a_web_server_is_told_from_a_cluster() -> None:
    speaks = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    with port(speaks) as url, pytest.raises(StoreError, match="an answer of 1,213,486,160 bytes") as refused:
        known(url)
    assert "give the address of its Kafka port" in str(refused.value)


def test_a_port_that_says_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_connection, "_SECONDS", 0.2)
    speaks = lambda connection: asked(connection) and connection.recv(1)  # noqa: E731 - waits for its end
    with port(speaks) as url, pytest.raises(StoreUnreachable, match="says nothing for"):
        known(url)


def test_a_port_that_ends_the_connection_is_said_to_want_another_protocol() -> None:
    with port(lambda connection: None) as url, pytest.raises(StoreUnreachable, match="may want another"):
        known(url)


def test_tls_at_a_port_without_it_is_one_sentence() -> None:
    settings = KafkaSettings.load(security_protocol="SSL")
    speaks = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with port(speaks) as url, pytest.raises(StoreError, match="no TLS with") as refused:
        known(url, settings)
    assert "kafka.security.protocol" in str(refused.value)


def test_few_bytes_that_stand_for_very_many_are_refused() -> None:
    bomb = encode_records([KafkaRecord(0, 1000, b"k", bytes(300 << 20), [])], codec=Compression.ZSTD)
    with port(Cluster(batch=bytes(bomb))) as url, pytest.raises(Damaged, match="too many bytes"):
        _rows(url)


@pytest.mark.parametrize(
    "says",
    [
        {"topics": []},
        {"offsets": []},
        {"offsets": [{"partition_index": 5, "offset": 1}]},
        {"numbers": [0, 7]},
        {"numbers": []},
    ],
)
def test_a_cluster_that_says_what_cannot_be_is_refused(says: dict[str, Any]) -> None:
    with (
        port(Cluster(**says)) as url,
        closing(KafkaTopicReader(url, "orders")) as reader,
        pytest.raises(StoreError) as refused,
    ):
        reader.bounds()
    assert "what cannot be" in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("kafka.security.protocol", "TLS", "one of PLAINTEXT, SSL"),
        ("kafka.security.protocol", "SASL_SSL", "PENSTOCK_KAFKA_SASL_PASSWORD"),
        ("kafka.sasl.mechanism", "GSSAPI", "one of PLAIN, SCRAM-SHA-256"),
        ("kafka.sasl.jaas.config", "secret-canary", "of Kafka's own options there are"),
        ("kafka.bootstrap.servers", "localhost:9092", "left out"),
    ],
)
def test_an_option_that_is_none_is_refused(option: str, value: str, wanted: str) -> None:
    with pytest.raises(InvalidOption, match=wanted) as refused:
        read_options({"url": "kafka://localhost:9092", option: value})
    assert "secret-canary" not in str(refused.value)


def test_files_that_are_none_are_named() -> None:
    for name in ("ssl_ca_location", "ssl_certificate_location"):
        given: dict[str, Any] = {"security_protocol": "SSL", name: "/nowhere.pem"}
        settings = KafkaSettings.load(**given)
        with pytest.raises(InvalidOption, match=r"nowhere\.pem"):
            KafkaTopicReader("kafka://localhost:9092", "orders", settings)


# -- a cluster of one broker that says what a test wants


def _rows(url: str) -> list[dict[str, Any]]:
    reader = BatchReader(read_options({"url": url, "topic": "orders"}))
    return read_all(reader, reader.partitions())


@dataclass(frozen=True)
class Cluster:
    """One topic with one partition of one record, unless it says otherwise."""

    batch: bytes = b""
    announces: int | None = None  # instead of records, so many bytes
    numbers: Sequence[int] = (0,)
    topics: Sequence[Message] | None = None
    offsets: Sequence[Message] | None = None

    def __call__(self, connection: socket.socket) -> None:
        """Answer until the other side ends."""
        while request := asked(connection):
            key, version, number = struct.unpack_from(">hhi", request)
            api, after_name = APIS[key], 8 + 2 + struct.unpack_from(">h", request, 8)[0]
            message = api.decode_request(request, version, after_name + api.is_flexible(version))
            if api is FETCH and self.announces is not None:
                connection.sendall(struct.pack(">i", self.announces))
                return
            said = {METADATA: self._metadata, LIST_OFFSETS: self._offsets, FETCH: self._fetched}[api]
            data = struct.pack(">i", number) + (b"\0" if api.is_flexible(version) else b"")
            data += api.encode_answer(said(message, connection), version)
            connection.sendall(struct.pack(">i", len(data)) + data)

    def _metadata(self, asked: Message, connection: socket.socket) -> Message:
        host, port = connection.getsockname()[:2]
        parts = [{"partition_index": each, "leader_id": 1} for each in self.numbers]
        topic = {"name": "orders", "partitions": parts}
        brokers = [{"node_id": 1, "host": host, "port": port}]
        return {"brokers": brokers, "topics": [topic] if self.topics is None else self.topics}

    def _offsets(self, asked: Message, connection: socket.socket) -> Message:
        moment = asked["topics"][0]["partitions"][0]["timestamp"]
        one = {"partition_index": 0, "offset": int(moment == -1)}
        return {"topics": [{"name": "orders", "partitions": [one] if self.offsets is None else self.offsets}]}

    def _fetched(self, asked: Message, connection: socket.socket) -> Message:
        return {"responses": [{"topic": "orders", "partitions": [{"records": self.batch}]}]}
