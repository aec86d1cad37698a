"""`penstock demo`: a small shop on SQLite, from order to handler, and the proof that the two agree."""

import sys
import tempfile
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from penstock.testing.shop import Shop, Tally


@click.command("demo")
@click.option(
    "--orders", type=click.IntRange(1, 1_000_000), default=500, show_default=True, help="Orders to try."
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the shop's database in this folder (default: a temporary one, removed at the end).",
)
def command(orders: int, folder: Path | None) -> None:
    """Run a small shop on SQLite and show that nothing is lost.

    Each order and its event are written in one transaction. Every fifth payment is declined after both
    were written, so the transaction is rolled back: neither may be left behind. Then the events are
    sequenced into the log and handed to two groups of handlers.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        _run(folder / "shop.db", orders)
        return
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as temporary:
        _run(Path(temporary) / "shop.db", orders)


def _run(path: Path, orders: int) -> None:
    if path.exists():
        raise click.UsageError(f"{path} is there already; remove it or name another --dir")
    click.echo(f"a shop opens, its orders and its outbox in one SQLite file: {path}")
    shop = Shop(path)
    tally = _trade(shop, orders)
    click.echo(f"{orders} orders, one transaction each: {tally.placed} paid, {tally.declined} rolled back")
    counts = shop.deliver()
    click.echo(f"the sequencer gave {counts.sequenced} events their offsets in the log")
    click.echo(f"two groups read it, each with its own cursor: {counts.delivered} deliveries")
    for customer, cents in shop.revenue_cents.most_common(3):
        click.echo(f"  {customer:<10} {cents / 100:>10.2f}")
    agrees = _reconcile(shop)
    shop.outbox.close()
    click.get_current_context().exit(0 if agrees else 1)


def _trade(shop: Shop, orders: int) -> Tally:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as progress:
        bar = progress.add_task("orders", total=orders)
        tally = Tally()
        for tally in shop.trade(orders):  # noqa: B007 - the last one is wanted
            progress.update(bar, advance=1)
    return tally


def _reconcile(shop: Shop) -> bool:
    """Compare the shop's own orders with the log and with what the mailer got; each must be there once."""
    orders, logged, mailed = shop.order_ids(), shop.logged_ids(), shop.mailed
    lost, phantom = orders - set(logged), set(logged) - orders
    click.echo(f"orders without an event (lost): {len(lost)}")
    click.echo(f"events without an order (from a rollback): {len(phantom)}")
    agrees = sorted(orders) == sorted(filter(None, logged)) == sorted(mailed.elements())
    word = "reconciled" if agrees else "NOT reconciled"
    click.echo(f"{word}: committed={len(orders)} logged={len(logged)} delivered={mailed.total()}")
    return agrees
