"""Retention at work: what it costs the publishers beside it, and what it costs by itself.

Eight clients publish while a pass follows a pass over old records of another topic, as fast as it can; held
against the same clients alone. The measure is the CPU of the clients and of the server processes that work
for them (`transaction_cpu_us`): what they pay, not what retention pays. Then the cost of a deleted record,
from a short log and from a long one: it must not grow with what is there.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from bench import Case, Extra, NotMeasured, Ratio, Run, Size, Target, Variant
from bench.cases.publish_postgres import Shop, quiet
from penstock.clock import SYSTEM
from penstock.delivery.retention import Retention
from penstock.delivery.retention_rule import RetentionSettings
from penstock.log.store import store_of

TOPIC, PARTITIONS = "old", 256
SHORT = Size(quick=20_000, full=50_000)
LONG = Size(quick=200_000, full=1_000_000)
_BACKLOG = 100_000
_FILL = (
    'INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, timestamp_ms)'
    " SELECT h.topic_id, h.partition, h.next_offset + n, 'id-' || h.partition || '-' || n,"
    " convert_to('k', 'UTF8'), 't', convert_to(repeat('x', 200), 'UTF8'), 0"
    " FROM penstock_head h JOIN penstock_topic t ON t.id = h.topic_id CROSS JOIN generate_series(0, %s) AS n"
    " WHERE t.name = %s"
)
_RAISE = (
    "UPDATE penstock_head h SET next_offset = next_offset + %s FROM penstock_topic t"
    " WHERE t.id = h.topic_id AND t.name = %s"
)


@dataclass
class Old:
    """A shop whose store has a topic of old records, and its retention."""

    shop: Shop
    retention: Retention

    def fill(self, records: int) -> None:
        """Add old records, the same number to each partition."""
        each = max(1, records // PARTITIONS)
        with closing(self.shop.store.connect()) as conn:
            conn.execute(_FILL, (each - 1, TOPIC))
            conn.execute(_RAISE, (each, TOPIC))
            conn.commit()
        self.shop.store.tidy()

    def empty(self) -> int:
        """Delete all of them; return how many."""
        deleted = 0
        while True:
            done = self.retention.run(TOPIC)
            deleted += done.count
            if not done.full:
                return deleted


@contextmanager
def old(run: Run) -> Iterator[Old]:
    """Give the quiet shop and its retention, with nothing to delete yet."""
    with quiet(run) as shop, closing(shop.store.database()) as database:
        shop.store.outbox.log.create_topic(TOPIC, partitions=PARTITIONS)
        yield Old(shop, Retention(store_of(database), RetentionSettings.load(), SYSTEM))
        shop.store.outbox.close()


@contextmanager
def with_old(run: Run) -> Iterator[Old]:
    """The same, with as many old records as the variant deletes."""
    with old(run) as here:
        here.fill(run.records)
        yield here


def alone(run: Run, here: Old) -> Extra:
    """Publish, with the old records there and nobody deleting them."""
    return here.shop.clients.work("row and event", run.records)


def beside(run: Run, here: Old) -> Extra:
    """Publish while they are deleted."""
    ended, deleted = Event(), [0]

    def delete() -> None:
        while not ended.is_set():
            deleted[0] += here.retention.run(TOPIC).count

    thread = Thread(target=delete)
    thread.start()
    cost = here.shop.clients.work("row and event", run.records)
    ended.set()
    thread.join()
    if deleted[0] < cost["records"]:
        raise NotMeasured(f"only {deleted[0]} records were deleted beside {cost['records']} published")
    return cost | {"deleted": deleted[0]}


def delete(run: Run, here: Old) -> Extra:
    """Delete all that is old."""
    return {"records": here.empty()}


@contextmanager
def busy(run: Run) -> Iterator[Old]:
    """Give the shop with enough to delete for the whole time."""
    with old(run) as here:
        here.fill(max(_BACKLOG, 10 * run.records))
        yield here
        here.empty()


CASE = Case(
    name="retention",
    about="publishing beside retention, and the cost of a deleted record, PostgreSQL",
    records=Size(quick=8_000, full=40_000),
    variants=[
        Variant("publish alone", alone, setup=busy),
        Variant("publish beside retention", beside, setup=busy),
        Variant("delete from a short log", delete, setup=with_old, records=SHORT),
        Variant("delete from a long log", delete, setup=with_old, records=LONG),
    ],
    targets=[
        Target("publish", Ratio("publish beside retention", "publish alone", "transaction_cpu_us"), at_most=1.15),
        Target("flat", Ratio("delete from a long log", "delete from a short log", "cpu_us"), at_most=1.5),
    ],
)
