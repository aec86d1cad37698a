"""The words of `why`: times, counts, and who holds a transaction open."""

import pytest

from penstock.delivery.lane import WaitState, alone_in
from penstock.log.contract import Topic
from penstock.operate.why.answer import ago, ahead, counted, short, times
from penstock.operate.why.finder import Logged, looks_like_id, moment_of
from penstock.operate.why.history import Act
from penstock.operate.why.record_case import Lane
from penstock.operate.why.sentences import again
from penstock.operate.why.unlogged import Writer

NOON = 1_767_268_800_000  # 2026-01-01 12:00:00 UTC
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (0, "in 0 s (12:00:00 UTC)"),
        (1, "in 1 s (12:00:00 UTC)"),
        (119 * SECOND, "in 119 s (12:01:59 UTC)"),
        (2 * MINUTE, "in 2 min (12:02:00 UTC)"),
        (119 * MINUTE + 1, "in 120 min (13:59:00 UTC)"),
        (2 * HOUR, "in 2 h (14:00:00 UTC)"),
        (12 * HOUR, "in 12 h (2026-01-02 00:00:00 UTC)"),
        (2 * DAY + 1, "in 3 days (2026-01-03 12:00:00 UTC)"),
        (-5, "in 0 s (11:59:59 UTC)"),
    ],
)
def test_a_moment_to_come_is_told_with_its_distance(later: int, text: str) -> None:
    assert ahead(NOON + later, NOON) == text


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (999, "just now (11:59:59 UTC)"),
        (SECOND, "1 s ago (11:59:59 UTC)"),
        (2 * MINUTE + 59 * SECOND, "2 min ago (11:57:01 UTC)"),
        (47 * HOUR, "47 h ago (2025-12-30 13:00:00 UTC)"),
        (3 * DAY - 1, "2 days ago (2025-12-29 12:00:00 UTC)"),
        (-HOUR, "just now (13:00:00 UTC)"),
    ],
)
def test_a_moment_that_has_been_is_told_with_its_distance(before: int, text: str) -> None:
    assert ago(NOON - before, NOON) == text


def test_numbers_are_told_as_one_says_them() -> None:
    assert [times(n) for n in (0, 1, 2, 3, 1000)] == ["0 times", "once", "twice", "3 times", "1,000 times"]
    assert [counted(n, "key") for n in (0, 1, 2000)] == ["0 keys", "1 key", "2,000 keys"]
    assert counted(2, "crash", "crashes") == "2 crashes"


def test_a_reason_is_one_line_and_not_too_long() -> None:
    assert short("a\n  b\tc") == "a b c"
    assert short("x" * 200) == "x" * 200
    assert short("x" * 201) == "x" * 199 + "…"


@pytest.mark.parametrize(
    ("writer", "text"),
    [
        (Writer(), "another process"),
        (Writer(7), "process 7"),
        (Writer(7, "shop", "active", 3 * HOUR, NOON),
         "process 7 (shop, open for 3 h, active, last statement at 12:00:00 UTC)"),
        (Writer(None, "", "", 90_000, None, "order 1"), "prepared transaction 'order 1' (open for 90 s)"),
    ],
)  # fmt: skip
def test_who_holds_a_transaction_open_is_told_as_far_as_it_is_known(writer: Writer, text: str) -> None:
    assert writer.text == text


def test_an_id_tells_its_moment() -> None:
    ours, other = "019b7961-e200-7316-939d-3abfcb8ecd68", "019b7961-e200-4316-939d-3abfcb8ecd68"
    assert moment_of(ours) == int("019b7961e200", 16)
    assert moment_of(other) is moment_of("o-1") is None
    assert [looks_like_id(each) for each in (ours, other, ours.upper(), f"{ours}0", "o-1")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("at_ms", "subject", "concerns"),
    [
        (100, {"group": "g", "all": True}, True),
        (99, {"group": "g", "all": True}, False),
        (100, {"group": "h"}, False),
        (100, {"group": "g", "topic": "events", "key": "k", "type": "t", "id": "i", "partition": 3}, True),
        (100, {"group": "g", "topic": "others"}, False),
        (100, {"group": "g", "key": "l"}, False),
        (100, {"group": "g", "type": "u"}, False),
        (100, {"group": "g", "id": "j"}, False),
        (100, {"group": "g", "partition": 4}, False),
    ],
)
def test_an_act_concerns_what_its_selection_may_have_held(
    at_ms: int, subject: dict[str, object], concerns: bool
) -> None:
    record = Logged(Topic(1, "events", 8, "murmur3"), 3, 0, "i", "k", "t", 100)
    assert Act(at_ms, "ada", "dead discard", subject).may_concern("g", record) == concerns


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (WaitState.REQUEUED, "was requeued and is tried again now"),
        (WaitState.LAST, "was requeued, to follow the other waiting records of its key"),
    ],
)
def test_a_record_that_a_person_put_back_is_told_so(state: WaitState, text: str) -> None:
    assert again(Lane(alone_in("a", 0), state, 0, 0, state.text, 0), NOON, hindered=False) == text
