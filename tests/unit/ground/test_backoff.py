"""N-25: how a loop waits between looks when nobody rings."""

from itertools import pairwise

import pytest

from penstock.backoff import Backoff, PollingSettings
from penstock.errors import SettingOutOfRange, StoreUnreachable


def test_pauses_double_while_nothing_comes_and_are_short_again_after_work() -> None:
    backoff = Backoff("x", PollingSettings(shortest_seconds=1.0, longest_seconds=8.0))
    assert backoff.active() == 1.0
    pauses = [backoff.idle() for _ in range(5)]
    for pause, longest in zip(pauses, (2, 4, 8, 8, 8), strict=True):
        assert 0.8 * longest <= pause <= longest
    assert any(one != other for one, other in pairwise(pauses[2:]))  # not in step with other processes
    assert backoff.active() == 1.0
    assert backoff.idle() <= 2.0


def test_a_fixed_pause_stays_and_work_is_followed_up_at_once() -> None:
    backoff = Backoff("x", PollingSettings(trigger="fixed"))
    assert [backoff.idle() for _ in range(5)] == [2.0] * 5
    assert backoff.active() == 0.05
    assert backoff.idle() == 2.0


def test_the_longest_pause_is_told_for_either_trigger() -> None:
    assert PollingSettings().idle_seconds == 1.0
    assert PollingSettings(trigger="fixed", fixed_seconds=5.0).idle_seconds == 5.0


def test_another_trigger_is_refused() -> None:
    with pytest.raises(SettingOutOfRange, match=r"polling\.trigger.*adaptive, fixed"):
        PollingSettings(trigger="sometimes")


def test_trouble_is_waited_out_ever_longer_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    backoff = Backoff("x", PollingSettings(shortest_seconds=1.0, longest_seconds=4.0))
    waits = [backoff.trouble(OSError("away")) for _ in range(4)]
    for wait, least in zip(waits, (1, 2, 4, 4), strict=True):
        assert least <= wait <= least * 1.5
    backoff.is_well()
    assert [each.getMessage() for each in caplog.records] == ["x waits and retries: away", "x has recovered"]


def test_one_lost_connection_is_no_trouble_and_a_second_is(caplog: pytest.LogCaptureFixture) -> None:
    """A process that was paused finds the connections dead that it had open."""
    caplog.set_level("INFO")
    backoff, away = Backoff("x", PollingSettings()), StoreUnreachable("db", "closed")
    for _ in range(2):
        backoff.trouble(away)
        assert backoff.present_trouble == ""
        backoff.is_well()
    assert {each.levelname for each in caplog.records} == {"INFO"}
    backoff.trouble(away)
    backoff.trouble(away)
    assert backoff.present_trouble == "the store db cannot be reached: closed"
    backoff.is_well()
    assert backoff.present_trouble == ""
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        "x waits and retries: the store db cannot be reached: closed",
        "x has recovered",
    ]


def test_who_is_told_by_a_bell_looks_seldom_unless_somebody_does_not_ring() -> None:
    polling = PollingSettings(shortest_seconds=1.0, longest_seconds=8.0)
    backoff = Backoff("x", polling, is_told=lambda: True)
    assert [backoff.active() > longer for longer in (1.5, 3.0, 6.0)] == [True] * 3
    assert backoff.active(rung=False) == 1.0
