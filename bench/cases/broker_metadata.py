"""The answer that names every topic: 5 000 topics, and one topic of 1, 16, 256 and 4 000 partitions."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from bench import Case, Extra, Ratio, Run, Size, Target, Variant
from bench.brokers import Server, ServerOpener, kafka, penstock
from bench.brokers.kafka_socket import KafkaSocket

_TOPICS, _AT_A_TIME = 5_000, 250
_PARTITIONS = (1, 16, 256, 4_000)


@cache
def filled(topics: int, partitions: int, opener: ServerOpener) -> ServerOpener:
    """Return the opener of a server with so many topics."""

    @contextmanager
    def opened(run: Run) -> Iterator[Server]:
        with opener(run) as server, KafkaSocket(server) as client:
            names = [f"topic-{number:05}" for number in range(topics)]
            for first in range(0, topics, _AT_A_TIME):
                client.create_topics(names[first : first + _AT_A_TIME], partitions)
            yield server

    return opened


def connected(opener: ServerOpener) -> Callable[[Run], AbstractContextManager[KafkaSocket]]:
    """Return the setup: a connection to a server that has its topics."""

    @contextmanager
    def setup(run: Run) -> Iterator[KafkaSocket]:
        server = run.once(opener)
        with KafkaSocket(server) as client:
            client.metadata()
            run.watch("server", server.pid)
            yield client

    return setup


def ask(run: Run, client: KafkaSocket) -> Extra:
    """Ask for everything, again and again."""
    sizes = {client.metadata() for _ in range(run.records)}
    return {"answer_bytes": max(sizes)}


CASE = Case(
    name="broker_metadata",
    about="Metadata of all of 5 000 topics, and of a topic of many partitions: server CPU per answer",
    rounds=Size(quick=3, full=5),
    records=Size(quick=50, full=200),
    variants=[
        Variant("Penstock, 5000 topics", ask, setup=connected(filled(_TOPICS, 1, penstock("os")))),
        Variant("Kafka, 5000 topics", ask, setup=connected(filled(_TOPICS, 1, kafka()))),
        *(
            Variant(f"Penstock, {count} partitions", ask, setup=connected(filled(1, count, penstock("os"))))
            for count in _PARTITIONS
        ),
    ],
    targets=[
        Target(
            "topics_over_kafka",
            Ratio("Penstock, 5000 topics", "Kafka, 5000 topics", "server_cpu_us"),
            at_most=1,
        )
    ],
)
