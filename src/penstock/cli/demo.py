"""`penstock demo`: a small shop on SQLite, from order to handler, and the proof that the two agree."""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from threading import Event

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from penstock.clock import SYSTEM
from penstock.errors import MissingExtra, PipelineError
from penstock.log.store import open_store
from penstock.operate.dead import DeadSelection, dead_letters, requeue
from penstock.operate.why import why
from penstock.testing.shop import POISON, Shop, ShopBroker, ShopWorker, Tally

from .demo_service import serve as keep_open

_LONGEST_WAIT_SECONDS = 120.0
_READ_SECONDS = 60


@click.command("demo")
@click.option("--orders", type=click.IntRange(1, 1_000_000), default=500, show_default=True, help="Orders to try.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the shop's database in this folder (default: a temporary one, removed at the end).",
)
@click.option("--lake/--no-lake", default=True, show_default=True, help="Copy the events into Delta tables with Spark.")
@click.option(
    "--broker/--no-broker",
    default=True,
    show_default=True,
    help="Let a Kafka client read the same topic, through a broker of ours.",
)
@click.option("--serve", is_flag=True, help="Keep the shop and its console running at the end, until Ctrl-C.")
def command(orders: int, folder: Path | None, lake: bool, broker: bool, serve: bool) -> None:
    """Run a small shop on SQLite and show that nothing is lost.

    Each order and its event are written in one transaction. Every fifth payment is declined after both were
    written, so the transaction is rolled back: neither may be left behind. Two worker processes deliver the
    events to two groups of handlers; one of them is killed on the way, and one order cannot be mailed. Then a
    Kafka client reads the same topic, and Spark writes the events into Delta tables, and the revenue per
    minute into another. Steps that this machine cannot run are skipped, with the reason.
    """
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise click.UsageError(f"{folder} cannot be made ({exc.strerror}); name another --dir") from None
    with nullcontext(folder) if folder else tempfile.TemporaryDirectory(prefix="penstock-demo-") as home:
        _run(Path(home) / "shop.db", orders, lake=lake, broker=broker, serve=serve)


def _run(path: Path, orders: int, *, lake: bool, broker: bool, serve: bool) -> None:
    if path.exists():
        raise click.UsageError(f"{path} is there already; name another --dir")
    click.echo(f"a shop opens, its orders and its outbox in one SQLite file: {path}")
    shop = Shop(path)
    workers = [ShopWorker(path), ShopWorker(path)]
    try:
        click.echo(f"two workers serve it, each a process of its own: {workers[0].pid} and {workers[1].pid}")
        tally = _trade(shop, orders, workers[1])
        click.echo(f"{orders} orders, one transaction each: {tally.placed} paid, {tally.declined} rolled back")
        click.echo(f"worker {workers[1].pid} was killed (kill -9) in the middle of it; the other went on")
        _deliver(shop)
    finally:
        for worker in workers:
            worker.stop()
    click.echo(f"mails sent again after the kill, each marked as perhaps sent before: {shop.repeated()}")
    for customer, cents in shop.revenue_cents().most_common(3):
        click.echo(f"  {customer:<10} {cents / 100:>10.2f}")
    read = _read_by_kafka(shop) if broker else None
    table = _lake(shop, path.parent / "lake") if lake else None
    agrees = _reconcile(shop, read, table)
    if serve:
        tables = None if table is None else path.parent / "lake" / "events"
        keep_open(shop, orders + 1, with_broker=read is not None, lake=tables)
    shop.outbox.close()
    click.get_current_context().exit(0 if agrees else 1)


def _trade(shop: Shop, orders: int, victim: ShopWorker) -> Tally:
    """Place the orders while both workers run; kill one of them half way."""
    with _bar("orders", orders) as advance:
        tally = Tally()
        for number, tally in enumerate(shop.trade(orders), 1):  # noqa: B007 - the last one is wanted
            advance(number)
            if number == (orders + 1) // 2:
                _wait(lambda: shop.mailed().total() > 0 or not shop.order_ids() - {POISON})
                victim.kill()
    return tally


def _deliver(shop: Shop) -> None:
    """Wait until both groups have handled all they can, then fix the failing order and requeue it."""
    orders = shop.order_ids()
    with _bar("mails", len(orders)) as advance:

        def all_mailed() -> bool:
            mailed = shop.mailed()
            advance(len(mailed))
            return mailed.keys() >= orders - {POISON}

        _wait(all_mailed)
    if POISON not in orders:
        _wait(lambda: shop.booked() >= orders)
        return
    with closing(open_store(shop.outbox.url)) as store:
        _wait(lambda: dead_letters(store, group="mailer").items)
        for each in dead_letters(store, group="mailer").items:
            click.echo(f"order {each.key} failed {each.failures} times and is a dead letter; the rest flows")
        for answer in why(store, POISON, group="mailer"):
            click.echo(f"  $ penstock why {POISON}\n  {answer.sentence}")
        click.echo(f"  its address is put right, and it is requeued: {POISON}")
        shop.put_right(POISON)
        requeue(store, DeadSelection(group="mailer", key=POISON))
        _wait(lambda: shop.mailed().keys() >= orders and shop.booked() >= orders)


