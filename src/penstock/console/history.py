"""The recent overviews of a store, for rates and curves. Overviews are taken only while a page is open.

Any number of visitors cost the store one overview per `LOOK_SECONDS`. The history is bounded and ends with
the process: it feeds curves on a page, `metrics` is for monitoring.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

from penstock.clock import Clock
from penstock.operate.members import Presence
from penstock.operate.overview import StoreOverview

WIDTH, HEIGHT = 160.0, 36.0
_EDGE = 2.0
LOOK_SECONDS = 1.0
SPAN_SECONDS = 120.0  # the width of a curve
KEPT = 300
_GAP_SECONDS = 30.0  # no rate is computed across a longer gap


@dataclass(frozen=True, slots=True)
class Look:
    """One overview. `mark`: members that came or went since the last one; `passed`: each group's total."""

    at: float
    overview: StoreOverview
    mark: str
    passed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Curve:
    """A series over time: (second, value) pairs, and the marks."""

    points: tuple[tuple[float, float], ...]
    marks: tuple[tuple[float, str], ...] = ()

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None


class OverviewHistory:
    """The last overviews of one store; curves show the last `span_seconds`."""

    def __init__(self, clock: Clock, *, span_seconds: float = SPAN_SECONDS) -> None:
        self._clock, self._lock, self._span_seconds = clock, Lock(), span_seconds
        self._looks: deque[Look] = deque(maxlen=KEPT)
        self._acted_at = float("-inf")

    def acted(self) -> None:
        """Expire the kept overview, because an act from this console changed the store."""
        self._acted_at = self._clock.monotonic()

    def now(self, ask: Callable[[], StoreOverview], *, fresh: bool = False) -> StoreOverview:
        """Return an overview, at most `LOOK_SECONDS` old; `ask` takes one. `fresh`: always take a new one."""
        with self._lock:
            at = self._clock.monotonic()
            last = self._looks[-1].at if self._looks else float("-inf")
            if last > self._acted_at and at - last < LOOK_SECONDS and not fresh:
                return self._looks[-1].overview
            found = ask()
            before = self._looks[-1].overview if self._looks else None
            passed = {each.name: each.passed for each in found.groups}
            self._looks.append(Look(at, found, _changes(before, found), passed))
            return found

    def level(self, value: Callable[[StoreOverview], float]) -> Curve:
        """Return a value over time."""
        looks = self._shown()
        return Curve(tuple((each.at, value(each.overview)) for each in looks), _marks(looks))

    def rate(self, total: Callable[[StoreOverview], int]) -> Curve:
        """Return how much a total rises per second."""
        return self._rate(lambda each: total(each.overview))

    def group_rates(self, names: Iterable[str]) -> dict[str, Curve]:
        """Return how many records per second each of these groups passes."""
        return {name: self._rate(lambda each, name=name: each.passed.get(name, 0)) for name in names}  # type: ignore[misc]

    def _rate(self, total: Callable[[Look], int]) -> Curve:
        looks = self._shown()
        return Curve(tuple(_rates(looks, total)), _marks(looks))

    def _shown(self) -> list[Look]:
        looks = list(self._looks)
        return [each for each in looks if looks[-1].at - each.at <= self._span_seconds]


def _rates(looks: list[Look], total: Callable[[Look], int]) -> Iterator[tuple[float, float]]:
    for before, after in pairwise(looks):
        seconds = (after.overview.at - before.overview.at).total_seconds()
        if 0 < seconds <= _GAP_SECONDS:
            yield after.at, max(0.0, (total(after) - total(before)) / seconds)


def _marks(looks: list[Look]) -> tuple[tuple[float, str], ...]:
    return tuple((each.at, each.mark) for each in looks if each.mark)


def _changes(before: StoreOverview | None, after: StoreOverview) -> str:
    if before is None:
        return ""
    was, now = _present(before), _present(after)
    changes = [f"{len(now - was)} joined"] if now - was else []
    changes += [f"{len(was - now)} left"] if was - now else []
    return ", ".join(changes)


def _present(overview: StoreOverview) -> set[str]:
    return {each.id for each in overview.members if each.presence in (Presence.RUNNING, Presence.STOPPING)}


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A small curve: a line, the area below it, its end point, and its marks as (x, text)."""

    line: str
    area: str
    end: tuple[float, float] | None
    marks: tuple[tuple[float, str], ...]
    top: float


def sparkline(curve: Curve) -> Sparkline:
    """Return the last two minutes of a curve; the newest point is at the right edge."""
    if not curve.points:
        return Sparkline("", "", None, (), 0.0)
    newest = curve.points[-1][0]
    shown = [each for each in curve.points if newest - each[0] <= SPAN_SECONDS]
    top = max((value for _, value in shown), default=0.0)
    scale = (HEIGHT - 2 * _EDGE) / top if top else 0.0
    places = [(_x(at, newest), round(HEIGHT - _EDGE - value * scale, 1)) for at, value in shown]
    line = " ".join(f"{x},{y}" for x, y in places)
    area = f"{places[0][0]},{HEIGHT} {line} {places[-1][0]},{HEIGHT}"
    marks = tuple((_x(at, newest), text) for at, text in curve.marks if newest - at <= SPAN_SECONDS)
    return Sparkline(line, area, places[-1], marks, top)


def _x(at: float, newest: float) -> float:
    return round(WIDTH - _EDGE - (newest - at) / SPAN_SECONDS * (WIDTH - 2 * _EDGE), 1)
