"""`PeriodicPublisher`: the events that an outbox publishes at the ticks of schedules."""

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.model.content import encode_value
from penstock.model.limits import Headers, check_headers, check_owner
from penstock.model.schedule import CatchUpWord, Every

from ..async_publisher import AsyncPublisher
from ..contract import StagedEvent
from ..staging import DEFAULT_TOPIC
from .declaration import Schedule, Schedules, Tick

F = TypeVar("F", bound=Callable[..., Any])


class PeriodicPublisher(AsyncPublisher):
    """Publishes into one store, also by schedules. Safe to share between threads."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._schedules = Schedules()

    def every(
        self,
        every: Every,
        /,
        *,
        type: str | None = None,
        name: str | None = None,
        timezone: str | None = None,
        catch_up: CatchUpWord = "last",
        key: str | None = None,
        topic: str = DEFAULT_TOPIC,
        headers: Headers | None = None,
        owner: str | None = None,
    ) -> Callable[[F], F]:
        """Publish the result of a function as an event at each tick, once over all workers.

        `every`: a cron expression of five fields, read in `timezone` (UTC by default), or an interval as a timedelta or
        seconds. The function takes nothing or the moment of the tick, and returns the value of the event or, without a
        `type`, an event of a registered class; None publishes nothing. Several workers may call it for one tick, and
        one result is published; do the work in handlers. `name` names the schedule, by default after the type, and must
        stay the same across deploys. `catch_up`: which missed ticks to publish, "none", the "last", or "all". Raises
        InvalidSchedule, InvalidType, InvalidTopic, InvalidKey, InvalidHeaders, InvalidOwner, NoOutbox.
        """
        self._check_outbox("a schedule")

        def register(function: F) -> F:
            options = {"key": key, "type": type, "topic": topic, "timezone": timezone, "catch_up": catch_up}
            self._declare(name, every, headers, owner, **options, make=function)
            return function

        return register

    def periodic(
        self,
        name: str,
        every: Every,
        /,
        *,
        type: str,
        value: Any = None,
        timezone: str | None = None,
        catch_up: CatchUpWord = "last",
        key: str | None = None,
        topic: str = DEFAULT_TOPIC,
        headers: Headers | None = None,
        owner: str | None = None,
    ) -> None:
        """Publish an event with the same value at each tick, once over all workers; otherwise as `every`."""
        self._check_outbox("a schedule")
        encode_value(type, value)
        options = {"key": key, "type": type, "topic": topic, "timezone": timezone, "catch_up": catch_up}
        self._declare(name, every, headers, owner, **options, value=value)

    def _declare(
        self, name: str | None, every: Every, headers: Headers | None, owner: str | None, **options: Any
    ) -> None:
        options |= {"headers": check_headers(headers, self._limits), "owner": check_owner(owner, self._limits)}
        self._schedules.declare(name, every, **options)

    def _tick_event(self, schedule: Schedule, tick: Tick, now_ms: int) -> StagedEvent | None:
        """Return the checked event of a tick; None if its function wants none. Runs the caller's code."""
        return schedule.event(tick, self._checked, now_ms, self._context.headers(traced=False))
