"""`Outbox`: the face that joins the rooms for one process. It hands over and calls; it has no rules."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from datetime import datetime, timedelta
from operator import attrgetter
from threading import Event
from typing import Any, TypeVar, overload

from penstock import metrics, tracing
from penstock.clock import SYSTEM, Clock
from penstock.errors import MissingExtra, StoreUnreachable
from penstock.log.sql.database import Database
from penstock.log.sql.dialects import open_database
from penstock.log.sql.log import SqlLog
from penstock.log.sql.migrations import check, migrate
from penstock.log.sql.naming import DEFAULT_PREFIX, Names
from penstock.log.sql.retention import RetentionSettings
from penstock.membership.member import ClusterSettings
from penstock.model.event_types import EventTypes, HeadersOf, KeyOf
from penstock.model.limits import Headers, LimitsSettings
from penstock.model.record import RawHeaders, Record
from penstock.model.retry import RetryPolicy
from penstock.model.retry_settings import RetrySettings
from penstock.model.token import GivenToken, check_token
from penstock.outbox.adapters import adapter_for, async_adapter_for
from penstock.outbox.bell import MOST_SLOTS, UNKNOWN_SLOTS, Bell, BellSettings
from penstock.outbox.context import ContextProviders, Provider
from penstock.outbox.contract import Adapter, AsyncAdapter
from penstock.outbox.event import DEFAULT_TOPIC, StagedEvent, check_options, parts_of, staged_event
from penstock.outbox.listeners import Call, Listeners, ListenersSettings
from penstock.outbox.replay import TokensUsed, run_in_tx
from penstock.outbox.scheduled import cancel_steps, reschedule_steps
from penstock.outbox.sequencer import SequencerSettings
from penstock.outbox.staging import Staged, stage_steps
from penstock.outbox.steps import Step, Steps, arun, run
from penstock.outbox.tokens import TokensSettings, find_steps, look_up
from penstock.outbox.tracking import block, declaration
from penstock.settings import Settings, check_names
from penstock.worker import running
from penstock.worker.drain import Counts, Drain
from penstock.worker.ear import notify_others, staged_word
from penstock.worker.handlers import DEFAULT_TIMEOUT_SECONDS, Handlers, Match, rules_of
from penstock.worker.listening import listener_of
from penstock.worker.patience import PollingSettings
from penstock.worker.runner import ProcessingSettings
from penstock.worker.worker import Worker

C = TypeVar("C", bound=type)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
P = TypeVar("P", bound=Provider)
At = datetime | timedelta | None
_NOT_GIVEN: Any = object()
_TOPIC_OF = attrgetter("topic")
# What an outbox and its services read: looked at when it is made, so that a mistake shows at the start.
_SETTINGS: tuple[type[Settings], ...] = (
    BellSettings,
    ClusterSettings,
    LimitsSettings,
    ListenersSettings,
    PollingSettings,
    ProcessingSettings,
    RetentionSettings,
    RetrySettings,
    SequencerSettings,
    TokensSettings,
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
        listen_url: str | None = None,
    ) -> None:
        """`listen_url`: where workers listen when `url` leads through a pooler; else `bell.listen_url`."""
        check_names()
        for each in _SETTINGS:
            each.load()
        self.url = url
        self._names = Names(prefix, schema)
        lease = ClusterSettings.load().lease_ttl
        self._database = open_database(
            url,
            self._names,
            limit_seconds=lease.total_seconds() / 2,
            listen_url=listen_url or BellSettings.load().listen_url,
        )
        self._limits = limits or LimitsSettings.load()
        self._clock = clock
        self._event_types = EventTypes()
        self._workers: list[Worker] = []
        heard = self._database.dialect.notifies and BellSettings.load().enabled
        self._bell = Bell(self._ring) if heard else None  # else nobody hears it, unless a worker runs here
        self._handlers = Handlers(self._event_types)
        self._window_ms = TokensSettings.load().window_ms
        self._context = ContextProviders()
        self._listeners = Listeners(self._database)
        self._tokens_used: TokensUsed = {}
        self._closing = Event()
        self._tracker: Any = None  # of the ORM whose models are tracked

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

    def track(
        self,
        model: C,
        *,
        on: str | Iterable[str] = ("insert", "update", "delete"),
        names: declaration.Names = None,
        key: declaration.Reader = None,
        value: declaration.Values = "image",
        exclude: str | Iterable[str] = (),
        topic: str = DEFAULT_TOPIC,
        owner: declaration.Reader = None,
    ) -> C:
        """Publish an event for each row of a SQLAlchemy model that a flush inserts, updates or deletes.

        Types are `orders.inserted`, `orders.updated` and `orders.deleted` of its table, or the `names`: one
        event each, for all actions, or by action; a method `events` of the model names them too. `key`
        (default: the primary key) and `owner` are an attribute or a function. `value`: "image" (its columns
        without those of `exclude`), "reference" (`orders:1`), a function, or one of these by type. Raises
        InvalidTracking, InvalidType, InvalidTopic, MissingExtra.
        """
        try:
            from penstock.outbox.tracking.mapped import table_of
            from penstock.outbox.tracking.sqlalchemy import Tracker
        except ModuleNotFoundError as exc:
            raise MissingExtra("tracking models", "sqlalchemy") from exc
        declared = declaration.declare(
            model,
            table_of(model),
            on=on,
            names=names,
            key=key,
            value=value,
            exclude=exclude,
            topic=topic,
            owner=owner,
        )
        if self._tracker is None:
            self._tracker = Tracker(self.publish_many, lambda: block.current(self))
        self._tracker.add(declared)
        return model

    def tracking(
        self, *, skip: block.Skip = False, force: bool = False, metadata: Mapping[str, Any] | None = None
    ) -> AbstractContextManager[None]:
        """Say something of what is flushed in a block: `with outbox.tracking(skip=True): …`.

        `skip` (True, or some models) publishes nothing for it; `metadata` are headers of its events; `force`
        publishes in spite of a skip around it, and an update that changes nothing.
        """
        return block.tracking(self, skip, force, metadata)

    @overload
    def publish(
        self,
        conn: Any,
        event: object,
        /,
        *,
        at: At = None,
        owner: str | None = None,
        token: GivenToken | None = None,
    ) -> str: ...
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
        token: GivenToken | None = None,
    ) -> str: ...
    def publish(self, conn: Any, type: Any, value: Any = _NOT_GIVEN, /, **options: Any) -> str:
        """Write one event in the caller's open transaction and return its id.

        Either `publish(conn, "order.placed", {...}, key="o-1")` or `publish(conn, event)` for a registered
        class. `at` (an aware datetime, or a timedelta from now) schedules it; `owner` tags it. `token`: the
        same again, within `tokens.window`, is the same event and writes nothing.
        Raises a subclass of InvalidInput or ConnectionRefused before anything is written, SchemaMissing,
        or the driver's own error.
        """
        with tracing.span("penstock.publish", events=1) as span:
            context = self._context.headers(traced=span is not None)
            event = self._checked(type, value, options, self._clock.now_ms(), context)
            return self._stage(conn, [event])[0]

    def publish_many(
        self, conn: Any, events: Iterable[object | Mapping[str, Any]], /, *, topic: str = DEFAULT_TOPIC
    ) -> list[str]:
        """Write many events in the caller's transaction, in the given order; return their ids.

        Each is a registered event, or a mapping with the arguments of `publish`:
        `{"type": "order.placed", "value": {...}, "key": "o-1"}`. All are checked before any is written.
        """
        with tracing.span("penstock.publish") as span:
            checked = self._all_checked(events, topic, span)
            return self._stage(conn, checked) if checked else []

    def cancel(
        self,
        conn: Any,
        id: str | None = None,
        /,
        *,
        key: str | None = None,
        owner: str | None = None,
        topic: str = DEFAULT_TOPIC,
    ) -> int:
        """Take scheduled events of a topic back in the caller's transaction; return how many were in time.

        One by its id, or all of a key or an owner. Raises InvalidSelection, or as `publish` does.
        """
        return self._on(conn, cancel_steps(id, topic, key=key, owner=owner, limits=self._limits))

    def reschedule(
        self, conn: Any, id: str, at: datetime | timedelta, /, *, topic: str = DEFAULT_TOPIC
    ) -> bool:
        """Give a scheduled event another time in the caller's transaction; return whether that was in time.

        Now or earlier: it goes out at the next pass. Raises as `publish` does.
        """
        return self._on(conn, reschedule_steps(id, at, topic, self._clock.now_ms()))

    def published(self, conn: Any | None, token: GivenToken, /) -> str | None:
        """Return the id of the event published with a token, within `tokens.window`; None if none was.

        On a connection of the caller's it sees what that sees. With None it asks on one of its own and waits
        for a transaction that is using the token: then the answer is the truth, also after a commit in doubt.
        Raises InvalidToken, UnsupportedConnection, StoreUnreachable; CommitOutcomeUnknown after a long wait.
        """
        asked, now_ms = check_token(token), self._clock.now_ms()
        if conn is None:
            return look_up(self._database, self._execute, asked, now_ms, self._window_ms)
        return run(find_steps(asked, now_ms, self._window_ms), self._execute(conn))

    def run_in_tx(self, work: Callable[[Any], T], /) -> T:
        """Run `work(conn)` in a transaction of the outbox, again when others made it fail; return its result.

        Up to ten times, after a deadlock, a serialization failure or a lock not had in time: so `work` may be
        called several times. Raises CommitOutcomeUnknown, with the tokens it published with, when the
        connection is lost while it commits: that is never run again.
        """
        return run_in_tx(self._database, work, used=self._tokens_used, rest=self._closing.wait)

    def context(self, provider: P, /) -> P:
        """Let a function give headers to every event: `@outbox.context`, on `() -> Mapping[str, str]`.

        Later ones win over earlier ones, an event's own headers over all; one that raises is logged and left
        out. Raises InvalidInput.
        """
        return self._context.add(provider)

    def listener(self, match: Match = None, *, topic: str | None = None) -> Callable[[F], F]:
        """Call a function in this process after the commit of a transaction that published what matches.

        Never after a rollback; best effort: what it raises is logged and counted, a crash may leave it out.
        `match` and what it takes are as for `handler`. Raises InvalidHandler, InvalidTopic.
        """

        def register(function: F) -> F:
            made = listener_of(function, match=match, topic=topic, types=self._event_types)
            if ListenersSettings.load().wanted:
                self._listeners.add(made)
            return function

        return register

    @overload
    async def apublish(
        self,
        conn: Any,
        event: object,
        /,
        *,
        at: At = None,
        owner: str | None = None,
        token: GivenToken | None = None,
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
        token: GivenToken | None = None,
    ) -> str: ...
    async def apublish(self, conn: Any, type: Any, value: Any = _NOT_GIVEN, /, **options: Any) -> str:
        """Write one event in the open transaction of an async connection; else as `publish`."""
        with tracing.span("penstock.publish", events=1) as span:
            context = self._context.headers(traced=span is not None)
            event = self._checked(type, value, options, self._clock.now_ms(), context)
            return (await self._astage(conn, [event]))[0]

    async def apublish_many(
        self, conn: Any, events: Iterable[object | Mapping[str, Any]], /, *, topic: str = DEFAULT_TOPIC
    ) -> list[str]:
        """Write many events in the open transaction of an async connection; else as `publish_many`."""
        with tracing.span("penstock.publish") as span:
            checked = self._all_checked(events, topic, span)
            return await self._astage(conn, checked) if checked else []

    async def acancel(
        self,
        conn: Any,
        id: str | None = None,
        /,
        *,
        key: str | None = None,
        owner: str | None = None,
        topic: str = DEFAULT_TOPIC,
    ) -> int:
        """Take scheduled events back in the open transaction of an async connection; else as `cancel`."""
        return await self._aon(conn, cancel_steps(id, topic, key=key, owner=owner, limits=self._limits))

    async def areschedule(
        self, conn: Any, id: str, at: datetime | timedelta, /, *, topic: str = DEFAULT_TOPIC
    ) -> bool:
        """Give a scheduled event another time on an async connection; else as `reschedule`."""
        return await self._aon(conn, reschedule_steps(id, at, topic, self._clock.now_ms()))

    async def apublished(self, conn: Any | None, token: GivenToken, /) -> str | None:
        """Look up a token on an async connection, or on one of our own; else as `published`."""
        if conn is None:
            return await asyncio.to_thread(self.published, None, token)
        steps = find_steps(check_token(token), self._clock.now_ms(), self._window_ms)
        return await arun(steps, self._aexecute(conn))

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
        transaction: bool = False,
    ) -> Callable[[F], F]:
        """Register a function for the records of a topic that match, as part of a group.

        It takes the record, an event of a class registered by `event`, or both; with `batch`, lists of up to
        so many. `match`: a type, a prefix such as "order.*", a predicate, or None for all (of the class it
        takes, if it takes one). `group` names the cursor and must stay the same over deploys. `on_failure`:
        while a record is retried, "park" lets its key wait, "alone" lets it go on, "dead" retries nothing.
        `on_exhausted`: "hold" keeps the key until a person decides, "release" lets it go on. `fallback` is
        called once, with the record and perhaps the reason, before it is given up. `timeout` is in seconds,
        None for no limit; `concurrency` is the most calls at once in this process; `rate` records per second,
        or "5/min". `transaction`: what it writes through `record.tx` and publishes on it commits together
        with its progress, so it takes effect exactly once. Raises InvalidHandler, DuplicateHandler.
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
                transaction=transaction,
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

    def _ring(self, slots: frozenset[int] | None) -> None:
        for worker in list(self._workers):
            worker.staged(slots)
        if self._database.dialect.notifies:
            notify_others(self._database, staged_word(slots))

    @property
    def log(self) -> SqlLog:
        """The log, for reading by hand: `outbox.log.read(topic, partition, offset)`."""
        return SqlLog(self._database, self._clock)

    @property
    def database(self) -> Database:
        """The store, for the functions of `penstock.operate`: `groups(outbox.database)`."""
        return self._database

    @property
    def handlers(self) -> Handlers:
        """The handlers that are registered."""
        return self._handlers

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Open a transaction on a connection of the right kind, for programs that have none of their own."""
        with self._database.transaction(bounded=False) as tx:
            yield tx.conn

    def close(self) -> None:
        """Close the connections that Penstock itself has opened."""
        self._closing.set()
        self._listeners.close()
        if self._bell is not None:
            self._bell.close()
        self._database.close()

    def _checked(
        self, type: Any, value: Any, options: dict[str, Any], now_ms: int, context: RawHeaders
    ) -> StagedEvent:
        if value is _NOT_GIVEN:
            type, value, options = self._typed(type, options)
        try:
            return staged_event(type, value, now_ms=now_ms, limits=self._limits, context=context, **options)
        except TypeError:
            check_options(options)  # asked only now: for every event it would cost as much as its hash
            raise

    def _all_checked(
        self, events: Iterable[object | Mapping[str, Any]], topic: str, span: Any
    ) -> list[StagedEvent]:
        now_ms = self._clock.now_ms()
        context = self._context.headers(traced=span is not None)
        checked = [
            self._checked(*parts_of(each, topic), now_ms, context)
            if isinstance(each, (dict, Mapping))  # dict first: asking for a Mapping costs a microsecond
            else self._checked(each, _NOT_GIVEN, {}, now_ms, context)
            for each in events
        ]
        if span is not None:
            span.set_attribute("events", len(checked))
        return checked

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
        execute = self._execute(conn, adapter)
        staged = run(stage_steps(events, self._window_ms), execute)
        calls = run(self._listeners.mark_steps(staged.events), execute) if self._listeners.all else ()
        self._was_staged(conn, adapter, staged, calls)
        return staged.ids

    async def _astage(self, conn: Any, events: list[StagedEvent]) -> list[str]:
        adapter = async_adapter_for(conn, self._database.dialect.name)
        await adapter.acheck(conn)
        execute = self._aexecute(conn, adapter)
        staged = await arun(stage_steps(events, self._window_ms), execute)
        calls = await arun(self._listeners.mark_steps(staged.events), execute) if self._listeners.all else ()
        self._was_staged(conn, adapter, staged, calls)
        return staged.ids

    def _was_staged(
        self, conn: Any, adapter: Adapter | AsyncAdapter, staged: Staged, calls: Sequence[Call]
    ) -> None:
        """Let the bell and the listeners watch for the end of the transaction, and count."""
        events = staged.events
        if self._tokens_used and id(conn) in self._tokens_used:
            self._tokens_used[id(conn)].extend(staged.tokens)
        if not events:
            return
        if calls:
            self._listeners.watch(events[0].id, calls, adapter.driver_connection(conn), adapter.is_open)
        if self._bell is not None:
            slots = [each.slot for each in events] if len(events) <= MOST_SLOTS else UNKNOWN_SLOTS
            self._bell.watch(adapter.driver_connection(conn), adapter.is_open, slots)
        if len(events) == 1:  # a Counter costs more than the event
            metrics.PUBLISHED.add(1, topic=events[0].topic)
        else:
            for topic, count in Counter(map(_TOPIC_OF, events)).items():
                metrics.PUBLISHED.add(count, topic=topic)

    def _on(self, conn: Any, steps: Steps[T]) -> T:
        """Run steps on the caller's connection."""
        adapter = adapter_for(conn, self._database.dialect.name)
        adapter.check(conn)
        return run(steps, self._execute(conn, adapter))

    async def _aon(self, conn: Any, steps: Steps[T]) -> T:
        """Run steps on the caller's async connection."""
        adapter = async_adapter_for(conn, self._database.dialect.name)
        await adapter.acheck(conn)
        return await arun(steps, self._aexecute(conn, adapter))

    def _execute(self, conn: Any, adapter: Adapter | None = None) -> Callable[[Step], Any]:
        """Return what runs a step on a connection."""
        found = adapter or adapter_for(conn, self._database.dialect.name)
        names = self._names
        return lambda step: (found.rows if step.reads else found.run)(conn, step, names)

    def _aexecute(self, conn: Any, adapter: AsyncAdapter | None = None) -> Callable[[Step], Awaitable[Any]]:
        """Return what runs a step on an async connection."""
        found = adapter or async_adapter_for(conn, self._database.dialect.name)
        names = self._names
        return lambda step: (found.arows if step.reads else found.arun)(conn, step, names)
