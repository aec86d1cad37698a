"""`Outbox`: the face that joins the rooms for one process. It hands over and calls; it has no rules."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime, timedelta
from operator import attrgetter
from threading import Event
from typing import Any, TypeVar, overload

from penstock import metrics, tracing
from penstock.clock import SYSTEM, Clock
from penstock.errors import StoreUnreachable
from penstock.log.sql.dialects import open_database
from penstock.log.sql.log import SqlLog
from penstock.log.sql.migrations import check, migrate
from penstock.log.sql.naming import DEFAULT_PREFIX, Names
from penstock.membership.member import ClusterSettings
from penstock.model.event_types import EventTypes, HeadersOf, KeyOf
from penstock.model.limits import Headers, LimitsSettings
from penstock.model.record import Record
from penstock.model.retry import RetryPolicy
from penstock.model.retry_settings import RetrySettings
from penstock.outbox.adapters import adapter_for, async_adapter_for
from penstock.outbox.bell import Bell, BellSettings
from penstock.outbox.contract import Adapter, AsyncAdapter
from penstock.outbox.event import DEFAULT_TOPIC, StagedEvent, check_options, parts_of, staged_event
from penstock.outbox.sequencer import SequencerSettings
from penstock.outbox.staging import Steps, arun, cancel_steps, run, stage_steps
from penstock.settings import Settings, check_names
from penstock.worker import running
from penstock.worker.drain import Counts, Drain
from penstock.worker.ear import notify_others
from penstock.worker.handlers import DEFAULT_TIMEOUT_SECONDS, Handlers, Match, rules_of
from penstock.worker.patience import PollingSettings
from penstock.worker.runner import ProcessingSettings
from penstock.worker.worker import Worker

C = TypeVar("C", bound=type)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
At = datetime | timedelta | None
_NOT_GIVEN: Any = object()
_TOPIC_OF = attrgetter("topic")
# What an outbox and its services read: looked at when it is made, so that a mistake shows at the start.
_SETTINGS: tuple[type[Settings], ...] = (
    BellSettings,
    ClusterSettings,
    LimitsSettings,
    PollingSettings,
    ProcessingSettings,
    RetrySettings,
    SequencerSettings,
)


class Outbox:
    """An outbox in one database.

    Safe to share between threads and to make before a fork: it opens no connection of its own until a
    method needs one. `publish` works on the caller's connection and never commits it.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = DEFAULT_PREFIX,
        schema: str | None = None,
        limits: LimitsSettings | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        check_names()
        for each in _SETTINGS:
            each.load()
        self.url = url
        self._names = Names(prefix, schema)
        lease = ClusterSettings.load().lease_ttl
        self._database = open_database(url, self._names, limit_seconds=lease.total_seconds() / 2)
        self._limits = limits or LimitsSettings.load()
        self._clock = clock
        self._event_types = EventTypes()
        self._workers: list[Worker] = []
        heard = self._database.dialect.notifies and BellSettings.load().enabled
        self._bell = Bell(self._ring) if heard else None  # else nobody hears it, unless a worker runs here
        self._handlers = Handlers(self._event_types)

    def migrate(self) -> list[str]:
        """Bring the tables up to date and return what was applied; nothing to do is no error."""
        return [f"{step.version:04} {step.name}" for step in migrate(self._database)]

    def event(
        self,
        name: str,
        *,
        key: KeyOf = None,
        aliases: Iterable[str] = (),
        topic: str = DEFAULT_TOPIC,
        headers: HeadersOf = None,
    ) -> Callable[[C], C]:
        """Register a dataclass, msgspec Struct or pydantic model as an event under a logical name."""

        def register(cls: C) -> C:
            self._event_types.register(cls, name, key=key, aliases=aliases, topic=topic, headers=headers)
            return cls

        return register

    @overload
    def publish(self, conn: Any, event: object, /, *, at: At = None, owner: str | None = None) -> str: ...
    @overload
    def publish(
        self,
        conn: Any,
        type: str,
        value: Any,
        /,
        *,
        key: str | None = None,
        topic: str = DEFAULT_TOPIC,
        headers: Headers | None = None,
        at: At = None,
        owner: str | None = None,
    ) -> str: ...
    def publish(self, conn: Any, type: Any, value: Any = _NOT_GIVEN, /, **options: Any) -> str:
        """Write one event in the caller's open transaction and return its id.

        Either `publish(conn, "order.placed", {...}, key="o-1")` or `publish(conn, event)` for a registered
        class. `at` (an aware datetime, or a timedelta from now) schedules it; `owner` tags it.
        Raises a subclass of InvalidInput or ConnectionRefused before anything is written, SchemaMissing,
        or the driver's own error.
        """
        return self._stage(conn, [self._checked(type, value, options, self._clock.now_ms())])[0]

    def publish_many(
        self, conn: Any, events: Iterable[object | Mapping[str, Any]], /, *, topic: str = DEFAULT_TOPIC
    ) -> list[str]:
        """Write many events in the caller's transaction, in the given order; return their ids.

        Each is a registered event, or a mapping with the arguments of `publish`:
        `{"type": "order.placed", "value": {...}, "key": "o-1"}`. All are checked before any is written.
        """
        staged = self._all_checked(events, topic)
        return self._stage(conn, staged) if staged else []

    def cancel(self, conn: Any, id: str, /, *, topic: str = DEFAULT_TOPIC) -> int:
        """Take a scheduled event back in the caller's transaction: 1 if that was in time, else 0.

        Raises as `publish` does.
        """
        return self._on(conn, cancel_steps(id, topic))

    @overload
    async def apublish(
        self, conn: Any, event: object, /, *, at: At = None, owner: str | None = None
    ) -> str: ...
    @overload
    async def apublish(
        self,
        conn: Any,
        type: str,
        value: Any,
        /,
        *,
        key: str | None = None,
        topic: str = DEFAULT_TOPIC,
        headers: Headers | None = None,
        at: At = None,
        owner: str | None = None,
    ) -> str: ...
    async def apublish(self, conn: Any, type: Any, value: Any = _NOT_GIVEN, /, **options: Any) -> str:
        """Write one event in the open transaction of an async connection; else as `publish`."""
        return (await self._astage(conn, [self._checked(type, value, options, self._clock.now_ms())]))[0]

    async def apublish_many(
        self, conn: Any, events: Iterable[object | Mapping[str, Any]], /, *, topic: str = DEFAULT_TOPIC
    ) -> list[str]:
        """Write many events in the open transaction of an async connection; else as `publish_many`."""
        staged = self._all_checked(events, topic)
        return await self._astage(conn, staged) if staged else []

    async def acancel(self, conn: Any, id: str, /, *, topic: str = DEFAULT_TOPIC) -> int:
        """Take a scheduled event back in the open transaction of an async connection; else as `cancel`."""
        return await self._aon(conn, cancel_steps(id, topic))

    def handler(
        self,
        match: Match = None,
        *,
        group: str,
        id: str | None = None,
        topic: str = DEFAULT_TOPIC,
        start: str = "earliest",
        retry: RetryPolicy | None = None,
        on_failure: str = "park",
        on_exhausted: str = "hold",
        fallback: Callable[[Record], Any] | Callable[[Record, str], Any] | None = None,
        timeout: timedelta | float | None = DEFAULT_TIMEOUT_SECONDS,
        concurrency: int | None = None,
        rate: float | str | None = None,
        batch: int | None = None,
    ) -> Callable[[F], F]:
        """Register a function for the records of a topic that match, as part of a group.

        It takes the record, an event of a class registered by `event`, or both; with `batch`, lists of up to
        so many. `match`: a type, a prefix such as "order.*", a predicate, or None for all (of the class it
        takes, if it takes one). `group` names the cursor and must stay the same over deploys. `on_failure`:
        while a record is retried, "park" lets its key wait, "alone" lets it go on, "dead" retries nothing.
        `on_exhausted`: "hold" keeps the key until a person decides, "release" lets it go on. `fallback` is
        called once, with the record and perhaps the reason, before it is given up. `timeout` is in seconds,
        None for no limit; `concurrency` is the most calls at once in this process; `rate` records per second,
        or "5/min". Raises InvalidHandler, DuplicateHandler.
        """

        def register(function: F) -> F:
            policy = RetrySettings.load().to_policy() if retry is None else retry
            rules = rules_of(group, retry=policy, on_failure=on_failure, on_exhausted=on_exhausted)
            self._handlers.add(
                function,
                match=match,
                group=group,
                id=id,
                topic=topic,
                start=start,
                rules=rules,
                fallback=fallback,
                timeout=timeout,
                concurrency=concurrency,
                rate=rate,
                batch=batch,
            )
            return function

        return register

    def drain(self) -> Counts:
        """Sequence and deliver all that is due now to the handlers of this process; return what was done."""
        return Drain(self._database, self._handlers, self._clock).run()

    def run(self, *, partitions: Iterable[int] | None = None, until: Event | None = None) -> None:
        """Run a worker in this process: sequence, deliver, share the work with other workers.

        Returns after SIGTERM or Ctrl-C (in the main thread), or once `until` is set: it starts nothing more,
        waits for the handlers that run, settles and leaves. `partitions` pins it to some partitions. Raises
        SchemaMissing, SchemaBehind; a database that is away is waited for.
        """
        with self._working(partitions) as worker:
            running.run(worker, until)

    async def arun(self, *, partitions: Iterable[int] | None = None) -> None:
        """Run a worker until SIGTERM, Ctrl-C or cancellation; async handlers run in this event loop."""
        with self._working(partitions) as worker:
            await running.arun(worker)

    @asynccontextmanager
    async def running(self, *, partitions: Iterable[int] | None = None) -> AsyncIterator[None]:
        """Run a worker while an async block lasts; async handlers run in this event loop."""
        with self._working(partitions) as worker:
            async with running.running(worker):
                yield

    @contextmanager
    def _working(self, partitions: Iterable[int] | None) -> Iterator[Worker]:
        """Give a worker that hears what is published through this outbox."""
        worker = self._worker(partitions)
        self._workers.append(worker)
        if self._bell is None and BellSettings.load().enabled:
            self._bell = Bell(self._ring)
        try:
            yield worker
        finally:
            self._workers.remove(worker)

    def _worker(self, partitions: Iterable[int] | None) -> Worker:
        with suppress(StoreUnreachable):
            check(self._database)
        pins = None if partitions is None else frozenset(partitions)
        return Worker(self._database, self._handlers, self._clock, pins=pins)

    def _ring(self) -> None:
        for worker in list(self._workers):
            worker.ring()
        if self._database.dialect.notifies:
            notify_others(self._database)

    @property
    def log(self) -> SqlLog:
        """The log, for reading by hand: `outbox.log.read(topic, partition, offset)`."""
        return SqlLog(self._database, self._clock)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Open a transaction on a connection of the right kind, for programs that have none of their own."""
        with self._database.transaction(bounded=False) as tx:
            yield tx.conn

    def close(self) -> None:
        """Close the connections that Penstock itself has opened."""
        if self._bell is not None:
            self._bell.close()
        self._database.close()

    def _checked(self, type: Any, value: Any, options: dict[str, Any], now_ms: int) -> StagedEvent:
        if value is _NOT_GIVEN:
            type, value, options = self._typed(type, options)
        try:
            return staged_event(type, value, now_ms=now_ms, limits=self._limits, **options)
        except TypeError:
            check_options(options)  # asked only now: for every event it would cost as much as its hash
            raise

    def _all_checked(self, events: Iterable[object | Mapping[str, Any]], topic: str) -> list[StagedEvent]:
        now_ms = self._clock.now_ms()
        return [
            self._checked(*parts_of(each, topic), now_ms)
            if isinstance(each, (dict, Mapping))  # dict first: asking for a Mapping costs a microsecond
            else self._checked(each, _NOT_GIVEN, {}, now_ms)
            for each in events
        ]

    def _typed(self, event: Any, options: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
        kind = self._event_types.of(event)
        headers = kind.headers_of(event) if kind.headers_of else None
        return (
            kind.name,
            event,
            {"key": kind.key_of(event), "topic": kind.topic, "headers": headers} | options,
        )

    def _stage(self, conn: Any, events: list[StagedEvent]) -> list[str]:
        adapter = adapter_for(conn, self._database.dialect.name)
        adapter.check(conn)
        with tracing.span("penstock.publish", events=len(events)):
            ids = run(stage_steps(events), lambda step: adapter.run(conn, step, self._names))
        self._was_staged(conn, adapter, events)
        return ids

    async def _astage(self, conn: Any, events: list[StagedEvent]) -> list[str]:
        adapter = async_adapter_for(conn, self._database.dialect.name)
        await adapter.acheck(conn)
        with tracing.span("penstock.publish", events=len(events)):
            ids = await arun(stage_steps(events), lambda step: adapter.arun(conn, step, self._names))
        self._was_staged(conn, adapter, events)
        return ids

    def _was_staged(self, conn: Any, adapter: Adapter | AsyncAdapter, events: list[StagedEvent]) -> None:
        """Let the bell watch for the end of the transaction, and count."""
        if self._bell is not None:
            self._bell.watch(adapter.driver_connection(conn), adapter.is_open)
        if len(events) == 1:  # a Counter costs more than the event
            metrics.PUBLISHED.add(1, topic=events[0].topic)
        else:
            for topic, count in Counter(map(_TOPIC_OF, events)).items():
                metrics.PUBLISHED.add(count, topic=topic)

    def _on(self, conn: Any, steps: Steps[T]) -> T:
        """Run steps on the caller's connection."""
        adapter = adapter_for(conn, self._database.dialect.name)
        adapter.check(conn)
        return run(steps, lambda step: adapter.run(conn, step, self._names))

    async def _aon(self, conn: Any, steps: Steps[T]) -> T:
        """Run steps on the caller's async connection."""
        adapter = async_adapter_for(conn, self._database.dialect.name)
        await adapter.acheck(conn)
        return await arun(steps, lambda step: adapter.arun(conn, step, self._names))
