"""Messages in bulk from one partition that is in the page cache: our broker beside Apache Kafka and NATS."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.brokers import NATS, Load
from bench.cases.broker_produce import SERVERS, SIZES


@cache
def filled(who: str, label: str) -> Callable[[Run], AbstractContextManager[str]]:
    """Return the opener of a topic that holds what is read, made once."""
    opener, load = SERVERS[who]
    size, _ = SIZES[label]

    @contextmanager
    def opened(run: Run) -> Iterator[str]:
        made, name = load(run.once(opener)), f"filled{size}"
        made.create(name)
        made.produce(name, size, run.records)
        yield name

    return opened


def reading(who: str, label: str) -> Callable[[Run], AbstractContextManager[tuple[Load, str]]]:
    """Return the setup: a running server with a filled topic."""
    opener, load = SERVERS[who]

    @contextmanager
    def setup(run: Run) -> Iterator[tuple[Load, str]]:
        server = run.once(opener)
        name = run.once(filled(who, label))
        run.watch("server", server.pid)
        yield load(server), name

    return setup


def consume(size: int) -> Callable[[Run, tuple[Load, str]], None]:
    """Return the body: read all."""

    def body(run: Run, at: tuple[Load, str]) -> None:
        load, name = at
        load.consume(name, size, run.records)

    return body


_READ = (
    "of some 280 us a MB the copy into the socket takes 135, reading 45, the checksum 18, Python 55; "
    "`sendfile`, which Kafka uses, takes 180 here instead of the first three"
)

CASE = Case(
    name="broker_consume",
    about="consume in bulk, 1 partition, page cache: server CPU beside Apache Kafka's and NATS'",
    rounds=Size(quick=3, full=5),
    variants=[
        Variant(
            f"{who}, {label}",
            consume(size),
            setup=reading(who, label),
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
                cause=_READ,
            ),
            Target(f"over_nats {label}", Ratio(f"Penstock, {label}", f"NATS, {label}", "server_cpu_us"), at_most=1),
        )
    ],
)
