"""Warming Apache Kafka up: a Java server compiles itself while it works, and is judged when it has.

A ratio against a cold server flatters whoever is compared with it. A case's first round, which does not
count, is not enough: bulk loads are few requests, and what is compiled is what has been asked for often.
"""

import time
from collections.abc import Callable

from bench.brokers.kafka_socket import KafkaSocket, fetch_request, one_record
from bench.brokers.loads import KafkaLoad
from bench.brokers.pipelining import in_flight
from bench.brokers.server import Server
from bench.run import Run

_TOPIC, _IN_FLIGHT = "warm", 64
_BULK = ((100, 100_000), (1_000, 20_000), (10_000, 3_000))
_QUICK_SECONDS, _FULL_SECONDS = 15, 40


def warm(run: Run, server: Server) -> None:
    """Let a server do all that is measured: in bulk, alone, many under way, fetches; as long for each."""
    share = run.size(quick=_QUICK_SECONDS, full=_FULL_SECONDS) / 4
    load = KafkaLoad(server)
    load.create(_TOPIC)

    def bulk(number: int) -> None:
        name = f"{_TOPIC}{number}"
        size, count = _BULK[number % len(_BULK)]
        load.create(name)
        load.produce(name, size, count)
        load.consume(name, size, count)
        load.delete(name)

    _repeat(bulk, share, at_least=len(_BULK))
    with KafkaSocket(server) as client:
        message, fetch = one_record(_TOPIC, 1_000), fetch_request(_TOPIC, 0, 100_000)

        def fetches(_: int) -> None:
            client.send(fetch)
            client.receive()

        _repeat(lambda _: client.one_by_one(message, 10), share)
        _repeat(lambda _: in_flight(client, message, _IN_FLIGHT, _IN_FLIGHT), share)
        _repeat(fetches, share)
    load.delete(_TOPIC)


def _repeat(work: Callable[[int], object], seconds: float, at_least: int = 1) -> None:
    end, number = time.monotonic() + seconds, 0
    while number < at_least or time.monotonic() < end:
        work(number)
        number += 1
