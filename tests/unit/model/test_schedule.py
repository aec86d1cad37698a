"""When schedules tick: cron expressions across clock changes, intervals, and what is refused."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.clock import from_ms, to_ms
from penstock.errors import InvalidSchedule
from penstock.model.schedule import CronRule, Definition, IntervalRule, decode_definition, define, fingerprint

HOUR_MS = 3_600_000
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
DAYS = tuple(datetime(2026, *day, tzinfo=UTC) for day in ((3, 8), (3, 29), (10, 25), (11, 1)))
EXPRESSIONS = ("30 2 * * *", "*/20 * * * *", "0 * * * *", "15,45 1-3 * * *", "30 1 * * SUN", "0 3 */3 * *")


def a_definition(every: str | timedelta | float, timezone: str | None = None) -> Definition:
    return define("s", every, timezone=timezone, catch_up="last", type="t", topic="events")


def ticks(expression: str, zone: str, start: datetime, count: int) -> list[str]:
    """Return ticks in local time, each found from the last one alone, as a worker does."""
    rule, place, at_ms = CronRule(expression, ZoneInfo(zone)), ZoneInfo(zone), to_ms(start)
    found = []
    for _ in range(count):
        at_ms = rule.after(at_ms)
        found.append(f"{from_ms(at_ms).astimezone(place):%d %H:%M %z}")
    return found


@pytest.mark.parametrize(
    ("zone", "before", "expected"),
    [
        ("Europe/Berlin", datetime(2026, 3, 28, 12, tzinfo=UTC), ["29 03:00 +0200", "30 02:30 +0200"]),
        ("Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC), ["25 02:30 +0200", "26 02:30 +0100"]),
        ("America/New_York", datetime(2026, 3, 7, 12, tzinfo=UTC), ["08 03:00 -0400", "09 02:30 -0400"]),
        ("America/New_York", datetime(2026, 10, 31, 12, tzinfo=UTC), ["01 02:30 -0500", "02 02:30 -0500"]),
    ],
)
def test_a_fixed_time_ticks_once_on_the_day_of_a_clock_change(zone: str, before: datetime, expected: list[str]) -> None:
    """In the gap at the first moment after it; where the hour is repeated, the first time only."""
    assert ticks("30 2 * * *", zone, before, 2) == expected


def test_a_fixed_time_in_the_repeated_hour_of_new_york_ticks_once() -> None:
    before = datetime(2026, 10, 31, 12, tzinfo=UTC)
    assert ticks("30 1 * * *", "America/New_York", before, 2) == ["01 01:30 -0400", "02 01:30 -0500"]


def test_one_that_comes_in_the_second_pass_of_a_repeated_hour_finds_its_time_gone() -> None:
    second_pass = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)  # 02:10 in Berlin, again
    assert ticks("30 2 * * *", "Europe/Berlin", second_pass, 1) == ["26 02:30 +0100"]
    assert ticks("*/20 * * * *", "Europe/Berlin", second_pass, 2) == ["25 02:20 +0100", "25 02:40 +0100"]


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25)])
def test_every_hour_means_every_hour_that_passes(day: tuple[int, int, int], hours: int) -> None:
    zone = ZoneInfo("Europe/Berlin")
    begin = to_ms(datetime(*day, tzinfo=zone)) - 1
    end = to_ms(datetime(*day, 23, 59, tzinfo=zone))
    found = CronRule("0 * * * *", zone).newest(begin, end, 100)
    assert len(found) == hours
    assert {after - before for before, after in pairwise(found)} == {HOUR_MS}


@settings(max_examples=60)
@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), st.sampled_from(DAYS), st.integers(-12 * 60, 36 * 60))
def test_ticks_are_the_same_wherever_one_begins_to_look(
    expression: str, zone: str, day: datetime, minutes: int
) -> None:
    """Also in the middle of a repeated hour: a worker that has just come sees what the others see."""
    rule = CronRule(expression, ZoneInfo(zone))
    begin_ms = to_ms(day) - 20 * HOUR_MS
    all_ticks = rule.newest(begin_ms, begin_ms + 24 * 10 * HOUR_MS, 10_000)
    assert all_ticks == sorted(set(all_ticks))
    start_ms = to_ms(day) + minutes * 60_000
    assert rule.after(start_ms) == next(each for each in all_ticks if each > start_ms)


def test_the_newest_ticks_of_a_long_absence_are_found_without_walking_through_it() -> None:
    rule = CronRule("* * * * *", ZoneInfo("Europe/Berlin"))
    until_ms = to_ms(datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC))
    found = rule.newest(0, until_ms, 3)
    assert [f"{from_ms(each):%H:%M}" for each in found] == ["11:58", "11:59", "12:00"]
    assert CronRule("0 0 29 2 *", ZoneInfo("UTC")).newest(0, until_ms, 1) == [to_ms(datetime(2024, 2, 29, tzinfo=UTC))]
    assert rule.newest(until_ms - 1000, until_ms, 5) == []


def test_an_interval_is_elapsed_time_counted_from_1970() -> None:
    rule = IntervalRule(7000)
    assert [rule.after(0), rule.after(6999), rule.after(7000)] == [7000, 7000, 14000]
    assert rule.newest(7000, 35_500, 2) == [28_000, 35_000]
    assert rule.newest(7000, 21_000, 100) == [14_000, 21_000]
    assert a_definition(timedelta(hours=1)) == a_definition(3600) == a_definition(3600.0)


def test_a_definition_says_the_same_in_every_way_of_writing_it() -> None:
    one, other = (a_definition(" 0  9 * *  mon ", "Europe/Berlin"), a_definition("0 9 * * MON", "Europe/Berlin"))
    assert one.encode() == other.encode()
    assert decode_definition(one.encode()) == one
    assert fingerprint(one.encode()) != fingerprint(a_definition("0 9 * * MON").encode())
    assert one.words == "0 9 * * MON Europe/Berlin"
    assert a_definition(90).words == "every 90 s"
    assert a_definition(timedelta(days=12, milliseconds=500)).words == "every 1036800.5 s"


@pytest.mark.parametrize(
    ("every", "said"),
    [
        ("61 * * * *", "'61 * * * *' is not a cron expression: Bad minute"),
        ("* * * * * *", "must have five fields"),
        ("@daily", "must have five fields"),
        ("", "must have five fields"),
        ("0 0 30 2 *", "is not a cron expression"),
        (0.5, "at least 1 second"),
        (0, "at least 1 second"),
        (timedelta(seconds=-5), "at least 1 second"),
        (timedelta(seconds=2, microseconds=1), "in whole milliseconds"),
        (float("inf"), "is not an interval"),
        (float("nan"), "is not an interval"),
        (True, "a cron expression, a timedelta or seconds"),
        (None, "a cron expression, a timedelta or seconds"),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_remedy(every: str | float, said: str) -> None:
    with pytest.raises(InvalidSchedule, match="schedule 's'") as caught:
        a_definition(every)
    assert said in str(caught.value)


def test_a_time_zone_must_be_known_and_is_for_cron() -> None:
    for zone in ("Europe/Nowhere", "../etc/passwd", ""):
        if zone:
            with pytest.raises(InvalidSchedule, match="Europe/Berlin"):
                a_definition("0 0 * * *", zone)
    with pytest.raises(InvalidSchedule, match="elapsed time"):
        a_definition(60, "Europe/Berlin")
    with pytest.raises(InvalidSchedule, match="none, last, all"):
        define("s", 60, timezone=None, catch_up="some", type="t", topic="events")
