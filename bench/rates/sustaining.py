"""The highest rate that is sustained, by the profile and the rule of Namastack's published load results.

Its profile: a hundred records per producer transaction, ten records per key, four producers, four worker
processes, handlers that do nothing. Its rule: a rate is sustained when it is reached, the backlog grows by no
more than 100 records a second, and no more than 20,000 wait at the end. Ours differs in length: it ran two
minutes, we run some seconds several times.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import linear_regression

from bench.errors import NotMeasured
from bench.rates.measuring import percentile
from bench.rivals.pacing import Row

BATCH = 100
NAMASTACK_PER_SECOND = 9982  # its best published profile, on an Apple M2 Pro
_REACHED = 0.99  # its own table calls 9,938.85 of 10,000 reached
_MOST_GROWTH_PER_SECOND = 100
_MOST_BACKLOG = 20_000
_SAMPLE_NS = 50_000_000
_FACTOR = 1.25
_DOWN = 0.95
_CLOSE = 1.06  # how near the two ends of the search come
_MOST_ATTEMPTS = 18


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What one rate did."""

    target_per_second: float
    handled_per_second: float
    growth_per_second: float
    final_backlog: int
    drain_seconds: float
    p50_ms: float
    p95_ms: float
    p99_ms: float

    @property
    def is_sustained(self) -> bool:
        """The verdict."""
        return (
            self.handled_per_second >= self.target_per_second * _REACHED
            and self.growth_per_second <= _MOST_GROWTH_PER_SECOND
            and self.final_backlog <= _MOST_BACKLOG
        )


def probe_of(
    target_per_second: float, published: Sequence[Row], seen: Sequence[tuple[int, int]], warm_seconds: float
) -> Probe:
    """Return what a rate did, from each transaction's commit and each event's handling.

    The window begins some seconds after the first transaction was due and ends when the last was committed;
    the backlog at any moment is what was committed minus what was handled by then.
    """
    commits = {number: committed for number, _, committed in published}
    first: dict[int, int] = {}
    for order, moment_ns in seen:
        first.setdefault(order, moment_ns)
    committed = sorted(commits.values())
    handled = sorted(first.values())
    start_ns = min(due for _, due, _ in published) + int(warm_seconds * 1e9)
    end_ns = committed[-1]

    def backlog(at_ns: int) -> int:
        return bisect_right(committed, at_ns) * BATCH - bisect_right(handled, at_ns)

    moments = range(start_ns, end_ns + 1, _SAMPLE_NS)
    slope, _ = linear_regression([at / 1e9 for at in moments], [backlog(at) for at in moments])
    in_window = bisect_right(handled, end_ns) - bisect_right(handled, start_ns)
    waits = [
        (moment - commits[order // BATCH]) / 1e6
        for order, moment in first.items()
        if commits.get(order // BATCH, 0) >= start_ns
    ]
    return Probe(
        target_per_second=target_per_second,
        handled_per_second=in_window / (end_ns - start_ns) * 1e9,
        growth_per_second=slope,
        final_backlog=backlog(end_ns),
        drain_seconds=max(0, handled[-1] - end_ns) / 1e9,
        p50_ms=percentile(waits, 50),
        p95_ms=percentile(waits, 95),
        p99_ms=percentile(waits, 99),
    )


Attempt = Callable[[float], Probe]


def highest(start_per_second: float, attempt: Attempt) -> Probe:
    """Return the highest rate that is sustained.

    It goes up or down by a factor until the verdict turns, and then between the two until they are close.
    Raises NotMeasured when that takes too many attempts.
    """
    best: Probe | None = None
    refused = 0.0
    rate = start_per_second
    for _ in range(_MOST_ATTEMPTS):
        probe = attempt(rate)
        if probe.is_sustained:
            best = probe
        else:
            refused = rate
        if best is None:
            rate = refused / _FACTOR
        elif not refused:
            rate = best.target_per_second * _FACTOR
        elif refused / best.target_per_second <= _CLOSE:
            return best
        else:
            rate = sqrt(refused * best.target_per_second)
    raise NotMeasured(f"no highest rate was found in {_MOST_ATTEMPTS} attempts; the last was {rate:.0f}/s")


def again(per_second: float, attempt: Attempt) -> Probe:
    """Return the same rate once more, or the next below that is sustained this time. Raises NotMeasured."""
    for _ in range(_MOST_ATTEMPTS):
        probe = attempt(per_second)
        if probe.is_sustained:
            return probe
        per_second *= _DOWN
    raise NotMeasured(f"{per_second:.0f}/s is not sustained, and was a round ago")
