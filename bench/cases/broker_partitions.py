"""A topic of 1, 16, 256 and 4 000 partitions, all of them written and read: what many partitions cost.

Messages of 1 KB go to the partitions in turn. `metadata_us` is the server's CPU for one answer that names
them all, `idle_percent` its CPU while a consumer waits at the end of every partition, in percent of a core.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from bench import Case, Extra, NotMeasured, Run, Size, Variant
from bench.brokers import KafkaLoad, Server, ServerOpener, kafka, penstock
from bench.brokers.kafka_socket import KafkaSocket
from bench.processes import ProcessTree

_COUNTS = (1, 16, 256, 4_000)
_BYTES, _ASKED, _IDLE_SECONDS = 1_000, 20, 3.0
_SERVERS: dict[str, ServerOpener] = {"Penstock": penstock("os"), "Kafka": kafka()}


@dataclass
class Spread:
    """A topic of many partitions on a server."""

    server: Server
    topic: str
    partitions: int

    def cpu_seconds(self) -> float:
        """Return what the server has used so far."""
        used = ProcessTree("server", self.server.pid).cpu_seconds()
        if used is None:
            raise NotMeasured("the server has ended")
        return used

    def produce(self, count: int) -> None:
        """Send messages to all partitions in turn."""
        from confluent_kafka import Producer

        failed: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": self.server.address,
                "acks": "all",
                "linger.ms": 100,
                "queue.buffering.max.kbytes": 256 * 1024,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _: failed.append(error),
            }
        )
        send = partial(producer.produce, self.topic, os.urandom(_BYTES))
        for number in range(count):
            while True:
                try:
                    send(partition=number % self.partitions)
                    break
                except BufferError:
                    producer.poll(0.01)
        left = producer.flush(120)
        if left or failed:
            raise NotMeasured(f"{left} messages were not acknowledged; {failed[:1]}")

    def consume(self, count: int) -> float:
        """Read all, then wait at the end of every partition; return the server's CPU of the wait."""
        from confluent_kafka import Consumer, TopicPartition

        said = {"bootstrap.servers": self.server.address, "group.id": "bench", "enable.auto.commit": False}
        consumer = Consumer(said)
        try:
            consumer.assign([TopicPartition(self.topic, each, 0) for each in range(self.partitions)])
            got = 0
            while got < count:
                found = consumer.consume(min(10_000, count - got), 30)
                if not found:
                    raise NotMeasured(f"only {got} of {count} messages came")
                got += len(found)
            before = self.cpu_seconds()
            end = time.monotonic() + _IDLE_SECONDS  # the load itself: nothing comes
            while time.monotonic() < end:
                consumer.consume(1, 0.5)
            return self.cpu_seconds() - before
        finally:
            consumer.close()

    def metadata_seconds(self) -> float:
        """Return the server's CPU for one answer that names all partitions."""
        with KafkaSocket(self.server) as client:
            client.metadata()
            before = self.cpu_seconds()
            for _ in range(_ASKED):
                client.metadata()
            return (self.cpu_seconds() - before) / _ASKED


def spread(opener: ServerOpener, partitions: int) -> Callable[[Run], AbstractContextManager[Spread]]:
    """Return the setup: a running server, and a new topic there."""

    @contextmanager
    def setup(run: Run) -> Iterator[Spread]:
        server, name = run.once(opener), f"spread{partitions}x{run.round}"
        load = KafkaLoad(server)
        load.create(name, partitions)
        run.watch("server", server.pid)
        try:
            yield Spread(server, name, partitions)
        finally:
            load.delete(name)

    return setup


def through(run: Run, at: Spread) -> Extra:
    """Produce, consume, wait, and ask for all of it."""
    begun = at.cpu_seconds()
    at.produce(run.records)
    produced = at.cpu_seconds()
    idle = at.consume(run.records)
    consumed = at.cpu_seconds()
    return {
        "produce_us": (produced - begun) / run.records * 1e6,
        "consume_us": (consumed - produced - idle) / run.records * 1e6,
        "idle_percent": idle / _IDLE_SECONDS * 100,
        "metadata_us": at.metadata_seconds() * 1e6,
    }


CASE = Case(
    name="broker_partitions",
    about="1, 16, 256 and 4 000 partitions written and read in turn: server CPU, Metadata, idle consumer",
    rounds=Size(quick=1, full=3),
    records=Size(quick=40_000, full=200_000),
    warm_up=False,
    variants=[
        Variant(f"{who}, {count} partitions", through, setup=spread(opener, count))
        for count in _COUNTS
        for who, opener in _SERVERS.items()
    ],
)
