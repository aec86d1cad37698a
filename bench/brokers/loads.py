"""Bulk loads by compiled clients: librdkafka for whoever speaks Kafka, a bare socket for NATS.

The Python in it only hands messages over; what is measured is the server's CPU, beside the wall clock.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Protocol

from bench.brokers.kafka_socket import KafkaSocket
from bench.brokers.nats_socket import NatsSocket, publication
from bench.brokers.pipelining import in_flight
from bench.brokers.server import Server
from bench.errors import NotMeasured

_NATS_IN_FLIGHT_BYTES, _NATS_IN_FLIGHT = 32 << 20, 20_000
_NATS_PULL = 4_000


class Load(Protocol):
    """Fills and reads one place of a server: a topic of one partition, or a stream."""

    def __init__(self, server: Server) -> None:
        """Remember the server."""

    def create(self, name: str, partitions: int = 1) -> None:
        """Make the place."""

    def produce(self, name: str, size: int, count: int) -> None:
        """Send so many messages, and wait until all are acknowledged."""

    def consume(self, name: str, size: int, count: int) -> None:
        """Read so many messages from the start."""

    def delete(self, name: str) -> None:
        """Delete the place."""


class KafkaLoad:
    """What librdkafka does as it comes, with acknowledgements of all."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def create(self, name: str, partitions: int = 1) -> None:
        """Make a topic."""
        with KafkaSocket(self._server) as client:
            client.create_topics([name], partitions)

    def delete(self, name: str) -> None:
        """Delete a topic."""
        with KafkaSocket(self._server) as client:
            client.delete_topic(name)

    def produce(self, name: str, size: int, count: int) -> None:
        """Send messages without keys; to several partitions as the client spreads them."""
        from confluent_kafka import Producer

        failed: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": self._server.address,
                "acks": "all",
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 256 * 1024,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _: failed.append(error),
            }
        )
        send, value = partial(producer.produce, name), os.urandom(size)
        for _ in range(count):
            try:
                send(value)
            except BufferError:
                while not _has_room(send, value):
                    producer.poll(0.01)
        left = producer.flush(120)
        if left or failed:
            raise NotMeasured(f"{left} messages were not acknowledged; {failed[:1]}")

    def consume(self, name: str, size: int, count: int) -> None:
        """Read a partition from its start."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self._server.address,
                "group.id": "bench",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
            }
        )
        try:
            consumer.assign([TopicPartition(name, 0, 0)])
            got = 0
            while got < count:
                found = consumer.consume(min(10_000, count - got), 30)
                if not found:
                    raise NotMeasured(f"only {got} of {count} messages came")
                got += len(found)
        finally:
            consumer.close()


def _has_room(send: Callable[[bytes], None], value: bytes) -> bool:
    try:
        send(value)
    except BufferError:
        return False
    return True


class NatsLoad:
    """JetStream over a bare socket: many messages under way, pulled in batches."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def create(self, name: str, partitions: int = 1) -> None:
        """Make a stream."""
        with NatsSocket(self._server) as client:
            client.create_stream(name)

    def delete(self, name: str) -> None:
        """Delete a stream."""
        with NatsSocket(self._server) as client:
            client.delete_stream(name)

    def produce(self, name: str, size: int, count: int) -> None:
        """Publish, each message acknowledged by itself: JetStream has no batches."""
        most = min(_NATS_IN_FLIGHT, _NATS_IN_FLIGHT_BYTES // size)
        with NatsSocket(self._server) as client:
            in_flight(client, publication(name, b"x" * size), count, most)

    def consume(self, name: str, size: int, count: int) -> None:
        """Pull messages from the start."""
        with NatsSocket(self._server) as client:
            client.read(name, count, min(_NATS_PULL, max(1, _NATS_IN_FLIGHT_BYTES // size // 2)))
