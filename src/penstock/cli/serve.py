"""`penstock serve`: let others read and write a store over the network."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from signal import Signals
from threading import Event

import click

from penstock.app import Outbox
from penstock.broker.broker import Broker
from penstock.broker.settings import BrokerSettings
from penstock.log.files.url import directory_in
from penstock.log.open_batches import open_batches
from penstock.log.sql.migrations import check, migrate
from penstock.log.sql.naming import Names
from penstock.log.sql.url import plain_url
from penstock.log.store import Store, open_store
from penstock.logs import FORMATS, LEVELS
from penstock.operate.kafka_port import KafkaAdministration
from penstock.signals import hearing

from .listen_address import ListenAddress, ListenAddressType, insecure_option, refuse_open
from .logs import set_up
from .options import store_options
from .remedies import naming_the_command

logger = logging.getLogger("penstock.serve")


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
    help="Serve /metrics, /healthz and /readyz there; port 0 picks a free one.",
)
@insecure_option
@click.option("--log-level", type=click.Choice(LEVELS), help="How much to log; else logging.level, info.")
@click.option(
    "--log-format", type=click.Choice(FORMATS), help="Log lines as text or JSON; else logging.format."
)
def command(
    url: str,
    prefix: str,
    schema: str | None,
    kafka: ListenAddress | None,
    advertise: ListenAddress | None,
    http: ListenAddress | None,
    insecure: bool,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Serve a store to Kafka clients until it is stopped.

    Prints where it listens, a line for each door. On SIGTERM or Ctrl-C it answers what is under way, sends
    its groups to another broker if there is one, and leaves. The tables of a directory are made by it; those
    of a database by `penstock migrate`.
    """
    if kafka is None:
        raise click.UsageError("say what to serve: --kafka 127.0.0.1:9092")
    for flag, address in (("--kafka", kafka), ("--http", http)):
        if address is not None:
            refuse_open(flag, address, insecure=insecure)
    set_up(log_level, log_format)
    names = Names(prefix, schema)
    settings = BrokerSettings.load()
    store = open_store(url, names)
    try:
        with naming_the_command(url, names):
            if directory_in(plain_url(url)) is not None:
                migrate(store.database)
            check(store.database)
            with _kafka(store, kafka, advertise, settings), _http(store, http):
                _wait()
    finally:
        store.close()


@contextmanager
def _kafka(
    store: Store, address: ListenAddress, advertise: ListenAddress | None, settings: BrokerSettings
) -> Iterator[None]:
    batches = open_batches(store, batch_bytes=settings.batch_bytes)
    broker = Broker(
        store,
        batches,
        KafkaAdministration(store),
        host=address.host,
        port=address.port,
        advertised=None if advertise is None else (advertise.host, advertise.port),
        settings=settings,
    )
    try:
        broker.start()
        click.echo(f"kafka listening on {broker.address}")
        yield
    finally:
        broker.stop()
        batches.close()


@contextmanager
def _http(store: Store, address: ListenAddress | None) -> Iterator[None]:
    if address is None:
        yield
        return
    from penstock import gateway
    from penstock.gateway.listener import HttpListener

    listener = HttpListener(gateway.app(Outbox(store), worker=False), *address)
    listener.open()
    listener.start()
    click.echo(f"http listening on {listener.address}")
    try:
        yield
    finally:
        listener.stop()


def _wait() -> None:
    """Wait for a signal; a second one does what it does to any program."""
    stopped = Event()

    def hear(number: Signals) -> None:
        logger.info("%s: it answers what is under way, and ends", number.name)
        stopped.set()

    with hearing(hear, once=True):
        stopped.wait()
