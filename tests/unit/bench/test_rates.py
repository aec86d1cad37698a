"""What is worked out from commits and handlers: percentiles, latencies, the rule of the sustained rate."""

from collections.abc import Iterator

import pytest

from bench import Run
from bench.cases import sustained
from bench.catalogue import catalogue
from bench.meter import ProcessMeter
from bench.rates import Contender, penstock_on
from bench.rates.measuring import measures, percentile
from bench.rates.sustaining import BATCH, Probe, highest, probe_of
from bench.result import Settings
from bench.rivals.pacing import Pace
from bench.run import Shared
from bench.runner import Runner
from bench.stores import sqlite
from tests.unit.bench.fakes import Journal

MS = 1_000_000
SECOND = 1000 * MS


@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [
        ([7.0], 50, 7.0),
        ([7.0], 99, 7.0),
        ([3.0, 1.0, 2.0, 4.0], 50, 2.0),
        ([3.0, 1.0, 2.0, 4.0], 75, 3.0),
        ([3.0, 1.0, 2.0, 4.0], 76, 4.0),
        ([float(value) for value in range(1, 101)], 90, 90.0),
        ([float(value) for value in range(1, 101)], 99, 99.0),
        ([float(value) for value in range(1, 1001)], 99, 990.0),
    ],
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    values: list[float], percent: float, found: float
) -> None:
    assert percentile(values, percent) == found


def test_latency_is_from_the_commit_and_the_schedule_is_apart() -> None:
    published = [(0, 0, 10 * MS), (1, 5 * MS, 20 * MS)]  # the second was published 10 ms late

    found = measures(Pace(2, 1), published, [(1, 26 * MS), (0, 12 * MS)], end_ns=SECOND)

    assert (found["latency_p50_ms"], found["latency_p99_ms"]) == (2.0, 6.0)
    assert (found["due_p50_ms"], found["due_p99_ms"]) == (12.0, 21.0)
    assert (found["records"], found["unhandled"]) == (2, 0)
    assert found["published_per_second"] == 2.0


def test_what_was_not_handled_counts_with_the_time_it_has_waited() -> None:
    published = [(number, 0, 0) for number in range(4)]

    found = measures(Pace(4, 1), published, [(0, MS)], end_ns=500 * MS)

    assert found["latency_p50_ms"] == 500.0
    assert (found["records"], found["unhandled"]) == (1, 3)


def a_probe(**given: float) -> Probe:
    fields: dict[str, float] = {
        "target_per_second": 1000,
        "handled_per_second": 1000,
        "growth_per_second": 0,
        "final_backlog": 0,
        "drain_seconds": 0,
        "p50_ms": 1,
        "p95_ms": 1,
        "p99_ms": 1,
    }
    return Probe(**{**fields, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "is_sustained"),
    [
        ({}, True),
        ({"handled_per_second": 990}, True),
        ({"handled_per_second": 989}, False),
        ({"growth_per_second": 100}, True),
        ({"growth_per_second": 100.5}, False),
        ({"growth_per_second": -500}, True),
        ({"final_backlog": 20_000}, True),
        ({"final_backlog": 20_001}, False),
    ],
)
def test_the_rule_is_namastacks(given: dict[str, float], is_sustained: bool) -> None:
    assert a_probe(**given).is_sustained is is_sustained


def a_flow(per_second: int, handled_per_second: int, seconds: int) -> Probe:
    """Return the probe of commits at one rate and handlers at another, exactly in time."""
    transactions = per_second // BATCH * seconds
    gap = SECOND * BATCH // per_second
    published = [(number, number * gap, number * gap) for number in range(transactions)]
    seen = [
        (order, max(order // BATCH * gap, order * SECOND // handled_per_second))
        for order in range(transactions * BATCH)
    ]
    return probe_of(per_second, published, seen, warm_seconds=1)


def test_a_flow_that_falls_behind_grows_by_the_difference() -> None:
    probe = a_flow(1000, 600, seconds=5)

    assert probe.handled_per_second == pytest.approx(600, rel=0.01)
    assert probe.growth_per_second == pytest.approx(400, rel=0.05)
    assert probe.final_backlog == pytest.approx(2060, abs=BATCH)
    assert probe.drain_seconds == pytest.approx(5 / 0.6 - 4.9, abs=0.05)
    assert probe.p50_ms < probe.p95_ms < probe.p99_ms
    assert not probe.is_sustained


@pytest.mark.parametrize("limit", [180.0, 950.0, 1000.0, 8_000.0, 20_000.0])
def test_the_search_comes_close_below_the_limit(limit: float) -> None:
    tried: list[float] = []

    def attempt(per_second: float) -> Probe:
        tried.append(per_second)
        return a_probe(target_per_second=per_second, handled_per_second=min(per_second, limit))

    found = highest(1000, attempt)

    assert found.is_sustained
    assert limit / 1.07 <= found.target_per_second <= limit / 0.99
    assert len(tried) == len(set(tried))


@pytest.fixture
def run() -> Iterator[Run]:
    with Shared() as shared:
        yield Run(full=False, records=1, round=1, shared=shared)


def assert_that_all_is_handled_once(contender: Contender, pace: Pace) -> None:
    published = contender.publish(pace)  # a busy machine may not reach the end of the schedule
    assert published
    assert contender.wait(len(published), 60) == len(published)
    assert sorted(number for number, _ in contender.seen()) == sorted(row[0] for row in published)
    assert contender.wait(1, 0) == 0


def test_penstocks_processes_publish_and_handle_every_event_once(run: Run) -> None:
    with penstock_on(sqlite)(run) as contender:
        assert_that_all_is_handled_once(contender, Pace(rate=200, seconds=0.1))
        assert_that_all_is_handled_once(contender, Pace(rate=100, seconds=0.05, first=500))
    assert set(run.watched) == {"publisher", "worker"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part"), [("rates", "100/s"), ("sustained", "4 workers")])
def test_the_cases_about_rates_run(name: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Penstock's own variants: the rivals are installed by whoever measures."""
    monkeypatch.setattr(sustained, "highest", lambda start, attempt: attempt(500.0))  # no search
    case = catalogue()[name]().only([["Penstock"], [part]])
    journal = Journal()

    result = Runner(Settings(rounds=1), ProcessMeter(), journal).run(case)

    [variant] = result.variants
    assert variant.not_measured is None, journal.lines
    assert {"worker_cpu_us", "postgres_cpu_us", "publisher_cpu_us"} <= variant.spread.keys()
    assert result.versions["PostgreSQL"]
