"""Messages that go alone: a connection of any of the protocols, and one message for a new place there."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from bench.brokers.kafka_socket import KafkaSocket, one_record
from bench.brokers.nats_socket import NatsSocket, publication
from bench.brokers.server import Server, ServerOpener
from bench.run import Run


@dataclass
class Single:
    """A connection, and a message as it goes over the wire."""

    client: KafkaSocket | NatsSocket
    message: bytes


SingleOpener = Callable[[Server, str, int], Single]


def kafka_single(server: Server, name: str, size: int) -> Single:
    """Return a connection to who speaks Kafka, with a new topic."""
    client = KafkaSocket(server)
    client.create_topics([name])
    return Single(client, one_record(name, size))


def nats_single(server: Server, name: str, size: int) -> Single:
    """Return a connection to NATS, with a new stream."""
    client = NatsSocket(server)
    client.create_stream(name)
    return Single(client, publication(name, b"x" * size))


def alone(
    server: ServerOpener, opener: SingleOpener, size: int, warm: int = 200
) -> Callable[[Run], AbstractContextManager[Single]]:
    """Return the setup: a running server, a connection, and some messages that are not counted."""

    @contextmanager
    def setup(run: Run) -> Iterator[Single]:
        started = run.once(server)
        single = opener(started, f"one{size}x{run.round}x{run.records}", size)
        with single.client:
            single.client.one_by_one(single.message, warm)
            run.watch("server", started.pid)
            yield single

    return setup


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which that part of all values is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
