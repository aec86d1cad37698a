import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import pytest

from penstock import metrics
from penstock.metrics import PUBLISHED, SERIES, Buckets, Series, SeriesKind, snapshot


@pytest.fixture
def counter() -> Series:
    return Series("test_total", SeriesKind.COUNTER, "Things.", ("topic", "kind"))


@pytest.fixture
def gauge() -> Series:
    return Series("test_now", SeriesKind.GAUGE, "Things now.", ("topic",))


@pytest.fixture
def histogram() -> Series:
    return Series("test_seconds", SeriesKind.HISTOGRAM, "How long.", ("topic",))


@pytest.fixture
def _fresh_series() -> Iterator[None]:
    for series in SERIES:
        series.reset()
    yield
    for series in SERIES:
        series.reset()


def test_a_counter_grows_by_what_is_added(counter: Series) -> None:
    counter.add(topic="a", kind="x")
    counter.add(4, topic="a", kind="x")
    counter.add(0, topic="b", kind="x")

    assert counter.values() == {("a", "x"): 5, ("b", "x"): 0}


def test_labels_count_by_name_not_by_order(counter: Series) -> None:
    counter.add(kind="x", topic="a")

    assert counter.values() == {("a", "x"): 1}


@pytest.mark.parametrize("labels", [{}, {"topic": "a"}, {"topic": "a", "kind": "x", "more": "y"}, {"topik": "a"}])
def test_labels_that_were_not_declared_are_refused(counter: Series, labels: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="test_total takes the labels"):
        counter.add(1, **labels)
    assert counter.values() == {}


def test_a_counter_never_falls(counter: Series) -> None:
    with pytest.raises(AssertionError, match="cannot be incremented by -1"):
        counter.add(-1, topic="a", kind="x")


def test_a_gauge_is_set(gauge: Series) -> None:
    gauge.set(5, topic="a")
    gauge.set(-1.5, topic="a")

    assert gauge.values() == {("a",): -1.5}


def test_a_series_takes_only_what_its_kind_can(counter: Series, gauge: Series, histogram: Series) -> None:
    with pytest.raises(AssertionError, match="test_now is not a counter"):
        gauge.add(1, topic="a")
    with pytest.raises(AssertionError, match="test_seconds is not a gauge"):
        histogram.set(1, topic="a")
    with pytest.raises(AssertionError, match="test_total is not a histogram"):
        counter.observe(1, topic="a", kind="x")


def test_an_observation_is_counted_under_the_lowest_bound_at_or_above_it(histogram: Series) -> None:
    bounds = metrics.BOUNDS
    observed = [0.0, bounds[0], bounds[0] + 1e-9, bounds[-1], bounds[-1] + 1, 1e9]

    for seconds in observed:
        histogram.observe(seconds, topic="a")

    buckets = histogram.values()[("a",)]
    expected = [0] * (len(bounds) + 1)
    expected[0], expected[1], expected[-2], expected[-1] = 2, 1, 1, 2
    assert buckets.counts == expected
    assert buckets.total == pytest.approx(sum(observed))


def test_bounds_rise() -> None:
    assert sorted(set(metrics.BOUNDS)) == list(metrics.BOUNDS)


def test_values_stay_as_they_were_when_they_were_asked_for(counter: Series, histogram: Series) -> None:
    counter.add(topic="a", kind="x")
    histogram.observe(0.1, topic="a")
    counted, timed = counter.values(), histogram.values()

    counter.add(topic="a", kind="x")
    histogram.observe(0.1, topic="a")

    assert counted == {("a", "x"): 1}
    assert (sum(timed[("a",)].counts), timed[("a",)].total) == (1, 0.1)


class Interrupted(dict[Any, Any]):
    """Values that another thread likes to come between: after each look many switches are possible."""

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        for _ in range(20):
            pass
        return found

    def setdefault(self, key: Any, default: Any = None) -> Any:
        for _ in range(20):
            pass
        return super().setdefault(key, default)


def test_two_threads_lose_no_count(counter: Series, histogram: Series) -> None:
    def count(_: int) -> None:
        for _ in range(5_000):
            counter.add(topic="a", kind="x")

    def observe(_: int) -> None:
        for number in range(5_000):
            histogram.observe(1.0, topic=f"{number}")

    counter._values, histogram._values = Interrupted(), Interrupted()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(count, range(2)))
            list(threads.map(observe, range(2)))
    finally:
        sys.setswitchinterval(interval)

    assert counter.values() == {("a", "x"): 10_000}
    assert all(buckets.total == 2 for buckets in histogram.values().values())


def test_reset_forgets_all_values(gauge: Series) -> None:
    gauge.set(1, topic="a")

    gauge.reset()

    assert gauge.values() == {}


@pytest.mark.usefixtures("_fresh_series")
def test_a_snapshot_holds_every_series_by_name() -> None:
    PUBLISHED.add(3, topic="events")

    taken = snapshot()

    assert set(taken) == {series.name for series in SERIES}
    assert taken["penstock_published_total"] == {("events",): 3}


def test_series_have_names_of_their_own_and_say_what_they_are() -> None:
    names = [series.name for series in SERIES]

    assert len(set(names)) == len(names)
    for series in SERIES:
        assert series.name.startswith("penstock_")
        assert series.help.endswith(".")
        assert series.name.endswith("_total") == (series.kind is SeriesKind.COUNTER)


def test_a_new_histogram_has_a_place_above_the_last_bound() -> None:
    assert len(Buckets().counts) == len(metrics.BOUNDS) + 1


def test_what_was_noted_is_there_when_it_is_read(counter: Series, histogram: Series) -> None:
    label = ["a"] * len(counter.labels)
    for _ in range(1000):
        counter.note(2, *label)
        histogram.note(0.003, *["a"] * len(histogram.labels))
    assert counter.values() == {tuple(label): 2000}
    [buckets] = histogram.values().values()
    assert (sum(buckets.counts), buckets.total) == (1000, pytest.approx(3.0))


def test_noting_keeps_few(counter: Series) -> None:
    for _ in range(10_000):
        counter.note(1, *["a"] * len(counter.labels))
    assert len(counter._noted) < 1000


def test_a_reset_forgets_what_was_noted(counter: Series) -> None:
    counter.note(1, *["a"] * len(counter.labels))
    counter.reset()
    assert counter.values() == {}


def test_two_threads_that_note_lose_nothing(counter: Series) -> None:
    def noting() -> None:
        for _ in range(5000):
            counter.note(1, *["a"] * len(counter.labels))

    threads = [Thread(target=noting) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        counter.values()
    assert sum(counter.values().values()) == 20_000
