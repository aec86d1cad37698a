"""Messages in bulk to one partition: our broker beside Apache Kafka and NATS, none of them syncing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.brokers import NATS, KafkaLoad, Load, NatsLoad, ServerOpener, kafka, nats, penstock
from bench.memory import touch_page_cache

SIZES = {
    "100 B": (100, Size(quick=300_000, full=2_000_000)),
    "1 KB": (1_000, Size(quick=100_000, full=500_000)),
    "10 KB": (10_000, Size(quick=15_000, full=50_000)),
}
SERVERS: dict[str, tuple[ServerOpener, type[Load]]] = {
    "Penstock": (penstock("os"), KafkaLoad),
    "Kafka": (kafka(), KafkaLoad),
    "NATS": (nats(), NatsLoad),
}


def empty(
    opener: ServerOpener, load: type[Load], size: int
) -> Callable[[Run], AbstractContextManager[tuple[Load, str]]]:
    """Return the setup: a running server, and a new topic there."""

    @contextmanager
    def setup(run: Run) -> Iterator[tuple[Load, str]]:
        server = run.once(opener)
        made, name = load(server), f"bench{run.round}"
        made.create(name)
        run.watch("server", server.pid)
        touch_page_cache(run.records * size)
        try:
            yield made, name
        finally:
            made.delete(name)

    return setup


def produce(size: int) -> Callable[[Run, tuple[Load, str]], None]:
    """Return the body: send all, and wait for the last acknowledgement."""

    def body(run: Run, at: tuple[Load, str]) -> None:
        load, name = at
        load.produce(name, size, run.records)

    return body


CASE = Case(
    name="broker_produce",
    about="produce in bulk, 1 partition, acks=all, page cache: server CPU beside Apache Kafka's and NATS'",
    rounds=Size(quick=3, full=5),
    variants=[
        Variant(
            f"{who}, {label}",
            produce(size),
            setup=empty(*SERVERS[who], size),
            records=records,
            peer=NATS if who == "NATS" else None,
        )
        for label, (size, records) in SIZES.items()
        for who in SERVERS
    ],
    targets=[
        target
        for label in SIZES
        for target in (
            Target(
                f"over_kafka {label}",
                Ratio(f"Penstock, {label}", f"Kafka, {label}", "server_cpu_us"),
                at_most=0.5,
                cause="receiving, checksum and writing go by bytes: 0.9 ms a MB, and 1.1 in Kafka",
            ),
            Target(f"over_nats {label}", Ratio(f"Penstock, {label}", f"NATS, {label}", "server_cpu_us"), at_most=1),
        )
    ],
)
