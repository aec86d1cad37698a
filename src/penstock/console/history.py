"""What the overview was a moment ago, and before: for rates and curves. Taken only while somebody looks.

Any number of visitors cost the store one look in `LOOK_SECONDS`. What is kept is bounded, and lost when the
process ends: it is for the eye, `metrics` are for the record.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

from penstock.clock import Clock
from penstock.operate.members import Presence
from penstock.operate.overview import StoreOverview

LOOK_SECONDS = 1.0
KEPT = 300
_GAP_SECONDS = 30.0  # between two looks so far apart no rate is told


@dataclass(frozen=True, slots=True)
class Look:
    """One look. `mark`: which members came or went since the look before."""

    at: float
    overview: StoreOverview
    mark: str = ""


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
    """The last looks at one store."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, Lock()
        self._looks: deque[Look] = deque(maxlen=KEPT)

    def now(self, ask: Callable[[], StoreOverview], *, fresh: bool = False) -> StoreOverview:
        """Return the overview, of a moment ago at most; `ask` gives another one. `fresh`: always ask."""
        with self._lock:
            at = self._clock.monotonic()
            if self._looks and at - self._looks[-1].at < LOOK_SECONDS and not fresh:
                return self._looks[-1].overview
            found = ask()
            before = self._looks[-1].overview if self._looks else None
            self._looks.append(Look(at, found, _changes(before, found)))
            return found

    def level(self, value: Callable[[StoreOverview], float]) -> Curve:
        """Return a value over time."""
        looks = list(self._looks)
        return Curve(tuple((each.at, value(each.overview)) for each in looks), _marks(looks))

    def rate(self, total: Callable[[StoreOverview], int]) -> Curve:
        """Return how fast a total rises, a second."""
        looks = list(self._looks)
        return Curve(tuple(_rates(looks, total)), _marks(looks))


def _rates(looks: list[Look], total: Callable[[StoreOverview], int]) -> Iterator[tuple[float, float]]:
    for before, after in pairwise(looks):
        seconds = (after.overview.at - before.overview.at).total_seconds()
        if 0 < seconds <= _GAP_SECONDS:
            yield after.at, max(0.0, (total(after.overview) - total(before.overview)) / seconds)


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
