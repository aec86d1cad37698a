"""`AsyncPublisher`: publishing on async connections, beside the sync ones."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from penstock import tracing
from penstock.model.limits import Headers
from penstock.model.token import GivenToken, check_token

from .adapters import async_adapter_for
from .contract import AsyncAdapter
from .event import DEFAULT_TOPIC, StagedEvent
from .publisher import NOT_GIVEN, At, Publisher
from .scheduled import cancel_steps, reschedule_steps
from .staging import stage_steps
from .steps import Step, Steps, arun
from .tokens import find_steps

T = TypeVar("T")


class AsyncPublisher(Publisher):
    """Publishes on connections of either kind: each method has a twin whose name begins with `a`."""

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
    async def apublish(self, conn: Any, type: Any, value: Any = NOT_GIVEN, /, **options: Any) -> str:
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

    async def _astage(self, conn: Any, events: list[StagedEvent]) -> list[str]:
        adapter = async_adapter_for(conn, self._database.dialect.name)
        await adapter.acheck(conn)
        execute = self._aexecute(conn, adapter)
        staged = await arun(stage_steps(events, self._window_ms), execute)
        calls = await arun(self._listeners.mark_steps(staged.events), execute) if self._listeners.all else ()
        self._was_staged(conn, adapter, staged, calls)
        return staged.ids

    async def _aon(self, conn: Any, steps: Steps[T]) -> T:
        """Run steps on the caller's async connection."""
        adapter = async_adapter_for(conn, self._database.dialect.name)
        await adapter.acheck(conn)
        return await arun(steps, self._aexecute(conn, adapter))

    def _aexecute(self, conn: Any, adapter: AsyncAdapter | None = None) -> Callable[[Step], Awaitable[Any]]:
        """Return what runs a step on an async connection."""
        found = adapter or async_adapter_for(conn, self._database.dialect.name)
        names = self._names
        return lambda step: (found.arows if step.reads else found.arun)(conn, step, names)
