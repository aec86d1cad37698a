"""What the doors cost: REST, gRPC and TinyQ beside bare programs, and the Kafka port with TLS and without.

Clients send bytes that were made once, over one connection each. The log is in files; with `os` it does not
sync, with `fsync` it does before it answers.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.brokers.pipelining import in_flight
from bench.brokers.server import Server
from bench.doors.clients import (
    HttpSocket,
    TinyqSocket,
    kafka_produce,
    kafka_topic,
    make_topic,
    payload,
    post,
    publish_stream,
)
from bench.doors.servers import TOPIC, Doors, bare, penstock

_EVENT = b'{"specversion":"1.0","id":"e-%03d","type":"order.placed","source":"/shop","partitionkey":"o-1","data":%s}'
_VALUE, _BATCH, _IN_FLIGHT = payload(300), 100, 64
_ONE = post(f"/v1/topics/{TOPIC}/records?key=o-1&type=order.placed", _VALUE, "application/json")
_MANY = post(
    f"/v1/topics/{TOPIC}/records",
    b"[%s]" % b",".join(_EVENT % (number, _VALUE) for number in range(_BATCH)),
    "application/cloudevents-batch+json",
)
_KB = 1_000
_WARM = 200


def _gateway(run: Run, durability: str) -> Doors:
    doors = run.once(penstock(durability))
    make_topic(doors.http)
    run.watch("server", doors.http.pid)
    return doors


def http(request: bytes, *, constant: bool = False) -> Callable[[Run], AbstractContextManager[HttpSocket]]:
    """Return the setup: a connection that has been used a little."""

    @contextmanager
    def setup(run: Run) -> Iterator[HttpSocket]:
        server = run.once(bare("constant")) if constant else _gateway(run, "os").http
        run.watch("server", server.pid)
        with HttpSocket(server) as client:
            for _ in range(_WARM // 10):
                client.ask(request)
            yield client

    return setup


def asking(request: bytes) -> Callable[[Run, HttpSocket], None]:
    """Return the body: one request after another."""

    def body(run: Run, client: HttpSocket) -> None:
        for _ in range(run.records):
            client.ask(request)

    return body


@contextmanager
def grpc(run: Run) -> Iterator[Server]:
    """Give the gRPC port, which has been used a little."""
    server = _gateway(run, "os").grpc
    publish_stream(server, _VALUE, _WARM)
    yield server


def streaming(run: Run, server: Server) -> None:
    """Send one event in a request over one stream, and wait for all answers."""
    publish_stream(server, _VALUE, run.records)


def tinyq(durability: str | None) -> Callable[[Run], AbstractContextManager[TinyqSocket]]:
    """Return the setup: a connection to the TinyQ port, or to the echo."""

    @contextmanager
    def setup(run: Run) -> Iterator[TinyqSocket]:
        server = run.once(bare("echo")) if durability is None else _gateway(run, durability).tinyq
        run.watch("server", server.pid)
        with TinyqSocket(server, echo=durability is None) as client:
            client.one_by_one(client.frame(_VALUE), _WARM)
            yield client

    return setup


def one_by_one(run: Run, client: TinyqSocket) -> None:
    """Publish when the one before is answered."""
    client.one_by_one(client.frame(_VALUE), run.records)


def ahead(run: Run, client: TinyqSocket) -> None:
    """Publish with many on their way."""
    in_flight(client, client.frame(_VALUE), run.records, _IN_FLIGHT)


def kafka(*, tls: bool) -> Callable[[Run], AbstractContextManager[Doors]]:
    """Return the setup: a gateway that has its topic."""

    @contextmanager
    def setup(run: Run) -> Iterator[Doors]:
        doors = run.once(penstock("os", tls=tls))
        if run.round == 0:
            kafka_topic(doors.kafka, None if doors.ca is None else str(doors.ca))
        run.watch("server", doors.kafka.pid)
        yield doors

    return setup


def bulk(run: Run, doors: Doors) -> None:
    """Produce in batches."""
    kafka_produce(doors.kafka, None if doors.ca is None else str(doors.ca), _KB, run.records)


_SOME = Size(quick=1_500, full=10_000)
_FLOOD = Size(quick=20_000, full=100_000)

CASE = Case(
    name="doors",
    about="REST, gRPC and TinyQ beside bare programs, and TLS on the Kafka port; a log in files",
    rounds=Size(quick=3, full=5),
    records=_SOME,
    variants=[
        Variant("a constant", asking(_ONE), setup=http(_ONE, constant=True)),
        Variant("REST, one", asking(_ONE), setup=http(_ONE)),
        Variant("REST, batch of 100", asking(_MANY), setup=http(_MANY), records=Size(quick=200, full=1_000)),
        Variant("gRPC stream", streaming, setup=grpc, records=_FLOOD),
        Variant("echo, one by one", one_by_one, setup=tinyq(None)),
        Variant("TinyQ, one by one", one_by_one, setup=tinyq("os")),
        Variant("echo, ahead", ahead, setup=tinyq(None), records=_FLOOD),
        Variant("TinyQ, ahead", ahead, setup=tinyq("os"), records=_FLOOD),
        Variant("TinyQ, fsync, one by one", one_by_one, setup=tinyq("fsync"), records=500),
        Variant("TinyQ, fsync, ahead", ahead, setup=tinyq("fsync"), records=5_000),
        Variant("Kafka, plaintext", bulk, setup=kafka(tls=False), records=Size(quick=50_000, full=300_000)),
        Variant("Kafka, TLS", bulk, setup=kafka(tls=True), records=Size(quick=50_000, full=300_000)),
    ],
    targets=[
        Target(
            "rest_cpu",
            Ratio("REST, one", "a constant", "server_cpu_us"),
            at_most=2.5,
            cause="of a request's CPU the append takes a quarter, the lock and the parameters a tenth each",
        ),
        Target("rest_batch_cpu", Ratio("REST, batch of 100", "REST, one", "server_cpu_us"), at_most=10),
        Target(
            "grpc_stream",
            Ratio("gRPC stream", "REST, one", "records_per_second"),
            at_least=5,
            cause="one connection keeps one core busy: 110 us of CPU for its message, 380 for a REST request",
        ),
        Target(
            "tinyq_one_by_one",
            Ratio("TinyQ, one by one", "echo, one by one", "records_per_second"),
            at_least=0.5,
            cause="a frame alone pays for a whole append: checks, a batch, two writes; the echo for none",
        ),
        Target(
            "tinyq_ahead",
            Ratio("TinyQ, ahead", "echo, ahead", "records_per_second"),
            at_least=0.5,
            cause="of 64 together a record takes as long to check and write as the echo of a frame",
        ),
        Target(
            "tinyq_group_commit",
            Ratio("TinyQ, fsync, ahead", "TinyQ, fsync, one by one", "records_per_second"),
            at_least=5,
        ),
        Target("kafka_tls", Ratio("Kafka, TLS", "Kafka, plaintext", "server_cpu_us"), at_most=3),
    ],
)
