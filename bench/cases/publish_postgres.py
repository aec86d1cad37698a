"""One business row and one event a transaction, beside the same two INSERTs by hand, and the row alone.

Eight processes with a connection each, fsync on, the sequencing service beside them in a process of its own.
Two measures are held against the bound: the wall time per transaction over all eight (`wall_us`), and the CPU
of the clients and of the server processes that work for them (`transaction_cpu_us`). On a machine with few
cores `wall_us` also holds what the sequencing service takes from the clients; on a shared one it is noise.

The life of an event: staged in a transaction of its own, moved, deleted from the log in bounded steps as
retention does, both tables vacuumed. Write-ahead log and database CPU are those of the whole server.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from time import perf_counter, sleep

from bench import Case, Extra, NotMeasured, Ratio, Run, Size, Target, Variant
from bench.processes import ProcessTree
from bench.stores.clients import SCHEMA, Clients, clients
from bench.stores.mover import count_staged
from bench.stores.postgres import PostgresEngine, PostgresStore, postgres
from bench.stores.service_process import ServiceProcess, service_process

CONNECTIONS = 8
_RETENTION = (
    "DELETE FROM penstock_log WHERE ctid IN (SELECT ctid FROM penstock_log ORDER BY"
    ' topic_id, partition, "offset" LIMIT 10000)'
)
_LONGEST_SECONDS = 120
_OVER_BARE, _OVER_ROW = 1.08, 1.5
_SECOND = "a bare INSERT of a second row takes 1.4 times the row alone"


@dataclass
class Shop:
    """A store with eight clients at work and the service beside them, for the whole case."""

    engine: PostgresEngine
    store: PostgresStore
    clients: Clients
    service: ServiceProcess

    def wait_until_moved(self) -> None:
        """Wait until nothing is staged."""
        end = perf_counter() + _LONGEST_SECONDS
        with closing(self.store.connect(autocommit=True)) as conn:
            while count_staged(conn):
                if perf_counter() > end:
                    raise NotMeasured("the sequencing service does not come to an end")
                sleep(0.05)


@contextmanager
def shop(run: Run) -> Iterator[Shop]:
    """Open the shop."""
    engine = run.once(postgres)
    store = engine.create()
    with closing(store.connect()) as conn:
        conn.execute(SCHEMA)
        conn.commit()
    with clients(store.url, CONNECTIONS) as running, service_process(store.url) as service:
        service.begin()
        yield Shop(engine, store, running, service)


@contextmanager
def quiet(run: Run) -> Iterator[Shop]:
    """Give the shop when nothing is left to move."""
    here = run.once(shop)
    here.wait_until_moved()
    here.clients.watch(run)
    run.watch("sequencer", here.service.pid)
    here.engine.watch(run)
    yield here
    here.wait_until_moved()


def row(run: Run, shop: Shop) -> Extra:
    """The business row alone."""
    return shop.clients.work("row", run.records)


def row_and_insert(run: Run, shop: Shop) -> Extra:
    """The business row and the staged row by the bare driver: what no library can go below."""
    return shop.clients.work("row and bare insert", run.records)


def row_and_event(run: Run, shop: Shop) -> Extra:
    """The business row and one event about it."""
    return shop.clients.work("row and event", run.records)


def life(run: Run, shop: Shop) -> Extra:
    """An event from publish to retention."""
    server = ProcessTree("postgres", shop.engine.pid)
    wal, cpu = shop.engine.wal_bytes(), server.cpu_seconds() or 0.0
    cost = shop.clients.work("event", run.records)
    shop.wait_until_moved()
    with closing(shop.store.connect(autocommit=True)) as conn:
        while conn.execute(_RETENTION).rowcount:
            pass
        conn.execute("VACUUM penstock_staged, penstock_log")
    done = cost["records"]
    return cost | {
        "life_wal_bytes": (shop.engine.wal_bytes() - wal) / done,
        "life_database_cpu_us": ((server.cpu_seconds() or 0.0) - cpu) / done * 1e6,
    }


_PYTHON = "publish takes 33-42 us of Python, the bell's thread 5-12 us; the statement itself is no dearer"

CASE = Case(
    name="publish_postgres",
    about="a transaction with an event beside one without, eight connections, PostgreSQL",
    records=Size(quick=8_000, full=40_000),
    variants=[
        Variant("row and event", row_and_event, setup=quiet),
        Variant("row and bare INSERT", row_and_insert, setup=quiet),
        Variant("row alone", row, setup=quiet),
        Variant("an event's life", life, setup=quiet),
    ],
    targets=[
        Target(
            "wall_over_bare",
            Ratio("row and event", "row and bare INSERT", "wall_us"),
            at_most=_OVER_BARE,
            cause=_PYTHON,
        ),
        Target(
            "cpu_over_bare",
            Ratio("row and event", "row and bare INSERT", "transaction_cpu_us"),
            at_most=_OVER_BARE,
            cause=_PYTHON,
        ),
        # What any outbox in the same transaction costs: most of it is the INSERT itself.
        Target("wall", Ratio("row and event", "row alone", "wall_us"), at_most=_OVER_ROW, cause=_SECOND),
        Target("cpu", Ratio("row and event", "row alone", "transaction_cpu_us"), at_most=_OVER_ROW, cause=_SECOND),
    ],
)
