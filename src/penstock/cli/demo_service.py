"""`penstock demo --serve`: keeps the shop and its console running until they are stopped."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import click

from penstock.access.opening import Lock
from penstock.access.settings import AccessSettings
from penstock.errors import AddressRefused, MissingExtra
from penstock.log.store import Store, open_store
from penstock.testing.shop import Shop, ShopBroker, ShopWorker

from .console import served
from .listeners import ListenAddress
from .service import stop_signal

_CONSOLE_PORT = 8420
_BETWEEN_ORDERS_SECONDS = 0.2
_WRONG_EVERY, _PUT_RIGHT_AFTER = 40, 25


def serve(shop: Shop, first: int, *, with_broker: bool, lake: Path | None) -> None:
    """Keep the shop open, with two workers, until it is stopped; `first`: the number of its next order.

    One order in forty has a wrong address, which is corrected after a while: once requeued, its mail goes
    out. `lake`: a folder of tables for the console to show.
    """
    store = open_store(shop.outbox.url)
    with ExitStack() as stack:
        stack.callback(store.close)
        stopped = stack.enter_context(stop_signal())
        for _ in range(2):
            stack.callback(ShopWorker(shop.path).stop)
        if with_broker:
            broker = ShopBroker(shop.path)
            stack.callback(broker.stop)
            click.echo(f"Kafka clients can read the topic events at {broker.address or '(it has ended)'}")
        try:
            address, token = stack.enter_context(_console(store, lake))
        except (ImportError, MissingExtra) as exc:
            missing = MissingExtra("the console", "console") if isinstance(exc, ImportError) else exc
            click.echo(f"the console is left out: {missing}")
        else:
            click.echo(f"actions need this token: {token}")
            click.echo(f"console listening on {address}")
        click.echo("the shop stays open and takes orders; Ctrl-C closes it")
        _trade(shop, first, stopped)
    click.echo("closed")


@contextmanager
def _console(store: Store, lake: Path | None) -> Iterator[tuple[str, str]]:
    """Serve the console on its default port, or on a free one; yield its address and token."""
    token = secrets.token_urlsafe(18)
    with Lock(AccessSettings(), store.database) as doors, ExitStack() as stack:
        show = partial(served, store, doors=doors, token=token, hosts=(), lake=lake)
        try:
            address = stack.enter_context(show(ListenAddress("127.0.0.1", _CONSOLE_PORT)))
        except AddressRefused:
            address = stack.enter_context(show(ListenAddress("127.0.0.1", 0)))
        yield address, token


class _Wrong:
    """The endless set of orders whose address is wrong."""

    def __contains__(self, order_id: object) -> bool:
        return int(str(order_id).removeprefix("o-")) % _WRONG_EVERY == 1


def _trade(shop: Shop, first: int, stopped: Event) -> None:
    for number, _ in enumerate(shop.trade(10**9, first=first, wrong=_Wrong()), first):
        if number % _WRONG_EVERY == 1 + _PUT_RIGHT_AFTER:
            shop.put_right(f"o-{number - _PUT_RIGHT_AFTER}")
        if stopped.wait(_BETWEEN_ORDERS_SECONDS):
            return
