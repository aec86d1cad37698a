"""`penstock demo`: a small shop on SQLite, from order to event, and the proof that the two agree."""

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

    Each order and its event are written in one transaction. Every fifth payment is declined after both were
    written, so the transaction is rolled back: neither may be left behind.
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
    placed, declined = _trade(shop, orders)
    click.echo(
        f"{orders} orders tried, one transaction each: {placed} paid, {declined} declined and rolled back"
    )
    order_ids, event_keys, events = shop.order_ids(), shop.event_keys(), shop.event_count()
    lost, phantom = order_ids - event_keys, event_keys - order_ids
    click.echo(f"events without an order (from a rollback): {len(phantom)}")
    click.echo(f"orders without an event (lost): {len(lost)}")
    shop.outbox.close()
    agrees = not lost and not phantom and len(order_ids) == placed == events
    click.echo(
        f"reconciled: committed={len(order_ids)} staged={events}" if agrees else "NOT reconciled: see above"
    )
    click.get_current_context().exit(0 if agrees else 1)


def _trade(shop: Shop, orders: int) -> tuple[int, int]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as progress:
        bar = progress.add_task("orders", total=orders)
        tally = Tally()
        for tally in shop.trade(orders):  # noqa: B007 - the last one is wanted
            progress.update(bar, advance=1)
    return tally.placed, tally.declined
