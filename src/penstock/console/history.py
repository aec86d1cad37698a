"""What the overview was a moment ago, and before: for rates and curves. Taken only while somebody looks.

Any number of visitors cost the store one look in `LOOK_SECONDS`. What is kept is bounded, and lost when the
process ends: it is for the eye, `metrics` are for the record.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

from penstock.clock import Clock
from penstock.operate.members import Presence
from penstock.operate.overview import StoreOverview

LOOK_SECONDS = 1.0
SPAN_SECONDS = 120.0  # what curves show
KEPT = 300
_GAP_SECONDS = 30.0  # between two looks so far apart no rate is told


@dataclass(frozen=True, slots=True)
class Look:
    """One look. `mark`: which members came or went since the look before; `passed`: by each group, in all."""

    at: float
    overview: StoreOverview
    mark: str
    passed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Curve:
    """A series over time: its values with the second of each, and the marks."""

    points: tuple[tuple[float, float], ...]
    marks: tuple[tuple[float, str], ...] = ()

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None


class OverviewHistory:
    """The last looks at one store; curves are of the last `span_seconds`."""

    def __init__(self, clock: Clock, *, span_seconds: float = SPAN_SECONDS) -> None:
        self._clock, self._lock, self._span_seconds = clock, Lock(), span_seconds
        self._looks: deque[Look] = deque(maxlen=KEPT)
        self._acted_at = float("-inf")

    def acted(self) -> None:
        """Let the next one who looks see the store as it is now: somebody has changed it from here."""
        self._acted_at = self._clock.monotonic()

    def now(self, ask: Callable[[], StoreOverview], *, fresh: bool = False) -> StoreOverview:
        """Return the overview, of a moment ago at most; `ask` gives another one. `fresh`: always ask."""
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
        """Return how fast a total rises, a second."""
        looks = self._shown()
        return Curve(tuple(_rates(looks, lambda each: total(each.overview))), _marks(looks))

    def group_rates(self, names: Iterable[str]) -> dict[str, Curve]:
        """Return how fast each of some groups passes records, a second."""
        looks = self._shown()
        marks = _marks(looks)
        return {
            name: Curve(tuple(_rates(looks, lambda each, name=name: each.passed.get(name, 0))), marks)  # type: ignore[misc]
            for name in names
        }

    def _shown(self) -> list[Look]:
        """Return the looks that curves show."""
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
    told = [f"{len(now - was)} joined"] if now - was else []
    told += [f"{len(was - now)} left"] if was - now else []
    return ", ".join(told)


def _present(overview: StoreOverview) -> set[str]:
    return {each.id for each in overview.members if each.presence in (Presence.RUNNING, Presence.STOPPING)}
