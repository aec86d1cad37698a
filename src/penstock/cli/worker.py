"""`penstock worker`: runs the handlers of one or more outboxes until it is stopped."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from penstock.access.opening import Lock
from penstock.access.settings import AccessSettings
from penstock.app import Outbox, run_together
from penstock.database.migrations import check

from . import listeners
from .console import console_routes, refuse_open_console
from .listeners import ListenAddress, ListenAddressType, anonymous_option, insecure_option, lock_options
from .options import naming_the_command
from .reload import run_reloading
from .service import logging_options, send_spans, set_up, stop_signal
from .target import load_a


@click.command("worker")
@click.argument("targets", metavar="MODULE:OUTBOX...", nargs=-1, required=True)
@click.option("--partitions", metavar="A-B", help="Serve only these partitions: 0-63, or 0-63,128-191.")
@logging_options
@click.option(
    "--http", type=ListenAddressType(), help="Serve /metrics, /healthz and /readyz there; port 0 picks a free one."
)
@click.option("--api", is_flag=True, help="Serve REST (/v1) there, too, for the first outbox.")
@click.option("--console", is_flag=True, help="Serve the web console there, too, read-only.")
@insecure_option
@anonymous_option
@lock_options
@click.option("--reload", is_flag=True, help="Restart when a Python file of yours changes; for development only.")
def command(
    targets: tuple[str, ...],
    partitions: str | None,
    log_level: str | None,
    log_format: str | None,
    http: ListenAddress | None,
    api: bool,
    console: bool,
    insecure: bool,
    anonymous: bool,
    reload: bool,
    **lock: Any,
) -> None:
    """Run the handlers of an outbox until it is stopped.

    MODULE:OUTBOX names the outbox in your code, such as shop:outbox; the current folder is searched too. Name several
    to serve several stores in one process. On SIGTERM or Ctrl-C it starts no more calls, waits for running ones,
    settles and leaves; a second signal does not wait. Start any number of workers, on any host: they share the work.
    """
    if api:
        listeners.refuse_without_http("--api", http)
    if console:
        listeners.refuse_without_http("--console", http)
    locking = AccessSettings.load(**lock)
    if console and http is not None:
        refuse_open_console("--http", http, locking)
    if http is not None:
        listeners.refuse_open("--http", http, insecure=insecure, encrypted=bool(locking.tls_cert))
    if reload:
        click.get_current_context().exit(run_reloading(targets))
    served = [load_a(Outbox, target, "shop:outbox") for target in targets]
    if len({id(each) for each in served}) < len(targets):
        raise click.UsageError(f"{' '.join(targets)} names an outbox twice")
    pins = None if partitions is None else _numbers(partitions)
    set_up(log_level, log_format)
    send_spans()
    # With several stores it is not known here which one lacks its tables.
    naming = naming_the_command(served[0].url, served[0].database.names) if len(served) == 1 else nullcontext()
    with (
        naming,
        stop_signal() as stopped,  # the worker itself handles signals while it runs
        _serving(served, http, locking, with_api=api, with_console=console, anonymous=anonymous),
    ):
        run_together(served, partitions=pins, until=stopped)


@contextmanager
def _serving(
    outboxes: Sequence[Outbox],
    address: ListenAddress | None,
    locking: AccessSettings,
    *,
    with_api: bool,
    with_console: bool,
    anonymous: bool,
) -> Iterator[None]:
    """Serve HTTP while the block runs: from before the workers start until they have ended."""
    if address is None:
        yield
        return
    from penstock.gateway.application import application
    from penstock.gateway.rest.api import RestApi

    database, shows = outboxes[0].database, with_api or with_console
    if shows:
        check(database)
    # Without the store, probes and metrics are served; records are not, until its rules are known.
    with Lock(locking, database, waits=not shows) as doors:
        listeners.refuse_unlocked("--http", address, doors, anonymous=anonymous)
        api = RestApi(outboxes[0].store, access=doors.access) if shows else None
        more = console_routes(api) if api is not None and with_console else []
        app = application(outboxes, worker=True, api=api if with_api else None, more=more)
        with listeners.http_served(app, address, doors, api=api) as listening:
            click.echo(f"http listening on {listening}")
            yield


def _numbers(text: str) -> list[int]:
    """Return the numbers in ranges such as `0-63,128`."""
    numbers: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or (dash and int(high) < int(low)):
            raise click.BadParameter(f"{part!r} is not a range such as 0-63", param_hint="--partitions")
        numbers.update(range(int(low), int(high or low) + 1))
    return sorted(numbers)
