"""`Publisher`: publishing on the caller's connection, in the caller's transaction, which it never begins or ends.

It checks its input, finds the adapter of the connection, runs the steps of staging on it, and makes the bell and the
listeners watch for the end of the transaction.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from operator import attrgetter
from threading import Event
from typing import Any, TypeVar, overload

from penstock import metrics, points, redaction, tracing
from penstock.clock import Clock
from penstock.database.database import Database
from penstock.database.naming import Names
from penstock.errors import InvalidInput, MissingExtra, NoOutbox, NoTransaction, shown
from penstock.model.codec import Codec, HeadersOf, KeyOf
from penstock.model.connections import Connection
from penstock.model.content import CONTENT_TYPE
from penstock.model.context import check_entry, current, headers_of
from penstock.model.event_types import Aliases, EventObject, EventTypes, Parents
from penstock.model.limits import Headers, LimitsSettings, check_type
from penstock.model.record import TRACESTATE, RawHeaders
from penstock.model.token import GivenToken, check_token

from . import staging
from .adapters import adapter_for
from .adapters.driver import DurabilityCheck, PublishingSettings, durability_steps
from .bell import MOST_SLOTS, UNKNOWN_SLOTS, Bell
from .contract import Adapter, AsyncAdapter, StagedEvent, Step, Steps, run
from .listeners import ListenerCall, Listeners
from .replay import TokensUsed, run_in_tx
from .staging import AFTER_STAGE, BEFORE_STAGE, DEFAULT_TOPIC, NOT_GIVEN
from .tokens import TokensSettings, find_steps, look_up
from .tracking import block, declaration

logger = logging.getLogger("penstock.context")

C = TypeVar("C", bound=type)
T = TypeVar("T")
Provider = Callable[[], Mapping[str, str]]  # of the headers that the context of a publish adds
P = TypeVar("P", bound=Provider)
Moment = datetime | timedelta
At = Moment | None
NO_CALLS: Sequence[ListenerCall] = ()
_TOPIC_OF = attrgetter("topic")
_ALLOW = "or let single events be published in autocommit: Outbox(..., allow_autocommit=True)"
_ONE_STATEMENT = "allow_autocommit is for one event without a token: more are several writes"


class ContextProviders:
    """The functions that add headers to the events of one outbox, collected once per call of `publish`.

    First the context variable (`penstock.context`), then OpenTelemetry's current span, then the providers in
    the order of registration. Later ones win, and an event's own headers win over all. If a provider fails,
    the event is published without its headers.
    """

    def __init__(self) -> None:
        self._providers: tuple[Provider, ...] = ()

    def add(self, provider: P) -> P:
        """Add a provider. Raises InvalidInput when it is not callable."""
        if not callable(provider):
            raise InvalidInput(f"context provider {shown(provider)} must be a function that returns a dict")
        self._providers = (*self._providers, provider)
        return provider

    def headers(self, *, traced: bool) -> RawHeaders:
        """Return the headers for events published now; `traced`: OpenTelemetry has a current span."""
        entries = current()
        if not entries and not traced and not self._providers:
            return ()
        gathered = dict(entries)
        if traced:
            gathered.pop(TRACESTATE, None)  # it belongs to the parent that the span replaces
            gathered |= tracing.context_headers()
        for provider in self._providers:
            try:
                given = dict(provider() or {})
                for name, value in given.items():
                    check_entry(name, value)
            except Exception as exc:
                message = "context provider %r failed; events are published without its headers"
                logger.error(message, provider, exc_info=redaction.traced(exc), extra={"error": redaction.words(exc)})
            else:
                gathered |= given
        return headers_of(gathered)


class Publisher:
    """Publishes into one store. Safe to share between threads."""

    url: str

    def __init__(
        self, database: Database, names: Names, limits: LimitsSettings, clock: Clock, *, allow_autocommit: bool = False
    ) -> None:
        """`allow_autocommit`: allow a publish of one statement on a connection in autocommit."""
        self._allow_autocommit = allow_autocommit
        self._database, self._names, self._limits, self._clock = database, names, limits, clock
        self._dialect, self._now_ms = database.dialect.name, clock.now_ms
        self._event_types = EventTypes()
        self._bell: Bell | None = None
        self._window_ms = TokensSettings.load().window_ms
        self._context = ContextProviders()
        self._listeners = Listeners(database)
        self._tokens_used: TokensUsed = {}
        self._durability = DurabilityCheck() if PublishingSettings.load().check_durability else None
        self._closing = Event()
        self._has_outbox = True  # unless the store has none
        self._tracker: Any = None  # the tracker of the ORM

    @property
    def event_types(self) -> EventTypes:
        """The types that `event` has registered."""
        return self._event_types

    def event(
        self,
        name: str,
        *,
        key: KeyOf = None,
        aliases: Aliases = (),
        topic: str = DEFAULT_TOPIC,
        headers: HeadersOf = None,
        parents: Parents = (),
        codec: Codec | None = None,
    ) -> Callable[[C], C]:
        """Register a dataclass, msgspec Struct or pydantic model as an event under a logical name.

        `key` is a path through its fields or a function; `headers` a function, or paths by name. `aliases`
        are its older names, optionally each with a function that converts an old value. Handlers of one of
        its `parents`, names or classes, receive it too. With a `codec` any class will do.
        Raises NotAnEventClass, EventNameTaken, InvalidType, InvalidTopic, InvalidHeaders.
        """

        def register(cls: C) -> C:
            self._event_types.register(
                cls, name, key=key, aliases=aliases, topic=topic, headers=headers, parents=parents, codec=codec
            )
            return cls

        return register

    def track(
        self,
        model: C,
        *,
        on: declaration.TrackedAction | Iterable[declaration.TrackedAction] = ("insert", "update", "delete"),
        names: declaration.TypeNames = None,
        key: declaration.ValueReader = None,
        value: declaration.Values = "image",
        exclude: str | Iterable[str] = (),
        topic: str = DEFAULT_TOPIC,
        owner: declaration.ValueReader = None,
    ) -> C:
        """Publish an event for each row of a SQLAlchemy model that a flush inserts, updates or deletes.

        Types are `orders.inserted`, `orders.updated` and `orders.deleted`, after its table, or the `names`:
        one event for each name, for all actions or by action; a method `events` of the model can name them
        too. `key` (default: the primary key) and `owner` are an attribute or a function. `value`: "image"
        (its columns without those of `exclude`), "reference" (`orders:1`), a function, or one of these by
        type. Raises InvalidTracking, InvalidType, InvalidTopic, MissingExtra.
        """
        try:
            from .tracking.sqlalchemy import Tracker, table_of
        except ModuleNotFoundError as exc:
            raise MissingExtra("tracking models", "sqlalchemy") from exc
        declared = declaration.declare(
            model, table_of(model), on=on, names=names, key=key, value=value, exclude=exclude, topic=topic, owner=owner
        )
        if self._tracker is None:
            self._tracker = Tracker(self.publish_many, lambda: block.current(self), url=self.url, names=self._names)
        self._tracker.add(declared)
        return model

    def tracking(
        self, *, skip: block.Skip = False, force: bool = False, metadata: Mapping[str, Any] | None = None
    ) -> AbstractContextManager[None]:
        """Configure the tracking of flushes inside a block: `with outbox.tracking(skip=True): …`.

        `skip` (True, or some models) publishes nothing; `metadata` adds headers to the events; `force`
        publishes despite an outer skip, and even an update that changes nothing.
        """
        return block.tracking(self, skip, force, metadata)

    @overload
    def publish(
        self,
        conn: Connection,
        event: EventObject,
        /,
        *,
        at: At = None,
        owner: str | None = None,
        token: GivenToken | None = None,
    ) -> str: ...
    @overload
    def publish(
        self,
        conn: Connection,
        type: str,
        value: object,
        /,
        *,
        key: str | None = None,
        topic: str = DEFAULT_TOPIC,
        headers: Headers | None = None,
        at: At = None,
        owner: str | None = None,
        token: GivenToken | None = None,
    ) -> str: ...
    def publish(self, conn: Any, type: Any, value: Any = NOT_GIVEN, /, **options: Any) -> str:
        """Write one event in the caller's open transaction and return its id.

        Either `publish(conn, "order.placed", {...}, key="o-1")` or `publish(conn, event)` for a registered
        class. `at` (an aware datetime, or a timedelta from now) schedules it; `owner` tags it. `token`: a
        repetition in the same topic within `tokens.window` is the same event and writes nothing; with other
        content it raises TokenReused. Raises a subclass of InvalidInput or ConnectionRefused before anything
        is written, SchemaMissing, or the driver's own error.
        """
        if tracing.is_on():
            with tracing.span("penstock.publish", events=1):
                context = self._context.headers(traced=True)
                return self._stage(conn, [self._checked(type, value, options, self._now_ms(), context)])[0]
        context = self._context.headers(traced=False)
        return self._stage(conn, [self._checked(type, value, options, self._now_ms(), context)])[0]

    def publish_many(
        self, conn: Connection, events: Iterable[EventObject | Mapping[str, Any]], /, *, topic: str = DEFAULT_TOPIC
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
        conn: Connection,
        id: str | None = None,
        /,
        *,
        key: str | None = None,
        owner: str | None = None,
        topic: str = DEFAULT_TOPIC,
    ) -> int:
        """Cancel scheduled events of a topic in the caller's transaction; return how many were in time.

        One by its id, or all of a key or an owner. Raises InvalidSelection, or as `publish` does.
        """
        return self._on(conn, staging.cancel_steps(id, topic, key=key, owner=owner, limits=self._limits))

    @overload
    def reschedule(self, conn: Connection, id: str, /, at: Moment, *, topic: str = DEFAULT_TOPIC) -> bool: ...
    @overload
    def reschedule(
        self,
        conn: Connection,
        /,
        *,
        at: Moment,
        key: str | None = None,
        owner: str | None = None,
        topic: str = DEFAULT_TOPIC,
    ) -> int: ...
    def reschedule(
        self,
        conn: Connection,
        id: str | None = None,
        /,
        at: Any = None,
        *,
        key: str | None = None,
        owner: str | None = None,
        topic: str = DEFAULT_TOPIC,
    ) -> int:
        """Reschedule events of a topic in the caller's transaction.

        One by its id: return whether it was in time. All of a `key` or an `owner`: return how many were. Now or
        earlier: they are sequenced in the next pass. Raises InvalidSelection, or as `publish` does.
        """
        steps = staging.reschedule_steps(id, at, topic, self._clock.now_ms(), key=key, owner=owner, limits=self._limits)
        return self._on(conn, steps)

    def published(self, conn: Connection | None, token: GivenToken, /, *, topic: str | None = None) -> str | None:
        """Return the id of the event published with a token within `tokens.window`, or None.

        In the given topic, or in the one that used the token first. A connection of the caller sees its own
        transaction. With None it uses a connection of its own and waits for a transaction that is using the token, so
        the answer is final even after a commit in doubt. Raises InvalidToken, UnsupportedConnection, StoreUnreachable;
        CommitOutcomeUnknown after a long wait.
        """
        checked, now_ms = check_token(token, topic), self._clock.now_ms()
        if conn is None:
            return look_up(self._database, self._execute, checked, now_ms, self._window_ms)
        return run(find_steps(checked, now_ms, self._window_ms), self._execute(conn))

    def run_in_tx(self, work: Callable[[Any], T], /) -> T:
        """Run `work(conn)` in a transaction of the outbox, retrying after conflicts; return its result.

        It retries up to ten times after a deadlock, a serialization failure or a lock time-out. Raises
        CommitOutcomeUnknown, with the published tokens, when the connection is lost during the commit: that is never
        retried.
        """
        return run_in_tx(self._database, work, used=self._tokens_used, rest=self._closing.wait)

    def context(self, provider: P, /) -> P:
        """Register a function that returns headers for every event: `@outbox.context`.

        It takes nothing and returns a mapping of strings. Later ones win over earlier ones, and an event's own headers
        over all; one that raises is logged and left out. Raises InvalidInput.
        """
        return self._context.add(provider)

    def _checked(self, type: Any, value: Any, options: dict[str, Any], now_ms: int, context: RawHeaders) -> StagedEvent:
        if value is NOT_GIVEN:
            type, value, options = self._typed(type, options)
        try:
            return staging.staged_event(type, value, now_ms=now_ms, limits=self._limits, context=context, **options)
        except TypeError:
            staging.check_options(options)  # only now: for every event it would cost as much as its hash
            check_type(type)  # an unhashable type too
            raise

    def _all_checked(
        self, events: Iterable[EventObject | Mapping[str, Any]], topic: str, span: Any
    ) -> list[StagedEvent]:
        now_ms = self._clock.now_ms()
        context = self._context.headers(traced=span is not None)
        checked = [
            self._checked(*staging.parts_of(each, topic), now_ms, context)
            if isinstance(each, (dict, Mapping))  # dict first: the Mapping check costs a microsecond
            else self._checked(each, NOT_GIVEN, {}, now_ms, context)
            for each in events
        ]
        if span is not None:
            span.set_attribute("events", len(checked))
        return checked

    def _typed(self, event: Any, options: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
        kind = self._event_types.of(event)
        headers = kind.headers_of(event) if kind.headers_of else None
        if kind.content_type is not None:
            headers = {CONTENT_TYPE: kind.content_type, **(headers or {})}
        return (
            kind.name,
            event if kind.content_type is None else kind.encode(event),
            {"key": kind.key_of(event), "topic": kind.topic, "headers": headers} | options,
        )

    def _stage(self, conn: Any, events: Sequence[StagedEvent]) -> list[str]:
        self._check_outbox()
        began = self._clock.monotonic()
        adapter = adapter_for(conn, self._dialect)
        try:
            adapter.check(conn)
        except NoTransaction as refusal:
            self._refuse(refusal, events)
        step, calls = staging.plain_step(events), NO_CALLS
        if step is not None:  # no generator: it costs as much as the event's id and hash
            points.reach(BEFORE_STAGE)
            adapter.run(conn, step, self._names)
            points.reach(AFTER_STAGE)
            ids, staged = [events[0].id], events
        else:
            ids, staged, tokens = run(staging.stage_steps(events, self._window_ms), self._execute(conn, adapter))
            self._note_tokens(conn, tokens)
        if self._listeners.all:
            calls = run(self._listeners.mark_steps(staged), self._execute(conn, adapter))
        unknown = self._was_staged(conn, adapter, staged, calls) if staged else None
        if unknown is not None and self._durability is not None:
            self._durability.judge(unknown, run(durability_steps(), self._execute(adapter.beneath(conn))))
        metrics.PUBLISH_SECONDS.note(self._clock.monotonic() - began)
        return ids

    def _check_outbox(self, what: str = "publish") -> None:
        if not self._has_outbox:
            raise NoOutbox(self._database.where, what)

    def _refuse(self, refusal: NoTransaction, events: Sequence[StagedEvent] = ()) -> None:
        """Refuse a connection in autocommit, unless that is allowed and one statement does it all."""
        if not self._allow_autocommit:
            raise NoTransaction(f"{refusal.remedy}; {_ALLOW}") from None
        if len(events) > 1 or any(each.token is not None for each in events):
            raise NoTransaction(f"{refusal.remedy}; {_ONE_STATEMENT}") from None

    def _note_tokens(self, conn: Any, tokens: Sequence[GivenToken]) -> None:
        """Record the tokens of a `run_in_tx` transaction, to resolve a commit in doubt."""
        if self._tokens_used and id(conn) in self._tokens_used:
            self._tokens_used[id(conn)].extend(tokens)

    def _was_staged(
        self, conn: Any, adapter: Adapter | AsyncAdapter, events: Sequence[StagedEvent], calls: Sequence[ListenerCall]
    ) -> Any:
        """Make bell and listeners watch the transaction; return a driver's connection to be checked, if it is new."""
        driver = adapter.driver_connection(conn)
        if calls:
            self._listeners.watch(events[0].id, calls, driver, adapter.is_open)
        if len(events) == 1:  # a Counter costs more than the event
            slots: Sequence[int] = (events[0].slot,)
            metrics.PUBLISHED.note(1, events[0].topic)
        else:
            slots = [each.slot for each in events] if len(events) <= MOST_SLOTS else UNKNOWN_SLOTS
            for topic, count in Counter(map(_TOPIC_OF, events)).items():
                metrics.PUBLISHED.note(count, topic)
        if self._bell is not None:
            self._bell.watch(driver, adapter.is_open, slots, hooked=adapter.after_commit(conn, self._bell.look))
        return driver if self._durability is not None and self._durability.is_due(driver) else None

    def _on(self, conn: Any, steps: Steps[T]) -> T:
        self._check_outbox()
        adapter = adapter_for(conn, self._database.dialect.name)
        try:
            adapter.check(conn)
        except NoTransaction as refusal:
            self._refuse(refusal)
        return run(steps, self._execute(conn, adapter))

    def _execute(self, conn: Any, adapter: Adapter | None = None) -> Callable[[Step], Any]:
        found = adapter or adapter_for(conn, self._database.dialect.name)
        return lambda step: (found.rows if step.reads else found.run)(conn, step, self._names)
