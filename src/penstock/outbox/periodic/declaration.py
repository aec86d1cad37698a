"""Declared schedules: a name, the times of the ticks, and the function that makes the event of a tick."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from penstock.clock import from_ms
from penstock.errors import InvalidSchedule, shown
from penstock.model.ids import repeatable_id
from penstock.model.limits import NAME_CHARACTERS, check_key, check_topic, check_type
from penstock.model.record import RawHeaders
from penstock.model.schedule import Definition, Every, define, fingerprint

from ..contract import StagedEvent
from ..staging import DEFAULT_TOPIC, NOT_GIVEN, with_id

SCHEDULE, TICK = "penstock-schedule", "penstock-tick"  # headers of the event of a tick

Making = Callable[..., Any]
# Publisher's check of an event: its type (or the event object), value, options, the moment and headers.
EventCheck = Callable[[Any, Any, dict[str, Any], int, RawHeaders], StagedEvent]


class Tick(NamedTuple):
    """One moment of a schedule, and the store for its event."""

    schedule: str
    at_ms: int
    store_id: str

    @property
    def id(self) -> str:
        """The id of its event, the same in every process."""
        return repeatable_id(self.at_ms, f"{self.store_id}/{self.schedule}")

    @property
    def headers(self) -> RawHeaders:
        """The headers of its event that identify the tick."""
        at = f"{from_ms(self.at_ms).astimezone(UTC).isoformat(timespec='milliseconds')[:-6]}Z"
        return (SCHEDULE, self.schedule.encode()), (TICK, at.encode())


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """One schedule. `make` returns the value or event of a tick; None: the value is constant."""

    name: str
    definition: Definition
    options: dict[str, Any]
    make: Making | None = None
    takes_tick: bool = False
    value: Any = None

    @property
    def encoded(self) -> str:
        """Its definition in stored form."""
        return self.definition.encode()

    @property
    def fingerprint(self) -> str:
        """The fingerprint that definitions are compared by."""
        return fingerprint(self.encoded)

    def event(self, tick: Tick, checked: EventCheck, now_ms: int, context: RawHeaders) -> StagedEvent | None:
        """Return the event of a tick, or None if the program's function, which it calls, wants none."""
        value = self.value if self.make is None else self._made(tick.at_ms)
        if self.make is not None and value is None:
            return None
        headers = (*context, *tick.headers)
        if self.definition.type is None:
            return with_id(checked(value, NOT_GIVEN, {}, now_ms, headers), tick.id)
        options = {**self.options, "topic": self.definition.topic}
        return with_id(checked(self.definition.type, value, options, now_ms, headers), tick.id)

    def _made(self, tick_ms: int) -> Any:
        assert self.make is not None
        if not self.takes_tick:
            return self.make()
        return self.make(from_ms(tick_ms).astimezone(ZoneInfo(self.definition.timezone or "UTC")))


class Schedules:
    """The schedules of one outbox, by name."""

    def __init__(self) -> None:
        self._all: dict[str, Schedule] = {}

    def __iter__(self) -> Iterator[Schedule]:
        return iter(list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def fingerprints(self) -> tuple[tuple[str, str], ...]:
        """Return the names, each with the fingerprint of its definition."""
        return tuple(sorted((each.name, each.fingerprint) for each in self))

    def declare(
        self,
        name: str | None,
        every: Every,
        *,
        type: str | None,
        topic: str,
        timezone: str | None,
        catch_up: str,
        make: Making | None = None,
        value: Any = None,
        **options: Any,
    ) -> Schedule:
        """Add a schedule. Raises InvalidSchedule, InvalidType, InvalidTopic, InvalidKey."""
        chosen = type if name is None else name
        if not isinstance(chosen, str) or not 0 < len(chosen) <= NAME_CHARACTERS or not chosen.isprintable():
            why = f"it needs a name of 1 to {NAME_CHARACTERS} printable characters, or a type that names it"
            raise InvalidSchedule(chosen, why)
        if chosen in self._all:
            raise InvalidSchedule(chosen, "is declared twice; rename one of them")
        if type is not None:
            check_type(type)
        elif topic != DEFAULT_TOPIC or any(options.values()):
            raise InvalidSchedule(chosen, "key, topic, headers and owner need a type; a registered event has its own")
        check_topic(topic)
        check_key(options.get("key"))
        definition = define(chosen, every, timezone=timezone, catch_up=catch_up, type=type, topic=topic)
        takes_tick = make is not None and _takes_tick(chosen, make)
        made = self._all[chosen] = Schedule(chosen, definition, options, make, takes_tick, value)
        return made


def _takes_tick(name: str, make: Making) -> bool:
    if not callable(make):
        raise InvalidSchedule(name, f"{shown(make)} is not a function that returns the value of the event")
    if inspect.iscoroutinefunction(make):
        why = "its function is async; return a value at once and do the work in a handler of the event"
        raise InvalidSchedule(name, why)
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):
        return False
    if _can_take(signature):
        return False
    if _can_take(signature, datetime(2000, 1, 1, tzinfo=UTC)):
        return True
    why = f"its function takes {signature}; it must take nothing, or the moment of the tick"
    raise InvalidSchedule(name, why)


def _can_take(signature: inspect.Signature, *given: object) -> bool:
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True
