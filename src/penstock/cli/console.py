"""`penstock console`: show a store in a browser, and act on it if allowed."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.access.opening import Lock
from penstock.access.settings import AccessSettings
from penstock.database.migrations import check
from penstock.log.store import Store

from .lake import LakePath
from .listeners import ListenAddress, ListenAddressType, http_served, lock_options, refuse_unlocked
from .options import ChosenStore, attached, store_options
from .service import logging_options, set_up, stop_signal

if TYPE_CHECKING:
    from penstock.gateway.rest.api import RestApi
    from penstock.pipeline.lake.storage import Location


@click.command("console")
@store_options
@click.option(
    "--listen",
    type=ListenAddressType(),
    default="127.0.0.1:8420",
    show_default=True,
    help="Where; port 0 picks a free one. Other machines can connect only with TLS and an access file.",
)
@click.option(
    "--allow-actions",
    is_flag=True,
    help="Offer acts to visitors with the printed token, or with a name by the access file.",
)
@click.option(
    "--lake",
    type=LakePath(file_okay=False, exists=True, path_type=Path),
    help="The folder of the pipelines' tables, to show them and compare them with the log.",
)
@click.option(
    "--name",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A host name that browsers use, as behind a proxy; default: only this machine's names.",
)
@lock_options
@logging_options
def command(
    chosen: ChosenStore,
    listen: ListenAddress,
    allow_actions: bool,
    lake: "Location | None",
    hosts: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
    **lock: Any,
) -> None:
    """Show a store in a browser until it is stopped.

    It is read-only without --allow-actions. With it, it prints a token; every act is previewed and audited.
    """
    locking = AccessSettings.load(**lock)
    refuse_open_console("--listen", listen, locking)
    set_up(log_level, log_format)
    token = secrets.token_urlsafe(18) if allow_actions else None
    with attached(chosen.url, chosen.names) as store, stop_signal() as stopped:
        check(store.database)
        with Lock(locking, store.database) as doors:
            refuse_unlocked("--listen", listen, doors, anonymous=None)
            with served(store, listen, doors, token=token, hosts=hosts, lake=lake) as address:
                click.echo(f"console listening on {address}")
                if token is not None:
                    click.echo(f"actions need this token: {token}")
                stopped.wait()


def refuse_open_console(flag: str, address: ListenAddress, locking: AccessSettings) -> None:
    """Refuse to show a store to other machines without TLS and rules of access. Raises UsageError."""
    if not address.is_loopback and not (locking.tls_cert and locking.policy_file):
        raise click.UsageError(
            f"{flag} {address}: other machines can connect there and see the console; give --tls-cert, "
            "--tls-key and --access, or use 127.0.0.1 with a tunnel or a proxy before it"
        )


def console_routes(api: "RestApi") -> list[Any]:
    """Return the routes of a read-only console beside those of a gateway."""
    from penstock.console.site import ConsoleSite

    return list(ConsoleSite(api).routes())


@contextmanager
def served(
    store: Store,
    listen: ListenAddress,
    doors: Lock,
    *,
    token: str | None,
    hosts: Sequence[str],
    lake: "Location | None" = None,
) -> Iterator[str]:
    """Serve the console while the block lasts; give its address."""
    from penstock.console.site import ConsoleSite  # first: it names the extra that is missing
    from penstock.gateway.rest.api import RestApi

    from .lake import FolderLake

    api = RestApi(store, access=doors.access)
    shown = None if lake is None else FolderLake(store, lake)
    site = ConsoleSite(api, allow_actions=token is not None, token=token, lake=shown)
    app = site.application()
    scheme = "http" if doors.tls is None else "https"
    connections = api.settings.connections
    with http_served(app, listen, doors, api=api, connections=connections, names=hosts) as listening:
        yield f"{scheme}://{listening}/console/"
