import random
import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest

from penstock.clock import SYSTEM, Clock, SystemClock, from_ms, host_ms, own_ms, to_ms

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


class Stopped:
    """A clock that a test holds in its hand."""

    def now_ms(self) -> int:
        return 5

    def monotonic(self) -> float:
        return 0.005


class Central(tzinfo):
    """Central Europe in 2024: one hour east, two from 31 March 02:00 to 27 October 03:00."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        assert moment is not None
        wall = moment.replace(tzinfo=None)
        back = datetime(2024, 10, 27, 2)  # noqa: DTZ001 (a wall clock's time)
        twice = back <= wall < back + timedelta(hours=1)
        summer = datetime(2024, 3, 31, 2) <= wall < back or (twice and not moment.fold)  # noqa: DTZ001
        return timedelta(hours=2 if summer else 1)

    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)

    def tzname(self, moment: datetime | None) -> str:
        return "CET"


@pytest.mark.parametrize(
    ("moment", "ms"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, microsecond=999, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC), 1),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), -1),
        (datetime(1969, 12, 31, 23, 59, 59, 998_999, tzinfo=UTC), -2),
        (datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), 1_000_000_000_000),
        (datetime(2023, 11, 14, 23, 13, 20, 123_456, tzinfo=timezone(timedelta(hours=1))), 1_700_000_000_123),
        (FIRST, -62_135_596_800_000),
        (LAST, 253_402_300_799_999),
    ],
)
def test_a_moment_is_so_many_milliseconds_rounded_down(moment: datetime, ms: int) -> None:
    assert to_ms(moment) == ms


def test_milliseconds_give_their_moment_back_over_all_of_time() -> None:
    rng = random.Random(4711)

    for _ in range(20_000):
        ms = rng.randint(to_ms(FIRST), to_ms(LAST))
        moment = from_ms(ms)
        assert moment.utcoffset() == timedelta()
        assert to_ms(moment) == ms
        elsewhere = timezone(timedelta(minutes=rng.randint(-1439, 1439)))
        if FIRST + timedelta(days=1) < moment < LAST - timedelta(days=1):
            assert to_ms(moment.astimezone(elsewhere)) == ms


def test_moments_are_not_bent_by_floating_point() -> None:
    rng = random.Random(4711)

    for _ in range(20_000):
        microseconds = rng.randint(-(6 * 10**16), 2 * 10**17)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        assert to_ms(moment) == microseconds // 1000


@pytest.mark.parametrize(
    ("wall", "fold", "utc"),
    [
        ((2024, 3, 31, 1, 59), 0, (2024, 3, 31, 0, 59)),
        ((2024, 3, 31, 3, 0), 0, (2024, 3, 31, 1, 0)),
        ((2024, 10, 27, 2, 30), 0, (2024, 10, 27, 0, 30)),
        ((2024, 10, 27, 2, 30), 1, (2024, 10, 27, 1, 30)),
        ((2024, 10, 27, 3, 0), 0, (2024, 10, 27, 2, 0)),
    ],
)
def test_a_zone_with_summer_time_means_the_moment_it_says(
    wall: tuple[int, int, int, int, int], fold: int, utc: tuple[int, int, int, int, int]
) -> None:
    local = datetime(*wall, tzinfo=Central(), fold=fold)

    assert from_ms(to_ms(local)) == datetime(*utc, tzinfo=UTC)


def test_the_system_clock_tells_the_time_and_does_not_run_backwards() -> None:
    clock: Clock = SYSTEM

    before = time.time_ns() // 1_000_000
    now = clock.now_ms()
    after = time.time_ns() // 1_000_000
    assert before <= now <= after
    assert clock.monotonic() <= clock.monotonic()
    assert isinstance(clock, SystemClock)


def test_a_statement_gets_the_time_of_a_test_clock_and_else_asks_the_database() -> None:
    assert own_ms(SYSTEM) is None
    assert own_ms(Stopped()) == 5


@pytest.mark.parametrize(("ms", "year"), [(1 << 62, 9999), (-(1 << 62), 1), ((1 << 63) - 1, 9999)])
def test_a_time_beyond_the_calendar_is_its_end(ms: int, year: int) -> None:
    moment = from_ms(ms)
    assert (moment.year, moment.tzinfo) == (year, UTC)


def test_the_clock_of_a_host_stands_still_while_it_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its processes slept: none of them has fallen silent, and none takes what another owns."""
    monkeypatch.setattr(time, "clock_gettime", lambda clock: 1e12)  # as CLOCK_BOOTTIME after a long sleep
    before = time.monotonic()
    counted = host_ms(SYSTEM)
    assert int(before * 1000) <= counted <= int(time.monotonic() * 1000)
