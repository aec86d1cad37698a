"""`penstock serve`: serves a store over the network."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from penstock.access.opening import Lock
from penstock.app import Outbox
from penstock.broker.process import collect_rarely
from penstock.database.migrations import check, migrate
from penstock.database.url import plain_url
from penstock.log.files.url import directory_in
from penstock.log.store import Store, open_batches, open_store

from .console import console_routes, refuse_open_console
from .listeners import (
    ListenAddress,
    ListenAddressType,
    anonymous_option,
    http_served,
    insecure_option,
    lock_options,
    lock_settings,
    refuse_open,
    refuse_unlocked,
    refuse_without_http,
)
from .options import ChosenStore, naming_the_command, refuse_memory, store_options
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
        refuse_without_http("--console", http)
    if kafka is None and http is None and grpc is None and tinyq is None:
        raise click.UsageError(
            "give an address: --kafka 127.0.0.1:9092, --http 127.0.0.1:8420, --grpc 127.0.0.1:8421 or "
            "--tinyq 127.0.0.1:25131"
        )
    locking = lock_settings(lock)
    if console and http is not None:
        refuse_open_console("--http", http, locking)
    given = (("--kafka", kafka), ("--http", http), ("--grpc", grpc), ("--tinyq", tinyq))
    listening = [(flag, address) for flag, address in given if address is not None]
    for flag, address in listening:
        refuse_open(flag, address, insecure=insecure, encrypted=bool(locking.tls_cert))
    set_up(log_level, log_format)
    send_spans()
    refuse_memory(chosen.url)
    store = open_store(chosen.url, chosen.names)
    try:
        with naming_the_command(chosen.url, chosen.names), stop_signal() as stopped:
            if directory_in(plain_url(chosen.url)) is not None:
                migrate(store.database)
            check(store.database)
            store.log.claim()  # fail now, not at the first append, if another process writes the directory
            with Lock(locking, store.database) as doors:
                for flag, address in listening:
                    if address is not tinyq:  # TinyQ always requires a password or a token
                        refuse_unlocked(flag, address, doors, anonymous=anonymous)
                with (
                    _kafka(store, kafka, advertise, doors),
                    _http(store, http, doors, with_console=console),
                    _grpc(store, grpc, doors),
                    _tinyq(store, tinyq, doors),
                ):
                    collect_rarely()
                    stopped.wait()
    finally:
        store.close()


@contextmanager
def _kafka(store: Store, address: ListenAddress | None, advertise: ListenAddress | None, doors: Lock) -> Iterator[None]:
    if address is None:
        yield
        return
    from penstock.broker.broker import Broker
    from penstock.broker.settings import BrokerSettings
    from penstock.operate.kafka_port import KafkaAdministration

    settings = BrokerSettings.load()
    batches = open_batches(store, batch_bytes=settings.batch_bytes)
    broker = Broker(
        store,
        batches,
        KafkaAdministration(store),
        host=address.host,
        port=address.port,
        advertised=None if advertise is None else (advertise.host, advertise.port),
        settings=settings,
        access=doors.access,
        access_settings=doors.settings,
        tls=doors.tls,
    )
    try:
        broker.start()
        click.echo(f"kafka listening on {broker.address}")
        yield
    finally:
        broker.stop()
        batches.close()


@contextmanager
def _http(store: Store, address: ListenAddress | None, doors: Lock, *, with_console: bool) -> Iterator[None]:
    if address is None:
        yield
        return
    from penstock.gateway.application import application
    from penstock.gateway.rest.api import RestApi

    api = RestApi(store, access=doors.access)
    more = console_routes(api) if with_console else []
    app = application([Outbox(store)], worker=False, api=api, more=more)
    with http_served(app, address, doors, api=api, connections=api.settings.connections) as listening:
        click.echo(f"http listening on {listening}")
        yield


@contextmanager
def _grpc(store: Store, address: ListenAddress | None, doors: Lock) -> Iterator[None]:
    if address is None:
        yield
        return
    from penstock.gateway.grpc.door import GrpcDoor
    from penstock.gateway.grpc.listener import GrpcListener

    plaintext = doors.settings.secrets_in_plaintext
    door = GrpcDoor(store, access=doors.access, secrets_in_plaintext=plaintext)
    listener = GrpcListener(door, *address, tls=doors.server_tls)
    listener.start()
    click.echo(f"grpc listening on {listener.address}")
    try:
        yield
    finally:
        listener.stop()


@contextmanager
def _tinyq(store: Store, address: ListenAddress | None, doors: Lock) -> Iterator[None]:
    if address is None:
        yield
        return
    from penstock.gateway.tinyq.door import TinyqDoor
    from penstock.gateway.tinyq.listener import TinyqListener

    plaintext = doors.settings.secrets_in_plaintext
    door = TinyqDoor(store, access=doors.access, secrets_in_plaintext=plaintext)
    listener = TinyqListener(door, *address, tls=doors.tls)
    listener.open()
    listener.start()
    click.echo(f"tinyq listening on {listener.address}")
    try:
        yield
    finally:
        listener.stop()
