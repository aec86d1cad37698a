"""`Outbox`: the face that joins the rooms for one process. It hands over and calls; it has no rules."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from threading import Event
from typing import TypeVar

from penstock.backoff import PollingSettings
from penstock.clock import SYSTEM, Clock
from penstock.database.address import without_password
from penstock.database.bell_listener import flood_word, notify_others, staged_word
from penstock.database.database import Database
from penstock.database.migrations import SchemaWatch, check, migrate
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.database.url import StoreUrl
from penstock.delivery.retention_rule import RetentionSettings
from penstock.errors import InvalidInput, NoOutbox, StoreUnreachable, shown
from penstock.log.contract import Log
from penstock.log.store import Store, open_store
from penstock.logs import LoggingSettings
from penstock.membership.member import ClusterSettings
from penstock.model.connections import Tx
from penstock.model.limits import LimitsSettings
from penstock.model.outcome import HandlerAnswer
from penstock.model.retry import RetryPolicy
from penstock.model.retry_settings import RetrySettings
from penstock.outbox.adapters.driver import PublishingSettings
from penstock.outbox.bell import Bell, BellSettings
from penstock.outbox.listeners import ListenersSettings
from penstock.outbox.periodic.publisher import PeriodicPublisher
from penstock.outbox.periodic.rows import PeriodicSettings
from penstock.outbox.sequencer import SequencerSettings
from penstock.outbox.tokens import TokensSettings
from penstock.settings import Settings, check_names
from penstock.worker import runnable
from penstock.worker.calling.runner import ProcessingSettings
from penstock.worker.drain import Counts, Drain
from penstock.worker.handler_options import HandlerOptions, Match, takes_options
from penstock.worker.handlers import Handlers, listener_of
from penstock.worker.runnable import Nothing, Runnable, Several
from penstock.worker.status import WorkerHealth, joined
from penstock.worker.ticker import TickSource
from penstock.worker.worker import Worker, WorkerPlan

F = TypeVar("F", bound=Callable[..., object])
H = TypeVar("H", bound=Callable[..., HandlerAnswer | Awaitable[HandlerAnswer]])
T = TypeVar("T")
# The settings of an outbox and its services: loaded when it is created, so that a mistake shows at the start.
_SETTINGS: tuple[type[Settings], ...] = (
    BellSettings,
    ClusterSettings,
    LimitsSettings,
    ListenersSettings,
    LoggingSettings,
    PeriodicSettings,
    PollingSettings,
    ProcessingSettings,
    PublishingSettings,
    RetentionSettings,
    RetrySettings,
    SequencerSettings,
    TokensSettings,
)


class Outbox(PeriodicPublisher):
    """An outbox in one database.

    Safe to share between threads and to create before a fork: it opens no connection until a method needs
    one. `publish` uses the caller's connection and never commits it.
    """

    def __init__(
        self,
        url: StoreUrl | Store,
        *,
        prefix: str | None = None,
        schema: str | None = None,
        limits: LimitsSettings | None = None,
        clock: Clock = SYSTEM,
        listen_url: str | None = None,
        retry: RetryPolicy | None = None,
        allow_autocommit: bool = False,
    ) -> None:
        """`url`: the address of the store, an SQLAlchemy engine, or an open store with its own table names.

        `prefix`: the prefix of all table names, by default `penstock_`. `listen_url`: the address where
        workers listen when `url` leads through a pooler, by default `bell.listen_url`.

        `retry`: the policy of handlers that name none, by default that of the settings. `allow_autocommit`:
        allow single events on a connection in autocommit, each as a write of its own. Raises InvalidInput,
        InvalidUrl, InvalidName, MissingExtra.
        """
        check_names()
        for each in _SETTINGS:
            each.load()
        bell = BellSettings.load()
        if isinstance(url, Store):
            _refuse_beside_store(prefix=prefix, schema=schema, listen_url=listen_url)
            self._store = url
        else:
            self._store = open_store(
                url,
                Names(DEFAULT_PREFIX if prefix is None else prefix, schema),
                limit_seconds=ClusterSettings.load().lease_ttl.total_seconds() / 2,
                listen_url=listen_url or bell.listen_url,
                clock=clock,
            )
        database = self._store.database
        self.url = self._store.url
        super().__init__(
            database, database.names, limits or LimitsSettings.load(), clock, allow_autocommit=allow_autocommit
        )
        self._has_outbox = self._store.has_outbox
        if database.dialect.notifies and bell.enabled:
            self._bell = Bell(self._ring, self._ring_in_flood)  # else only a worker of this process hears it
        self._handlers = Handlers(self._event_types, retry=retry)
        self._workers: list[Worker] = []

    def migrate(self) -> list[str]:
        """Bring the tables up to date and return the applied migrations; none is not an error."""
        return [f"{step.version:04} {step.name}" for step in migrate(self._database)]

    def listener(self, match: Match = None, *, topic: str | None = None) -> Callable[[F], F]:
        """Call a function in this process after the commit of a transaction that published a matching event.

        Never after a rollback; best effort: its exceptions are logged and counted, and a crash may lose the
        call. `match` and the arguments are as for `handler`. Raises InvalidHandler, InvalidTopic.
        """

        def register(function: F) -> F:
            made = listener_of(function, match=match, topic=topic, types=self._event_types)
            if ListenersSettings.load().wanted:
                self._listeners.add(made)
            return function

        return register

    @takes_options
    def handler(self, options: HandlerOptions) -> Callable[[H], H]:
        """Register a function for the matching records of a topic, as part of a group.

        It takes the record, an event of a class registered by `event`, or both; with `batch`, lists of up to
        that many. `match`: a type, a prefix such as "order.*", a predicate, or None for all (of the class it
        takes, if it takes one). `group` names the cursor and must stay the same across deploys. `on_failure`:
        while a record is retried, "park" makes its key wait, "alone" lets the key continue, "dead" retries
        nothing. `on_exhausted`: "hold" keeps the key until a person decides, "release" lets it continue.
        `fallback` is called once, with the record and optionally the reason, before the record becomes a dead
        letter. `timeout` is in seconds, None for no limit; `concurrency` is the maximum of calls at once in
        this process; `rate`, over all processes, is in records per second, or "5/min". `transaction`: its
        writes and publishes through `record.tx` commit with its progress, so they take effect exactly once.
        `lanes`: "key" keeps the order of each key, "partition" that of all records of a partition, where a
        failing one makes all later ones wait. `id` names it in series, logs and listings, by default after
        its module; `aliases` are its former ids. Raises InvalidHandler, DuplicateHandler.
        """

        if options.transaction and not self._has_outbox:
            raise NoOutbox(self._database.where, "transaction=True")

        def register(function: H) -> H:
            self._handlers.declare(function, options)
            return function

        return register

    def register(self, instance: T) -> T:
        """Register the methods of an object that its class decorates with `handler`; return the object.

        In the order of their definition. Raises InvalidInput when there are none, InvalidHandler,
        DuplicateHandler.
        """
        self._handlers.add_methods(instance)
        return instance

    def drain(self) -> Counts:
        """Sequence all due events and deliver them to the handlers of this process; return the counts.

        Due ticks of its schedules are published first.

        Raises SchemaMissing, SchemaBehind, SchemaTooNew; LogMismatch, before anything is delivered; Damaged,
        once every readable record is delivered.
        """
        check(self._database)
        return Drain(self._store, self._handlers, self._clock, self._tick_source()).run()

    def run(self, *, partitions: Iterable[int] | None = None, until: Event | None = None) -> None:
        """Run a worker in this process: sequence, deliver, share the work with other workers.

        Returns after SIGTERM or Ctrl-C (in the main thread), or once `until` is set: it starts nothing more,
        waits for running handlers, settles and leaves. `partitions` pins it to some partitions. It waits for
        an unavailable database. Raises SchemaMissing and SchemaBehind at the start, and SchemaTooNew, also
        once another process has migrated to tables that this code cannot use. When calls of every group hang
        it also stops, and raises GroupsGivenUp.
        """
        with self._working(partitions, dedicated=runnable.is_main_thread()) as worker:
            runnable.run(worker, until)

    async def arun(self, *, partitions: Iterable[int] | None = None) -> None:
        """Run a worker until SIGTERM, Ctrl-C or cancellation; async handlers run in this event loop."""
        with self._working(partitions) as worker:
            await runnable.arun(worker)

    @asynccontextmanager
    async def running(self, *, partitions: Iterable[int] | None = None) -> AsyncIterator[None]:
        """Run a worker while an async block lasts; async handlers run in this event loop.

        A worker that stops on its own, as `run` would, logs the reason; the block continues.
        """
        with self._working(partitions) as worker:
            async with runnable.running(worker):
                yield

    def health(self) -> WorkerHealth:
        """Return the health of this outbox's workers in this process, without a query."""
        return joined([worker.health() for worker in list(self._workers)])

    @contextmanager
    def _working(self, partitions: Iterable[int] | None, *, dedicated: bool = False) -> Iterator[Runnable]:
        """Yield a worker that hears the publishes of this outbox, or one that does nothing.

        `dedicated`: this process does nothing else, so a record may be the cause of its death.
        """
        if not ProcessingSettings.load().enabled:
            yield Nothing()
            return
        worker = self._worker(partitions, dedicated=dedicated)
        self._workers.append(worker)
        if self._bell is None and BellSettings.load().enabled and not self._database.dialect.reports_writes:
            self._bell = Bell(self._ring, self._ring_in_flood)
        try:
            yield worker
        finally:
            self._workers.remove(worker)

    def _worker(self, partitions: Iterable[int] | None, *, dedicated: bool) -> Worker:
        schema = SchemaWatch(self._database)
        with suppress(StoreUnreachable):  # the worker waits for the store and checks then
            schema.look()
        pins = None if partitions is None else frozenset(partitions)
        return Worker(
            self._store,
            self._handlers,
            self._clock,
            WorkerPlan(pins=pins, dedicated=dedicated),
            schema=schema,
            periodic=self._tick_source(),
        )

    def _tick_source(self) -> TickSource:
        return TickSource(self._schedules, self._tick_event, self._stage)

    def _ring(self, slots: frozenset[int] | None) -> None:
        for worker in list(self._workers):
            worker.staged(slots)
        if self._database.dialect.notifies:
            notify_others(self._database, staged_word(slots))

    def _ring_in_flood(self, seconds: float) -> None:
        for worker in list(self._workers):
            worker.flooded(seconds)
        if self._database.dialect.notifies:
            notify_others(self._database, flood_word(seconds))

    @property
    def log(self) -> Log:
        """The log, for reading by hand: `outbox.log.read(topic, partition, offset)`."""
        return self._store.log

    @property
    def store(self) -> Store:
        """The log and the database; the functions of `penstock.operate` take the outbox itself."""
        return self._store

    @property
    def database(self) -> Database:
        """The database; `penstock.operate` takes it too if it holds the log."""
        return self._database

    @property
    def handlers(self) -> Handlers:
        """The registered handlers."""
        return self._handlers

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        """Open a transaction on a new connection, for programs that have none of their own."""
        with self._database.transaction(bounded=False) as tx:
            yield tx.conn

    def close(self) -> None:
        """Close the connections that Penstock has opened."""
        self._closing.set()
        self._listeners.close()
        if self._bell is not None:
            self._bell.close()
        self._store.close()


def run_together(
    outboxes: Iterable[Outbox], *, partitions: Iterable[int] | None = None, until: Event | None = None
) -> None:
    """Run a worker for each of several outboxes in this process; otherwise as `Outbox.run`."""
    pins, alike = None if partitions is None else frozenset(partitions), list(outboxes)
    dedicated = len(alike) == 1 and runnable.is_main_thread()
    with ExitStack() as stack:
        workers = [stack.enter_context(each._working(pins, dedicated=dedicated)) for each in alike]
        runnable.run(Several(workers), until)


def _refuse_beside_store(**options: str | None) -> None:
    """Refuse options for opening a store together with an open one. Raises InvalidInput."""
    for name, value in options.items():
        if value is not None:
            raise InvalidInput(
                f"Outbox(store, {name}={shown(without_password(value))}): the store was opened without it; "
                "give it to `open_store` (names as `Names(prefix, schema)`), or give the outbox a URL"
            )
