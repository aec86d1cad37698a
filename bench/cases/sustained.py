"""The highest rate that four worker processes sustain on PostgreSQL, by Namastack's own profile and rule.

`bench/rates/sustaining.py` says what both are. The first round searches; each later one tries what was found
again, and lowers it when it is not sustained this time. So the smallest number of all rounds is the claim.
Namastack's number comes from its own page and another machine: it stands beside ours and is no target.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench import Case, Extra, NotMeasured, Run, Size, Variant
from bench.rates.penstock_processes import Crew, crew_on, watch
from bench.rates.sustaining import BATCH, NAMASTACK_PER_SECOND, Probe, again, highest, probe_of
from bench.rivals.pacing import Pace
from bench.stores import postgres

WORKERS = 4
_PRODUCERS = 4
_START_PER_SECOND = 4000.0
_WARM_SECONDS = 1.0
_DRAIN_SECONDS = 60.0
_LOOK_SECONDS = 0.05


@dataclass
class Site:
    """The crew, and what was found so far."""

    crew: Crew
    found: Probe | None = None
    transactions: int = 0
    handled: int = 0
    attempts: list[Probe] = field(default_factory=list)

    def attempt(self, per_second: float, seconds: float) -> Probe:
        """Publish at a rate and wait until all is handled. Raises NotMeasured."""
        pace = Pace(per_second / BATCH, seconds, _PRODUCERS, first=self.transactions)
        published = self.crew.publisher.publish(pace, BATCH)
        self.transactions = max(row[0] for row in published) + 1
        self.handled += len(published) * BATCH
        self._wait()
        seen = [row for worker in self.crew.workers for row in worker.seen()]
        self.attempts.append(probe_of(per_second, published, seen, _WARM_SECONDS))
        return self.attempts[-1]

    def _wait(self) -> None:
        end = time.monotonic() + _DRAIN_SECONDS
        while sum(worker.handled() for worker in self.crew.workers) < self.handled:
            if time.monotonic() > end:
                raise NotMeasured(f"the backlog was not handled in {_DRAIN_SECONDS:g} s")
            time.sleep(_LOOK_SECONDS)


@contextmanager
def _site(run: Run) -> Iterator[Site]:
    with crew_on(postgres, WORKERS)(run) as crew:
        yield Site(crew)


@contextmanager
def joined(run: Run) -> Iterator[Site]:
    """Give the crew, which all rounds share."""
    site = run.once(_site)
    watch(run, postgres, site.crew)
    site.attempts.clear()
    yield site


def sustain(run: Run, site: Site) -> Extra:
    """Search, or try again what was found."""
    seconds, before = _WARM_SECONDS + run.size(quick=3, full=6), site.handled

    def attempt(per_second: float) -> Probe:
        return site.attempt(per_second, seconds)

    found = highest(_START_PER_SECOND, attempt) if site.found is None else again(site.found.target_per_second, attempt)
    site.found = found
    return {
        "sustained_per_second": found.target_per_second,
        "reached_per_second": found.handled_per_second,
        "namastack_per_second": NAMASTACK_PER_SECOND,
        "growth_per_second": found.growth_per_second,
        "final_backlog": found.final_backlog,
        "drain_seconds": found.drain_seconds,
        "wait_p50_ms": found.p50_ms,
        "wait_p95_ms": found.p95_ms,
        "wait_p99_ms": found.p99_ms,
        "attempts": len(site.attempts),
        "refused": sum(not probe.is_sustained for probe in site.attempts),
        "records": site.handled - before,
    }


CASE = Case(
    name="sustained",
    about="the highest sustained rate of four workers, 100 events per transaction, by Namastack's rule",
    rounds=Size(quick=1, full=5),
    warm_up=False,
    variants=[Variant("Penstock, 4 workers", sustain, setup=joined)],
)
