"""Workers under test: in this process with short leases, and what they have handled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg

from penstock import Record
from penstock.backoff import PollingSettings
from penstock.clock import SYSTEM, Clock
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.log.store import store_of
from penstock.membership.member import ClusterSettings
from penstock.worker.calling.runner import ProcessingSettings
from penstock.worker.handler_options import HandlerOptions
from penstock.worker.handlers import Handlers
from penstock.worker.worker import Worker, WorkerPlan
from tests.crash.store import Store
from tests.regressions.ledger import named, open_ledger

TOPIC, PARTITIONS = "shop", 16
KEYS = [f"k-{number}" for number in range(40)]
_END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
_EMPTY = """
DO $$
DECLARE emptied text;
BEGIN
    SELECT string_agg(quote_ident(tablename), ', ') INTO emptied FROM pg_tables
    WHERE schemaname = current_schema()
      AND tablename NOT IN ('penstock_meta', 'penstock_topic', 'penstock_head', 'penstock_slot', 'counter');
    EXECUTE 'TRUNCATE ' || emptied || ' RESTART IDENTITY';
    UPDATE penstock_head SET start_offset = 0, next_offset = 0, max_ms = 0;
    UPDATE penstock_slot SET owner = NULL, owner_wanted = NULL, epoch = 0;
    UPDATE counter SET version = 0;
END $$
"""
LEASE, BEAT = timedelta(seconds=2), timedelta(seconds=0.3)  # of a member whose lease shall end
STEADY = timedelta(seconds=60)  # of one that shall keep it, though the machine holds it up


class Handled(NamedTuple):
    """One call of a handler."""

    who: str
    partition: int
    offset: int
    key: str
    version: int
    redelivered: bool


class Diary(list[Handled]):
    """What the workers of this process have handled."""

    def handler(self, who: str, also: Callable[[Record], Any] | None = None) -> Callable[[Record], Any]:
        """Return a handler that notes what it is given, and then does something else too."""

        def handle(record: Record) -> Any:
            self.append(handled(who, record))
            return None if also is None else also(record)

        return handle

    def twice(self) -> dict[tuple[int, int], int]:
        """Return the places that were handled more than once."""
        counts = Counter((each.partition, each.offset) for each in list(self))
        return {place: count for place, count in counts.items() if count > 1}

    def by(self, who: str) -> int:
        """Return how many one of them has handled."""
        return sum(each.who == who for each in list(self))

    def places(self) -> set[tuple[int, int]]:
        """Return the places that were handled."""
        return {(each.partition, each.offset) for each in list(self)}

    def inversions(self) -> list[Handled]:
        """Return each call for a version of a key that was older than one before it."""
        last: dict[str, int] = {}
        found = []
        for each in list(self):
            if each.version < last.get(each.key, 0):
                found.append(each)
            last[each.key] = max(each.version, last.get(each.key, 0))
        return found


def handled(who: str, record: Record) -> Handled:
    """Return what is worth noting of a record."""
    assert record.partition is not None
    assert record.offset is not None
    assert record.key is not None
    version = record.value["version"]
    return Handled(who, record.partition, record.offset, record.key, version, record.redelivered)


def prepare(url: str) -> None:
    """Prepare a database on PostgreSQL with one topic and a ledger."""
    with closing(Store(url)) as store:
        store.prepare(topics={TOPIC: PARTITIONS}, keys=KEYS)
        open_ledger(store)


def empty(url: str) -> None:
    """End every other session and take out what the test before has left: cheaper than a new database."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_END_SESSIONS)
        conn.execute(_EMPTY)


def cluster(lease: timedelta = LEASE, beat: timedelta = BEAT) -> ClusterSettings:
    """Return settings by which members find one another quickly."""
    return ClusterSettings.load(
        lease_ttl=lease, heartbeat_interval=beat, rebalance_interval=beat, gather_joins=timedelta()
    )


@contextmanager
def a_worker(
    url: str,
    who: str,
    handler: Callable[[Record], Any],
    *,
    lease: timedelta = STEADY,
    beat: timedelta = BEAT,
    concurrency: int = 8,
    clock: Clock = SYSTEM,
    **options: Any,
) -> Iterator[Worker]:
    """Give a worker that is not started yet; in the end it is stopped."""
    handlers = Handlers()
    asked: dict[str, Any] = {"group": "reader", "id": "reader", "topic": TOPIC}
    handlers.add(handler, HandlerOptions(**asked | options))
    limit = lease.total_seconds() / 2
    with closing(open_database(named(url, who), Names(), limit_seconds=limit)) as database:
        worker = Worker(
            store_of(database),
            handlers,
            clock,
            WorkerPlan(
                cluster=cluster(lease, beat),
                polling=PollingSettings.load(shortest_seconds=0.005, longest_seconds=0.1),
                processing=ProcessingSettings.load(concurrency=concurrency),
            ),
        )
        try:
            yield worker
        finally:
            worker.stop(0.0)


def owned(store: Store, member: str) -> int:
    """Return how many partitions a member owns."""
    return int(store.rows("SELECT count(*) FROM penstock_cursor WHERE owner = ?", member)[0][0])


def epochs(store: Store) -> list[tuple[Any, ...]]:
    """Return the epochs of all slots and all cursors: each change of hands raises one."""
    slots = store.rows("SELECT slot, epoch FROM penstock_slot ORDER BY 1")
    return slots + store.rows("SELECT partition, epoch FROM penstock_cursor ORDER BY group_id, 1")


def unsettled(store: Store) -> int:
    """Return how many records are staged, or in the log and not passed by the group without a gap."""
    behind = (
        'SELECT coalesce(sum(h.next_offset - coalesce(c."offset", 0)), 0) FROM penstock_head h '
        "LEFT JOIN penstock_cursor c ON c.topic_id = h.topic_id AND c.partition = h.partition"
    )
    return store.waiting() + int(store.rows(behind)[0][0])
