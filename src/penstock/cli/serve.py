"""`penstock serve`: serves a store over the network."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import click

from penstock.access.opening import Lock
from penstock.access.settings import AccessSettings
from penstock.app import Outbox
from penstock.broker.process import collect_rarely
from penstock.database.address import directory_in
from penstock.database.migrations import check, migrate
from penstock.database.url import plain_url
from penstock.log.store import Store, open_batches

from . import listeners
from .console import console_routes, refuse_open_console
from .listeners import ListenAddress, ListenAddressType, anonymous_option, insecure_option, lock_options
from .options import ChosenStore, attached, store_options
from .service import logging_options, send_spans, set_up, stop_signal


@click.command("serve")
@store_options
@click.option("--kafka", type=ListenAddressType(), help="Serve Kafka clients there; port 0 picks a free one.")
@click.option(
    "--advertise",
    type=ListenAddressType(),
    help="Where Kafka clients reach this broker, if that is not where it listens.",
)
@click.option(
    "--http",
    type=ListenAddressType(),
    help="Serve REST (/v1), /metrics, /healthz and /readyz there; port 0 picks a free one.",
)
@click.option("--grpc", type=ListenAddressType(), help="Serve gRPC clients there; port 0 picks a free one.")
@click.option(
    "--tinyq", type=ListenAddressType(), help="Serve TinyQ clients there, usually port 25131; port 0 picks a free one."
)
@click.option("--console", is_flag=True, help="Serve the web console there, too, read-only.")
@insecure_option
@anonymous_option
@lock_options
@logging_options
def command(
    chosen: ChosenStore,
    kafka: ListenAddress | None,
    advertise: ListenAddress | None,
    http: ListenAddress | None,
    grpc: ListenAddress | None,
    tinyq: ListenAddress | None,
    console: bool,
    insecure: bool,
    anonymous: bool,
    log_level: str | None,
    log_format: str | None,
    **lock: Any,
) -> None:
    """Serve a store to Kafka clients, over HTTP, over gRPC and to TinyQ clients until it is stopped.

    Prints the address of each listener. On SIGTERM or Ctrl-C it completes pending requests, hands its groups
    to another broker if there is one, and ends. It creates the tables of a directory; those of a database are
    created by `penstock migrate`. One process serves and writes a directory; a second one fails to start.
    """
    if console:
        listeners.refuse_without_http("--console", http)
    if kafka is None and http is None and grpc is None and tinyq is None:
        raise click.UsageError(
            "give an address: --kafka 127.0.0.1:9092, --http 127.0.0.1:8420, --grpc 127.0.0.1:8421 or "
            "--tinyq 127.0.0.1:25131"
        )
    locking = AccessSettings.load(**lock)
    if console and http is not None:
        refuse_open_console("--http", http, locking)
    given = (("--kafka", kafka), ("--http", http), ("--grpc", grpc), ("--tinyq", tinyq))
    listening = [(flag, address) for flag, address in given if address is not None]
    for flag, address in listening:
        listeners.refuse_open(flag, address, insecure=insecure, encrypted=bool(locking.tls_cert))
    set_up(log_level, log_format)
    send_spans()
    with attached(chosen.url, chosen.names) as store, stop_signal() as stopped:
        if directory_in(plain_url(chosen.url)) is not None:
            migrate(store.database)
        check(store.database)
        store.log.claim()  # fail now, not at the first append, if another process writes the directory
        with Lock(locking, store.database) as doors, ExitStack() as stack:
            for flag, address in listening:
                if address is not tinyq:  # TinyQ always requires a password or a token
                    listeners.refuse_unlocked(flag, address, doors, anonymous=anonymous)
            if kafka is not None:
                stack.enter_context(_kafka(store, kafka, advertise, doors))
            if http is not None:
                stack.enter_context(_http(store, http, doors, with_console=console))
            if grpc is not None:
                stack.enter_context(listeners.running("grpc", _grpc(store, grpc, doors)))
            if tinyq is not None:
                stack.enter_context(listeners.running("tinyq", _tinyq(store, tinyq, doors)))
            collect_rarely()
            stopped.wait()


@contextmanager
def _kafka(store: Store, address: ListenAddress, advertise: ListenAddress | None, doors: Lock) -> Iterator[None]:
    from penstock.broker.broker import Broker
    from penstock.broker.settings import BrokerSettings
    from penstock.operate.ports import KafkaAdministration

    settings = BrokerSettings.load()
    with closing(open_batches(store, batch_bytes=settings.batch_bytes)) as batches:
        broker = Broker(
            store,
            batches,
            KafkaAdministration(store),
            host=address.host,
            port=address.port,
            advertised=advertise,
            settings=settings,
            access=doors.access,
            access_settings=doors.settings,
            tls=doors.tls,
        )
        with listeners.running("kafka", broker):
            yield


@contextmanager
def _http(store: Store, address: ListenAddress, doors: Lock, *, with_console: bool) -> Iterator[None]:
    from penstock.gateway.application import application
    from penstock.gateway.rest.api import RestApi

    api = RestApi(store, access=doors.access)
    more = console_routes(api) if with_console else []
    app = application([Outbox(store)], worker=False, api=api, more=more)
    with listeners.http_served(app, address, doors, api=api, connections=api.settings.connections) as listening:
        click.echo(f"http listening on {listening}")
        yield


def _grpc(store: Store, address: ListenAddress, doors: Lock) -> Any:
    from penstock.gateway.grpc.door import GrpcDoor
    from penstock.gateway.grpc.listener import GrpcListener

    door = GrpcDoor(store, access=doors.access, secrets_in_plaintext=doors.settings.secrets_in_plaintext)
    return GrpcListener(door, *address, tls=doors.server_tls)


def _tinyq(store: Store, address: ListenAddress, doors: Lock) -> Any:
    from penstock.gateway.tinyq.door import TinyqDoor
    from penstock.gateway.tinyq.listener import TinyqListener

    door = TinyqDoor(store, access=doors.access, secrets_in_plaintext=doors.settings.secrets_in_plaintext)
    return TinyqListener(door, *address, tls=doors.tls)
