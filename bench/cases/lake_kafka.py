"""Spark reads a Kafka topic of 1 KB rows by our source, and by its own connector; nothing is done with them.

At our broker and at Apache Kafka, the same rows by the same client. The connector is there if
`PENSTOCK_BENCH_CONNECTOR` names the folder of its jars (docs/how-to/benchmark.md), of the Spark that runs.
`spark_cpu_us` is Spark's own, Java and Python together; `server_cpu_us` that of the broker.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench import Case, Run, Size, Variant
from bench.brokers import KafkaLoad, Server, ServerOpener, kafka, penstock
from bench.errors import NotMeasured
from penstock.pipeline.session import spark_session

TOPIC, PARTITIONS = "rows", 8
CONNECTOR = os.environ.get("PENSTOCK_BENCH_CONNECTOR", "")
_OWN = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")  # the rest is in Spark
SERVERS: dict[str, ServerOpener] = {"our broker": penstock("os"), "Apache Kafka": kafka()}


@dataclass(frozen=True)
class KafkaRows:
    """A filled topic at a broker."""

    spark: Any
    server: Server


@contextmanager
def spark(run: Run) -> Iterator[Any]:
    """Give one Spark session on two cores, with the connector if it is named."""
    conf = {"spark.driver.memory": "4g", "spark.ui.showConsoleProgress": "false"}
    if CONNECTOR:
        jars = [str(each) for each in sorted(Path(CONNECTOR).glob("*.jar")) if each.name.startswith(_OWN)]
        conf["spark.jars"] = ",".join(jars)
    session = spark_session("bench", master="local[2]", conf=conf)
    run.note("spark", session.version)
    try:
        yield session
    finally:
        session.stop()


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
        noise = rng.randbytes(250).hex()
        value = f'{{"order_id": {number}, "noise": "{noise}", "note": "{"x" * 450}"}}'
        headers: list[Any] = [("ce_specversion", b"1.0"), ("ce_id", b"r-%d" % number), ("ce_type", b"placed")]
        producer.produce(TOPIC, value, f"order-{number % 10_000}", headers=headers)
        if number % 20_000 == 0:  # what waits in the client stays small
            producer.flush(60)
    if producer.flush(120):
        raise NotMeasured("not all rows were acknowledged")


def rows(opener: ServerOpener) -> Callable[[Run], AbstractContextManager[KafkaRows]]:
    """Return the setup: Spark, and a filled topic."""

    @contextmanager
    def setup(run: Run) -> Iterator[KafkaRows]:
        session, server = run.once(spark), run.once(filled(opener))
        java = session._jvm.java.lang.ProcessHandle.current().pid()
        run.watch("spark", int(java))  # and the Python workers below it
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


CASE = Case(
    name="lake_kafka",
    about="Spark reads a Kafka topic of 1 KB rows: our source beside Spark's connector, local[2]",
    records=Size(quick=200_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[
        variant
        for name, opener in SERVERS.items()
        for variant in (
            Variant(f"Penstock source, {name}", by_ours, setup=rows(opener)),
            *([Variant(f"Spark's connector, {name}", by_connector, setup=rows(opener))] if CONNECTOR else []),
        )
    ],
)
