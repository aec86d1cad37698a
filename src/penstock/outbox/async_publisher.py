"""`AsyncPublisher`: publishing on async connections, beside the sync ones."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from penstock import metrics, points, tracing
from penstock.errors import NoTransaction
from penstock.model.connections import AsyncConnection
from penstock.model.event_types import EventObject
from penstock.model.limits import Headers
from penstock.model.token import GivenToken, check_token

from . import staging
from .adapters import async_adapter_for
from .adapters.driver import durability_steps, is_conflict, is_lost
from .contract import AsyncAdapter, StagedEvent, Step, Steps, arun
from .publisher import NO_CALLS, At, Moment, Publisher
from .replay import Begin, arun_in_tx
from .staging import AFTER_STAGE, BEFORE_STAGE, DEFAULT_TOPIC, NOT_GIVEN
from .tokens import find_steps
from .tracking import declaration
from .tracking.repository import Repository, declared_repository

T = TypeVar("T")
M = TypeVar("M")


class AsyncPublisher(Publisher):
    """Publishes on connections of either kind: each method has a twin whose name begins with `a`."""

    @overload
    async def apublish(
        self,
        conn: AsyncConnection,
        event: EventObject,
        /,
        *,
        at: At = None,
        owner: str | None = None,
        token: GivenToken | None = None,
    ) -> str: ...
    @overload
    async def apublish(
        self,
        conn: AsyncConnection,
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
    async def apublish(self, conn: Any, type: Any, value: Any = NOT_GIVEN, /, **options: Any) -> str:
        """Write one event in the open transaction of an async connection; else as `publish`."""
        with tracing.span("penstock.publish", events=1) as span:
            event = self._checked(type, value, options, self._now_ms(), self._context.headers(traced=span is not None))
            return (await self._astage(conn, [event]))[0]

    async def apublish_many(
        self, conn: AsyncConnection, events: Iterable[EventObject | Mapping[str, Any]], /, *, topic: str = DEFAULT_TOPIC
    ) -> list[str]:
        """Write many events in the open transaction of an async connection; else as `publish_many`."""
        with tracing.span("penstock.publish") as span:
            checked = self._all_checked(events, topic, span)
            return await self._astage(conn, checked) if checked else []

    async def acancel(
        self,
        conn: AsyncConnection,
        id: str | None = None,
        /,
        *,
        key: str | None = None,
        owner: str | None = None,
        topic: str = DEFAULT_TOPIC,
    ) -> int:
        """Cancel scheduled events in the open transaction of an async connection; else as `cancel`."""
        return await self._aon(conn, staging.cancel_steps(id, topic, key=key, owner=owner, limits=self._limits))

    @overload
    async def areschedule(
        self, conn: AsyncConnection, id: str, /, at: Moment, *, topic: str = DEFAULT_TOPIC
    ) -> bool: ...
    @overload
    async def areschedule(
        self,
        conn: AsyncConnection,
        /,
        *,
        at: Moment,
        key: str | None = None,
        owner: str | None = None,
        topic: str = DEFAULT_TOPIC,
    ) -> int: ...
    async def areschedule(
        self,
        conn: AsyncConnection,
        id: str | None = None,
        /,
        at: Any = None,
        *,
        key: str | None = None,
        owner: str | None = None,
        topic: str = DEFAULT_TOPIC,
    ) -> int:
        """Reschedule events on an async connection; else as `reschedule`."""
        steps = staging.reschedule_steps(id, at, topic, self._clock.now_ms(), key=key, owner=owner, limits=self._limits)
        return await self._aon(conn, steps)

    async def apublished(
        self, conn: AsyncConnection | None, token: GivenToken, /, *, topic: str | None = None
    ) -> str | None:
        """Look up a token on an async connection, or on a connection of our own; else as `published`."""
        if conn is None:
            return await asyncio.to_thread(self.published, None, token, topic=topic)
        steps = find_steps(check_token(token, topic), self._clock.now_ms(), self._window_ms)
        return await arun(steps, self._aexecute(conn))

    async def arun_in_tx(self, begin: Begin, work: Callable[[Any], Awaitable[T]], /) -> T:
        """Run `await work(conn)` in a transaction of your own, retrying after conflicts.

        `begin` returns an async context manager that yields the connection of a transaction and commits at the end:
        `engine.begin` of SQLAlchemy, `pool.connection` of psycopg. Else as `run_in_tx`. Raises InvalidInput.
        """
        dialect = self._database.dialect
        tests = partial(is_conflict, dialect=dialect), partial(is_lost, dialect=dialect)
        return await arun_in_tx(begin, work, *tests, used=self._tokens_used, rest=asyncio.sleep)

    def repository(
        self,
        model: type[M],
        table: str,
        *,
        id: str | Iterable[str] = "id",
        on: declaration.TrackedAction | Iterable[declaration.TrackedAction] = ("insert", "update", "delete"),
        names: declaration.TypeNames = None,
        key: declaration.ValueReader = None,
        value: declaration.Values = "image",
        exclude: str | Iterable[str] = (),
        topic: str = DEFAULT_TOPIC,
        owner: declaration.ValueReader = None,
        connection: Callable[..., Any] | None = None,
    ) -> Repository[M]:
        """Declare the events of a plain class, for programs that write its rows with their own SQL.

        `orders.inserts`, `orders.updates` and `orders.deletes` mark the functions that write. `id` names the
        attributes of the primary key; the other options are those of `track`. `connection` is called with the
        arguments of a marked function and returns its connection; by default one of the arguments is the
        connection. Raises InvalidTracking, InvalidType, InvalidTopic.
        """
        declared = partial(declared_repository, self, model, table, id=id, connection=connection)
        return declared(on=on, names=names, key=key, value=value, exclude=exclude, topic=topic, owner=owner)

    async def _astage(self, conn: Any, events: Sequence[StagedEvent]) -> list[str]:
        self._check_outbox()
        began = self._clock.monotonic()
        adapter = async_adapter_for(conn, self._database.dialect.name)
        try:
            await adapter.acheck(conn)
        except NoTransaction as refusal:
            self._refuse(refusal, events)
        step, calls = staging.plain_step(events), NO_CALLS
        if step is not None:
            points.reach(BEFORE_STAGE)
            await adapter.arun(conn, step, self._names)
            points.reach(AFTER_STAGE)
            ids, staged = [events[0].id], events
        else:
            ids, staged, tokens = await arun(
                staging.stage_steps(events, self._window_ms), self._aexecute(conn, adapter)
            )
            self._note_tokens(conn, tokens)
        if self._listeners.all:
            calls = await arun(self._listeners.mark_steps(staged), self._aexecute(conn, adapter))
        unknown = self._was_staged(conn, adapter, staged, calls) if staged else None
        if unknown is not None and self._durability is not None:
            self._durability.judge(unknown, await arun(durability_steps(), self._aexecute(conn, adapter)))
        metrics.PUBLISH_SECONDS.note(self._clock.monotonic() - began)
        return ids

    async def _aon(self, conn: Any, steps: Steps[T]) -> T:
        self._check_outbox()
        adapter = async_adapter_for(conn, self._database.dialect.name)
        try:
            await adapter.acheck(conn)
        except NoTransaction as refusal:
            self._refuse(refusal)
        return await arun(steps, self._aexecute(conn, adapter))

    def _aexecute(self, conn: Any, adapter: AsyncAdapter | None = None) -> Callable[[Step], Awaitable[Any]]:
        found = adapter or async_adapter_for(conn, self._database.dialect.name)
        return lambda step: (found.arows if step.reads else found.arun)(conn, step, self._names)
