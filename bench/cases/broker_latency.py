"""From `produce` to the consumer at 1 000 messages a second, with librdkafka at both ends.

The schedule is fixed before the first message: one that is late has its lateness counted.
"""

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Thread

from bench import Case, Extra, NotMeasured, Ratio, Run, Size, Target, Variant
from bench.brokers import KafkaLoad, Server, ServerOpener, kafka, penstock
from bench.brokers.single import quantile

_RATE, _LEAST_SECONDS = 1_000, 1.0
_STAMP = struct.Struct(">q")
_PAD = b"x" * (1_000 - _STAMP.size)


def listening(opener: ServerOpener) -> Callable[[Run], AbstractContextManager[tuple[Server, str]]]:
    """Return the setup: a server, and a new topic."""

    @contextmanager
    def setup(run: Run) -> Iterator[tuple[Server, str]]:
        server, name = run.once(opener), f"stream{run.round}"
        KafkaLoad(server).create(name)
        run.watch("server", server.pid)
        yield server, name

    return setup


def end_to_end(run: Run, at: tuple[Server, str]) -> Extra:
    """Produce at the rate, and let a thread consume; the first second is not counted."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    server, name = at
    common = {"bootstrap.servers": server.address}
    producer = Producer({**common, "acks": "all", "linger.ms": 0})
    consumer = Consumer({**common, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, 0, 0)])
    took: list[float] = []

    def consume() -> None:
        silent = 0
        while len(took) < run.records and silent < 100:
            message = consumer.poll(0.1)
            silent += message is None
            if message is not None and message.error() is None:
                took.append((time.perf_counter_ns() - _STAMP.unpack_from(message.value())[0]) / 1e6)

    reader = Thread(target=consume)
    reader.start()
    begun = time.perf_counter_ns() + 100_000_000
    for number in range(run.records):
        due = begun + number * 1_000_000_000 // _RATE
        while (early := due - time.perf_counter_ns()) > 0:
            time.sleep(early / 1e9)
        producer.produce(name, _STAMP.pack(due) + _PAD)
        producer.poll(0)
    producer.flush(30)
    reader.join()
    consumer.close()
    if len(took) < run.records:
        raise NotMeasured(f"only {len(took)} of {run.records} messages came")
    counted = took[int(_LEAST_SECONDS * _RATE) :]
    return {"p50_ms": quantile(counted, 0.5), "p99_ms": quantile(counted, 0.99)}


CASE = Case(
    name="broker_latency",
    about="end to end at 1 000 messages of 1 KB a second, librdkafka at both ends, beside Apache Kafka",
    rounds=Size(quick=1, full=3),
    records=Size(quick=5 * _RATE, full=30 * _RATE),
    variants=[
        Variant("Penstock", end_to_end, setup=listening(penstock("os"))),
        Variant("Kafka", end_to_end, setup=listening(kafka())),
        Variant("Penstock, durable", end_to_end, setup=listening(penstock("fsync"))),
    ],
    targets=[Target("p99_over_kafka", Ratio("Penstock", "Kafka", "p99_ms"), at_most=1)],
)
