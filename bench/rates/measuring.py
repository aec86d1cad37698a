"""The measured part: publish at a rate, wait for the worker, and work out how long each event took.

`latency_*` is from the return of the commit to the start of the handler; `due_*` from the moment at which the
schedule wanted the event published, so a publisher or a database that stalls is in it. An event that was not
handled in the time counts with the time it has waited: a queue that falls behind does not look quick.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from bench.case import Extra
from bench.errors import NotMeasured
from bench.rates.contenders import Contender, ContenderOpener
from bench.rivals.pacing import Pace, Row
from bench.run import Run, Size, pick

_WARM_UP = Pace(rate=100, seconds=0.5, first=1_000_000_000)
_WARM_UP_SECONDS = 20.0
_DRAIN_SECONDS = 2.0
_SETTLE_SECONDS = 0.3  # for what is written after the last handler: it belongs to the cost


@dataclass(frozen=True, kw_only=True)
class Rate:
    """One rate: its name in a variant, events a second, for how long, on how many connections."""

    name: str
    per_second: float | None
    seconds: int | Size
    connections: int

    def pace(self, *, full: bool) -> Pace:
        """Return the pace of a run."""
        return Pace(self.per_second, pick(self.seconds, full), self.connections)


RATES = (
    Rate(name="1/s", per_second=1, seconds=Size(quick=3, full=5), connections=1),
    Rate(name="10/s", per_second=10, seconds=Size(quick=3, full=5), connections=1),
    Rate(name="100/s", per_second=100, seconds=Size(quick=2, full=4), connections=1),
    Rate(name="1000/s", per_second=1000, seconds=Size(quick=2, full=3), connections=4),
    Rate(name="5000/s", per_second=5000, seconds=2, connections=8),
    Rate(name="flat out", per_second=None, seconds=2, connections=8),
)
# A file has one writer. These rounds are as short as quick ones: little is judged by them.
RATES_ON_A_FILE = tuple(replace(rate, connections=1, seconds=pick(rate.seconds, False)) for rate in RATES)


def flowing(opener: ContenderOpener) -> Callable[[Run], AbstractContextManager[Contender]]:
    """Return the setup: a contender that has handled a few events and rests."""

    @contextmanager
    def made(run: Run) -> Iterator[Contender]:
        with opener(run) as contender:
            published = contender.publish(_WARM_UP)
            if contender.wait(len(published), _WARM_UP_SECONDS) < len(published):
                raise NotMeasured("the events of the warm-up were not handled")
            contender.seen()
            yield contender

    return made


def flow(rate: Rate) -> Callable[[Run, Contender], Extra]:
    """Return the body for one rate."""

    def body(run: Run, contender: Contender) -> Extra:
        pace = rate.pace(full=run.full)
        published = contender.publish(pace)
        contender.wait(len(published), _DRAIN_SECONDS)
        end_ns = time.monotonic_ns()
        time.sleep(_SETTLE_SECONDS)
        return measures(pace, published, contender.seen(), end_ns)

    return body


def measures(pace: Pace, published: Sequence[Row], seen: Sequence[tuple[int, int]], end_ns: int) -> Mapping[str, float]:
    """Return the measures of a round from what was published and what was handled until its end.

    Raises NotMeasured when nothing was handled.
    """
    first: dict[int, int] = {}
    for number, moment_ns in seen:
        first.setdefault(number, moment_ns)
    handled = sum(number in first for number, _, _ in published)
    if not handled:
        raise NotMeasured(f"none of {len(published)} events was handled")
    latencies = [(first.get(number, end_ns) - committed) / 1e6 for number, _, committed in published]
    from_due = [(first.get(number, end_ns) - due) / 1e6 for number, due, _ in published]
    took = (max(row[2] for row in published) - min(row[1] for row in published)) / 1e9
    return {
        "latency_p50_ms": percentile(latencies, 50),
        "latency_p90_ms": percentile(latencies, 90),
        "latency_p99_ms": percentile(latencies, 99),
        "due_p50_ms": percentile(from_due, 50),
        "due_p99_ms": percentile(from_due, 99),
        "published_per_second": len(published) / max(pace.seconds, took),
        "unhandled": float(len(published) - handled),
        "handled_again": float(len(seen) - len(first)),
        "records": float(handled),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-percent * len(ordered) // 100) - 1)]
