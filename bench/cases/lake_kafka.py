"""Spark reads a Kafka topic of 1 KB rows by our source, and by its own connector; nothing is done with them.

At our broker and at Apache Kafka, the same rows by the same client. With Spark's connector among
`PENSTOCK_BENCH_PACKAGES` (docs/how-to/benchmark.md); it must have a build for the Spark that is installed.
`spark_cpu_us` is Spark's own, Java and Python together; `server_cpu_us` that of the broker.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench import Case, Run, Size, Variant
from bench.brokers import KafkaLoad, Server, ServerOpener, kafka, penstock
from bench.errors import NotMeasured
from bench.lakes import PACKAGES, TOPIC, row_of, spark, watch
from penstock.log.entry import content_of, key_bytes
from penstock.log.kafka_form import kafka_headers

PARTITIONS = 8
SERVERS: dict[str, ServerOpener] = {"our broker": penstock("os"), "Apache Kafka": kafka()}


@dataclass(frozen=True)
class KafkaRows:
    """A filled topic at a broker."""

    spark: Any
    server: Server


@cache
def filled(opener: ServerOpener) -> Callable[[Run], AbstractContextManager[Server]]:
    """Return the opener of a broker whose topic holds the rows, made once."""

    @contextmanager
    def opened(run: Run) -> Iterator[Server]:
        server = run.once(opener)
        KafkaLoad(server).create(TOPIC, PARTITIONS)
        _fill(run, server)
        yield server

    return opened


def _fill(run: Run, server: Server) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": server.address, "acks": "all", "linger.ms": 50})
    rng = random.Random(1)
    for number in range(run.records):
        row = row_of(number, rng)
        headers = kafka_headers(content_of(row))
        producer.produce(TOPIC, row.data, key_bytes(row.key), headers=headers, timestamp=row.timestamp_ms)
        if number % 20_000 == 0:  # what waits in the client stays small
            producer.flush(60)
    if producer.flush(120):
        raise NotMeasured("not all rows were acknowledged")


def rows(opener: ServerOpener) -> Callable[[Run], AbstractContextManager[KafkaRows]]:
    """Return the setup: Spark, and a filled topic."""

    @contextmanager
    def setup(run: Run) -> Iterator[KafkaRows]:
        session, server = run.once(spark), run.once(filled(opener))
        watch(run, session)
        run.watch("server", server.pid)
        yield KafkaRows(session, server)

    return setup


def by_ours(run: Run, at: KafkaRows) -> None:
    """Read all columns by our source."""
    reader = at.spark.read.format("penstock").options(url=f"kafka://{at.server.address}", topic=TOPIC)
    reader.load().write.format("noop").mode("overwrite").save()


def by_connector(run: Run, at: KafkaRows) -> None:
    """Read all columns, headers among them, by Spark's connector."""
    options = {"kafka.bootstrap.servers": at.server.address, "subscribe": TOPIC, "includeHeaders": "true"}
    options["kafka.isolation.level"] = "read_committed"
    at.spark.read.format("kafka").options(**options).load().write.format("noop").mode("overwrite").save()


HAS_CONNECTOR = "spark-sql-kafka" in os.environ.get(PACKAGES, "")

CASE = Case(
    name="lake_kafka",
    about="Spark reads a Kafka topic of 1 KB rows: our source beside Spark's connector, local[2]",
    records=Size(quick=300_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[
        variant
        for name, opener in SERVERS.items()
        for variant in (
            Variant(f"Penstock source, {name}", by_ours, setup=rows(opener)),
            *(
                [Variant(f"Spark's connector, {name}", by_connector, setup=rows(opener))]
                if HAS_CONNECTOR
                else []
            ),
        )
    ],
)