def _wait(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; after the longest wait, the counts at the end show what is missing."""
    pause, end = Event(), SYSTEM.monotonic() + _LONGEST_WAIT_SECONDS
    while not condition() and SYSTEM.monotonic() < end:
        pause.wait(0.02)


@contextmanager
def _bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that updates a progress bar, on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as progress:
        bar = progress.add_task(name, total=total)
        yield lambda done: progress.update(bar, completed=done)


def _read_by_kafka(shop: Shop) -> list[str] | None:
    """Let a Kafka client read the topic; return the keys it read. Without the extra, print the reason."""
    try:
        import aiokafka  # noqa: F401 - the broker is started only if it can be read
    except ImportError:
        click.echo(f"the Kafka client is left out: {MissingExtra('it', 'kafka')}")
        return None
    broker = ShopBroker(shop.path)
    try:
        if not broker.address:
            click.echo("the Kafka client is left out: the broker ended before it listened")
            return None
        click.echo(f"a broker serves the same topic to Kafka clients, on {broker.address}")
        keys = read_topic(broker.address, "events", "kafka-client")
    finally:
        broker.stop()
    click.echo(f"  a Kafka client (aiokafka, as it comes) has read it as a group: {len(keys)} records")
    return keys


def read_topic(address: str, topic: str, group: str) -> list[str]:
    """Read a topic to its end as a new group, by a client that knows nothing of Penstock; return the keys in order."""
    return asyncio.run(asyncio.wait_for(_read(address, topic, group), _READ_SECONDS))


async def _read(address: str, topic: str, group: str) -> list[str]:
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest")
    keys: list[str] = []
    await consumer.start()
    try:
        parts = [aiokafka.TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic) or ()]
        ends = await consumer.end_offsets(parts)
        places: dict[tuple[str, int], int] = {}
        while any(places.get((each.topic, each.partition), 0) < end for each, end in ends.items()):
            for part, records in (await consumer.getmany(timeout_ms=500)).items():
                keys += [record.key.decode() for record in records]
                places[part.topic, part.partition] = records[-1].offset + 1
        await consumer.commit()
    finally:
        await consumer.stop()
    return keys


def _lake(shop: Shop, folder: Path) -> int | None:
    """Write the events into tables with Spark; return the tables' row count. Without Spark, print the reason."""
    try:
        from .demo_lake import DemoLake

        click.echo("Spark starts; it takes the log into Delta tables, each record once")
        lake = DemoLake(shop.outbox.url, folder)
    except (ImportError, MissingExtra, PipelineError) as exc:
        why = MissingExtra("the lake", "spark") if isinstance(exc, ImportError) else exc
        click.echo(f"the lake is left out: {why}")
        return None
    with closing(lake):
        rows = lake.fill()
        click.echo(f"  {rows} rows in {folder / 'events'}")
        minutes = lake.revenue()
    click.echo("revenue of each minute, by Spark, in windows of event time (the last ones are still open):")
    most = max((cents for _, cents in minutes), default=1)
    for minute, cents in minutes:
        click.echo(f"  {minute}  {cents / 100:>9.2f}  {'█' * max(1, round(cents / most * 40))}")
    return rows


def _reconcile(shop: Shop, read: list[str] | None, table: int | None) -> bool:
    """Compare the shop's own orders with the log, with each reader's records and with the tables."""
    orders, logged, mailed = shop.order_ids(), shop.logged_ids(), shop.mailed()
    lost, phantom = orders - set(logged), set(logged) - orders
    click.echo(f"orders without an event (lost): {len(lost)}")
    click.echo(f"events without an order (from a rollback): {len(phantom)}")
    agrees = sorted(orders) == sorted(filter(None, logged)) == sorted(mailed)
    counts = {"committed": len(orders), "logged": len(logged), "delivered": len(mailed)}
    if read is not None:
        agrees = agrees and sorted(read) == sorted(orders)
        counts["kafka"] = len(read)
    if table is not None:
        agrees = agrees and table == len(orders)
        counts["table"] = table
    word = "reconciled" if agrees else "NOT reconciled"
    click.echo(f"{word}: " + " ".join(f"{name}={count}" for name, count in counts.items()))
    return agrees
