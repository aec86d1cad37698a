"""Listeners: functions that are matched and called like handlers, but once and without a group."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from penstock.model.event_types import EventTypes
from penstock.model.record import Record
from penstock.outbox.listeners import Listener

from .handler_options import HandlerOptions, Match
from .handlers import Handlers

T = TypeVar("T")
_GROUP = "listeners"


def listener_of(
    function: Callable[..., Any], *, match: Match, topic: str | None, types: EventTypes
) -> Listener:
    """Return the listener for a function. Raises InvalidHandler, InvalidTopic, InvalidType."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    options = HandlerOptions(match, group=_GROUP, id=name, topic=topic or _GROUP, start="latest")
    handler = Handlers(types).add(function, options)

    resolved = -1

    def wants(record: Record) -> bool:
        nonlocal resolved
        if resolved != types.version:  # its class may be registered later than the listener
            handler.resolve(types)
            resolved = types.version
        return (topic is None or record.topic == topic) and handler.wants(record)

    def call(record: Record) -> None:
        answer = handler.binding.call(record)
        if inspect.isawaitable(answer):
            asyncio.run(_awaited(answer))

    return Listener(name, wants, call)


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
