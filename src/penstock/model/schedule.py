"""The ticks of a schedule: by a cron expression in a time zone, or at even intervals of elapsed time.

A rule is a value: it yields moments in milliseconds since 1970, and knows no clock. Cron expressions are read
by cronsim, which behaves like Debian's cron when clocks change: a fixed time that is skipped comes at the
first moment after the gap, one that is repeated comes once, and `*` goes by elapsed time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from penstock.clock import from_ms, to_ms
from penstock.errors import InvalidSchedule, shown

Every = str | timedelta | int | float
CatchUpWord = Literal["none", "last", "all"]

_FIELDS = 5
_LEAST_MS = 1000
_FIRST_WINDOW_MS = 3_600_000


class MissedTicks(StrEnum):
    """The treatment of ticks that were not published when due."""

    NONE = "none"  # skip them
    LAST = "last"  # publish the newest of them
    ALL = "all"  # publish each, up to a limit


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """Ticks at whole multiples of an interval since 1970, so that all processes agree on them."""

    interval_ms: int

    def after(self, moment_ms: int) -> int:
        """Return the first tick after a moment."""
        return (moment_ms // self.interval_ms + 1) * self.interval_ms

    def newest(self, after_ms: int, until_ms: int, most: int) -> list[int]:
        """Return the newest `most` ticks after one moment and up to another, oldest first."""
        last = until_ms // self.interval_ms
        first = max(after_ms // self.interval_ms + 1, last - most + 1)
        return [number * self.interval_ms for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class CronRule:
    """Ticks at the moments of a cron expression, read in a time zone."""

    expression: str
    zone: ZoneInfo

    def after(self, moment_ms: int) -> int:
        """Return the first tick after a moment."""
        return next(self._ticks(moment_ms))

    def newest(self, after_ms: int, until_ms: int, most: int) -> list[int]:
        """Return the newest ticks, searched in a window that grows backwards: a long absence costs no long walk."""
        window_ms = _FIRST_WINDOW_MS
        while True:
            begin_ms = max(until_ms - window_ms, after_ms)
            found = []
            for tick_ms in self._ticks(begin_ms):
                if tick_ms > until_ms:
                    break
                found.append(tick_ms)
            if len(found) >= most or begin_ms == after_ms:
                return found[-most:]
            window_ms *= 4

    def _ticks(self, after_ms: int) -> Iterator[int]:
        """Yield the ticks after a moment; in a repeated hour cronsim starts again from its first pass."""
        for tick in CronSim(self.expression, from_ms(after_ms).astimezone(self.zone)):
            tick_ms = to_ms(tick.astimezone(UTC))
            if tick_ms > after_ms:
                yield tick_ms


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored part of a schedule: `cron` with its time zone, or `interval_ms`. No `type`: its function's."""

    catch_up: MissedTicks
    topic: str
    type: str | None = None
    cron: str | None = None
    timezone: str | None = None
    interval_ms: int | None = None

    @property
    def rule(self) -> IntervalRule | CronRule:
        """The rule for its ticks."""
        if self.interval_ms is not None:
            return IntervalRule(self.interval_ms)
        assert self.cron is not None
        return CronRule(self.cron, ZoneInfo(self.timezone or "UTC"))

    @property
    def words(self) -> str:
        """The times of its ticks, for a listing; works even if the time zone is unknown here."""
        if self.interval_ms is not None:
            seconds = f"{self.interval_ms / 1000:.3f}".rstrip("0").rstrip(".")  # :g has six digits only
            return f"every {seconds} s"
        return f"{self.cron} {self.timezone}"

    def encode(self) -> str:
        """Return the definition as JSON."""
        return msgspec.json.encode(self, order="deterministic").decode()


def decode_definition(text: str) -> Definition:
    """Return the definition in a row."""
    return msgspec.json.decode(text, type=Definition)


def fingerprint(definition: str) -> str:
    """Return a short fingerprint, by which definitions are compared."""
    return blake2b(definition.encode(), digest_size=8).hexdigest()


def define(name: str, every: Every, *, timezone: str | None, catch_up: str, type: str | None, topic: str) -> Definition:
    """Return the checked definition of a schedule. Raises InvalidSchedule."""
    try:
        chosen = MissedTicks(catch_up)
    except ValueError:
        known = ", ".join(MissedTicks)
        raise InvalidSchedule(name, f"catch_up={shown(catch_up)} must be one of {known}") from None
    if not isinstance(every, str):
        if timezone is not None:
            why = f"timezone={shown(timezone)} is for cron expressions; an interval is elapsed time"
            raise InvalidSchedule(name, why)
        return Definition(chosen, topic, type, interval_ms=_interval_ms(name, every))
    cron, zone = " ".join(every.upper().split()), _zone(name, timezone or "UTC")
    if len(cron.split()) != _FIELDS:
        fields = "minute, hour, day of month, month, day of week"
        raise InvalidSchedule(name, f"{shown(every)} must have five fields: {fields}; for seconds use an interval")
    try:
        next(CronSim(cron, datetime(2000, 1, 1, tzinfo=zone)))
    except CronSimError as exc:
        raise InvalidSchedule(name, f"{shown(every)} is not a cron expression: {exc}") from None
    except StopIteration:
        raise InvalidSchedule(name, f"{shown(every)} never ticks") from None
    return Definition(chosen, topic, type, cron=cron, timezone=zone.key)


def _interval_ms(name: str, every: object) -> int:
    if isinstance(every, bool) or not isinstance(every, timedelta | int | float):
        raise InvalidSchedule(name, f"every={shown(every)} must be a cron expression, a timedelta or seconds")
    try:
        lasting = every if isinstance(every, timedelta) else timedelta(seconds=every)
    except (OverflowError, ValueError):
        raise InvalidSchedule(name, f"every={shown(every)} is not an interval") from None
    interval_ms = lasting // timedelta(milliseconds=1)
    if interval_ms < _LEAST_MS or timedelta(milliseconds=interval_ms) != lasting:
        raise InvalidSchedule(name, f"every={shown(every)} must be at least 1 second, in whole milliseconds")
    return interval_ms


def _zone(name: str, timezone: object) -> ZoneInfo:
    if isinstance(timezone, str):
        try:
            return ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    remedy = "use a name such as Europe/Berlin; a machine without any needs `pip install tzdata`"
    raise InvalidSchedule(name, f"timezone={shown(timezone)} is not a time zone known here; {remedy}")
