"""What the broker holds in memory under loads that want a lot, with its buffers as they come.

Floods may take the configured buffers beside the 100 MB: `broker.total_bytes` and `files.buffer_bytes`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import Thread

from bench import Case, Extra, Resident, Run, Size, Target, Value, Variant
from bench.brokers import KafkaLoad, Server, penstock
from bench.brokers.kafka_socket import KafkaSocket, fetch_request
from penstock.broker.settings import BrokerSettings
from penstock.log.files.settings import FilesSettings

_OWN_MB = 100.0
_BUFFERS_MB = (BrokerSettings().total_bytes + FilesSettings().buffer_bytes) / 1e6
_CONNECTIONS, _IDLE_SECONDS = 1_000, 3.0
_WRITERS, _READERS, _LARGE = 4, 50, 100_000
_TOPIC = "large"


@contextmanager
def served(run: Run) -> Iterator[Server]:
    """Give a new broker with a topic of some hundred megabytes: each load is alone with it."""
    with penstock("os")(run) as server:
        load = KafkaLoad(server)
        load.create(_TOPIC)
        load.produce(_TOPIC, _LARGE, run.size(quick=1_000, full=5_000))
        run.watch("server", server.pid)
        yield server


def with_memory(load: Callable[[Run, Server], None]) -> Callable[[Run, Server], Extra]:
    """Return the body: a load, and the most that the broker held meanwhile."""

    def body(run: Run, server: Server) -> Extra:
        with Resident(server.pid) as memory:
            load(run, server)
            return {"peak_mb": memory.peak_mb(), "after_mb": memory.now_mb()}

    return body


def writers(run: Run, server: Server) -> None:
    """Let several producers send large messages as fast as they can."""
    load = KafkaLoad(server)
    count = run.size(quick=500, full=5_000)
    threads = [Thread(target=load.produce, args=(_TOPIC, _LARGE, count)) for _ in range(_WRITERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def slow_readers(run: Run, server: Server) -> None:
    """Let many ask for as much as they may have, several times each, and read nothing."""
    request = fetch_request(_TOPIC, 0, 1 << 30)
    with ExitStack() as stack:
        clients = [stack.enter_context(KafkaSocket(server)) for _ in range(_READERS)]
        for each in clients:
            each.send(request * 4)
        time.sleep(_IDLE_SECONDS)  # the load itself: nobody reads for so long
        with KafkaSocket(server) as other:
            other.end(_TOPIC)


def idle_connections(run: Run, server: Server) -> None:
    """Hold many connections that have asked once and say nothing more."""
    with ExitStack() as stack:
        clients = [stack.enter_context(KafkaSocket(server)) for _ in range(_CONNECTIONS)]
        for each in clients:
            each.metadata()
        time.sleep(_IDLE_SECONDS)  # the load itself: silence
        for each in clients[:: max(1, len(clients) // 10)]:
            each.metadata()


def alone(run: Run) -> AbstractContextManager[Server]:
    """Give the setup."""
    return served(run)


_LOADS = {"large writes": writers, "slow readers": slow_readers, "1000 idle": idle_connections}

CASE = Case(
    name="broker_memory",
    about="most memory that the broker held under large writes, readers that do not read, idle connections",
    rounds=Size(quick=1, full=3),
    warm_up=False,
    variants=[Variant(name, with_memory(load), setup=alone) for name, load in _LOADS.items()],
    targets=[
        Target("large_writes", Value("large writes", "peak_mb"), at_most=round(_OWN_MB + _BUFFERS_MB)),
        Target("slow_readers", Value("slow readers", "peak_mb"), at_most=round(_OWN_MB + _BUFFERS_MB)),
        Target("idle_connections", Value("1000 idle", "peak_mb"), at_most=_OWN_MB),
    ],
)
