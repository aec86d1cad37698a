"""Delivery in one partition, told as short stories: what goes out, what waits, what is written."""

import pytest

from penstock.delivery import machine
from penstock.delivery.cursor_state import GoingOut
from penstock.delivery.lane import StoredLane, WaitState, alone_in
from penstock.delivery.machine import LANE_AHEAD, SLOW_WAITING, WINDOW, Delivery, NewDeadLetter, Partition, Settlement
from penstock.delivery.verdict import Dead, Parked, Passed
from tests.property.delivery_model import Rows

ALL = 1_000_000
NOW, LATER = 1000, 5000
PASSED = Passed()
PARKED = Parked(LATER, 1, "ValueError: no")
ALONE = Parked(LATER, 1, "ValueError: no", alone=True)
HELD = Dead(4, "ValueError: no", hold=True)
RELEASED = Dead(4, "ValueError: no", hold=False)


@pytest.fixture
def partition() -> Partition:
    return Partition(0)


@pytest.fixture
def rows() -> Rows:
    return Rows()


def feed(partition: Partition, lanes: str) -> None:
    """Feed one record for each letter; a dot is one that the group does not want."""
    for lane in lanes:
        partition.feed(partition.position, lane, wanted=lane != ".")


def take(partition: Partition, now_ms: int = NOW, limit: int = ALL) -> list[int]:
    return [delivery.offset for delivery in partition.take(now_ms, limit)]


def work(partition: Partition, now_ms: int = NOW) -> list[int]:
    """Hand out and pass until nothing is left for now; return the order."""
    order = []
    while taken := take(partition, now_ms, 1):
        order += taken
        partition.finish(taken[0], PASSED)
    return order


def settled(partition: Partition) -> Settlement:
    found = partition.settlement()
    assert found is not None
    return found


def taken_over(partition: Partition, rows: Rows) -> Partition:
    """Settle, and return the partition as its next owner loads it."""
    rows.apply(settled(partition))
    return rows.load()


# -- lanes that wait for another partition


def test_a_barred_lane_waits_and_the_cursor_passes_it(partition: Partition) -> None:
    partition.bar(frozenset("a"))
    feed(partition, "abaa")

    assert work(partition) == [1]
    assert partition.has_moved
    assert partition.base == 4
    found = settled(partition)
    assert found.lanes == [StoredLane("a", WaitState.MOVED, 0, 0, WaitState.MOVED.text)]
    assert found.entries == [("a", 0), ("a", 2), ("a", 3)]


def test_a_lane_that_is_no_longer_barred_goes_on_in_order_and_is_forgotten(partition: Partition, rows: Rows) -> None:
    partition.bar(frozenset("ab"))
    feed(partition, "aab")
    rows.apply(settled(partition))
    partition.bar(frozenset("b"))

    assert work(partition) == [0, 1]
    feed(partition, "ab")
    assert work(partition) == [3]
    partition.bar(frozenset())
    assert work(partition) == [2, 4]
    assert not partition.has_moved
    rows.apply(settled(partition))
    assert rows.load().take(NOW, ALL) == []


def test_the_next_owner_lets_a_barred_lane_wait_until_it_is_told(partition: Partition, rows: Rows) -> None:
    partition.bar(frozenset("a"))
    feed(partition, "aab")
    following = taken_over(partition, rows)

    assert following.perhaps_out() == set()
    feed(following, "b")
    assert take(following) == [2]
    following.bar(frozenset())
    assert work(following) == [0, 1]


def test_a_lane_that_flows_is_not_barred(partition: Partition) -> None:
    feed(partition, "aa")
    partition.bar(frozenset("a"))
    feed(partition, "a")

    assert work(partition) == [0, 1, 2]


# -- order


def test_records_of_one_lane_go_out_one_at_a_time_and_in_order(partition: Partition) -> None:
    feed(partition, "aaa")

    assert take(partition) == [0]
    assert take(partition) == []
    partition.finish(0, PASSED)
    assert take(partition) == [1]
    partition.finish(1, PASSED)
    assert take(partition) == [2]


def test_lanes_go_out_side_by_side_up_to_the_limit(partition: Partition) -> None:
    feed(partition, "abcab")

    assert take(partition, limit=2) == [0, 1]
    assert partition.out() == 2
    assert take(partition) == [2]


def test_a_lane_that_always_has_more_takes_its_turn_with_the_others(partition: Partition) -> None:
    feed(partition, "aaabbb")

    assert work(partition) == [0, 3, 1, 4, 2, 5]


def test_a_record_that_the_group_does_not_want_is_passed_at_once(partition: Partition) -> None:
    feed(partition, "..a.")

    assert take(partition) == [2]
    assert (partition.base, partition.position) == (2, 4)


def test_a_record_taken_back_goes_out_again_and_before_the_rest(partition: Partition) -> None:
    feed(partition, "abaa")
    assert take(partition, limit=1) == [0]

    partition.untake(0)

    assert partition.out() == 0
    assert partition.settlement() is None
    assert take(partition) == [0, 1]


def test_a_record_fed_twice_counts_once(partition: Partition) -> None:
    feed(partition, "ab")

    partition.feed(0, "a", wanted=True)
    assert take(partition) == [0, 1]
    partition.finish(0, PASSED)
    partition.feed(0, "a", wanted=True)

    assert take(partition) == []


def test_offsets_that_the_log_does_not_hold_are_passed(partition: Partition) -> None:
    partition.feed(3, "a", wanted=True)
    partition.feed(7, "b", wanted=True)

    assert (partition.base, partition.position) == (3, 8)
    assert work(partition) == [3, 7]
    assert settled(partition).base == 8


def test_a_log_trimmed_far_ahead_of_the_cursor_costs_no_memory(partition: Partition) -> None:
    feed(partition, "a")
    work(partition)

    partition.feed(10**15, "a", wanted=True)

    assert (partition.base, partition.position) == (10**15, 10**15 + 1)
    assert work(partition) == [10**15]


# -- parking


def test_other_lanes_flow_past_a_parked_one(partition: Partition) -> None:
    feed(partition, "abab")
    take(partition, limit=1)

    partition.finish(0, PARKED)

    assert work(partition) == [1, 3]
    assert partition.base == 4


def test_a_parked_record_is_tried_again_when_it_is_due_and_before_its_followers(partition: Partition) -> None:
    feed(partition, "aa")
    take(partition)
    partition.finish(0, PARKED)

    assert partition.next_due_ms() == LATER
    assert take(partition, LATER - 1) == []
    assert partition.idle(LATER - 1)
    assert not partition.idle(LATER)
    assert partition.take(LATER, ALL) == [Delivery(0, "a", failures=1, again=True)]
    assert partition.next_due_ms() is None
    partition.finish(0, PASSED)
    assert partition.take(LATER, ALL) == [Delivery(1, "a", failures=0)]


def test_a_record_that_fails_again_waits_again(partition: Partition) -> None:
    feed(partition, "aa")
    take(partition)
    partition.finish(0, PARKED)
    take(partition, LATER)

    partition.finish(0, Parked(2 * LATER, 2, "again"))

    assert take(partition, 2 * LATER - 1) == []
    assert partition.take(2 * LATER, ALL) == [Delivery(0, "a", failures=2, again=True)]


def test_a_snoozed_record_keeps_its_failures_and_its_lane_waits(partition: Partition) -> None:
    feed(partition, "aa")
    take(partition)
    partition.finish(0, PARKED)
    take(partition, LATER)

    partition.finish(0, Parked(2 * LATER, 1, "snoozed"))

    assert take(partition, LATER) == []
    assert partition.take(2 * LATER, ALL) == [Delivery(0, "a", failures=1, again=True)]


def test_parked_lanes_go_out_in_the_order_they_are_due(partition: Partition) -> None:
    feed(partition, "abc")
    take(partition)
    for offset, due_ms in enumerate([3000, 1500, 2000]):
        partition.finish(offset, Parked(due_ms, 1, "no"))

    assert partition.next_due_ms() == 1500
    assert take(partition, 2000) == [1, 2]
    assert partition.next_due_ms() == 3000


def test_a_record_retried_alone_lets_its_followers_go_on(partition: Partition) -> None:
    feed(partition, "aaa")
    take(partition)

    partition.finish(0, ALONE)

    assert work(partition) == [1, 2]
    assert partition.take(LATER, ALL) == [Delivery(0, alone_in("a", 0), failures=1, again=True)]


def test_a_record_retried_alone_may_fail_alone_again(partition: Partition) -> None:
    feed(partition, "a")
    take(partition)
    partition.finish(0, ALONE)
    take(partition, LATER)

    partition.finish(0, Parked(2 * LATER, 2, "again", alone=True))

    assert partition.stored_count == 1
    assert partition.take(2 * LATER, ALL) == [Delivery(0, alone_in("a", 0), failures=2, again=True)]


def test_a_key_that_looks_like_the_lane_of_a_lone_record_is_a_lane_of_its_own(partition: Partition) -> None:
    twin = "#0#a"
    partition.feed(0, "a", wanted=True)
    take(partition)
    partition.finish(0, ALONE)

    partition.feed(1, twin, wanted=True)
    partition.feed(2, twin, wanted=True)

    assert take(partition) == [1]
    partition.finish(1, PARKED)
    found = settled(partition)
    assert len({lane.key for lane in found.lanes}) == 2
    assert len({lane for lane, offset in found.entries if offset in (1, 2)}) == 1


# -- dead letters


def test_a_dead_letter_that_holds_its_lane_keeps_its_followers_back(partition: Partition) -> None:
    feed(partition, "aaba")
    take(partition)

    partition.finish(0, HELD)
    feed(partition, "a")

    assert take(partition, 10**15) == []
    found = settled(partition)
    assert found.dead == [NewDeadLetter(0, "a", True, 4, "ValueError: no")]
    assert found.lanes == [StoredLane("a", WaitState.HELD, 0, 0, "ValueError: no")]
    assert found.entries == [("a", 1), ("a", 3), ("a", 4)]


def test_a_held_lane_without_records_is_kept_and_collects_what_comes(partition: Partition) -> None:
    feed(partition, "a")
    take(partition)
    partition.finish(0, HELD)
    assert settled(partition).lanes == [StoredLane("a", WaitState.HELD, 0, 0, "ValueError: no")]

    feed(partition, "a")

    assert take(partition) == []
    assert settled(partition).entries == [("a", 1)]


def test_a_dead_letter_that_releases_its_lane_lets_its_followers_go_on(partition: Partition) -> None:
    feed(partition, "aa")
    take(partition)

    partition.finish(0, RELEASED)

    assert take(partition) == [1]
    found = settled(partition)
    assert found.dead == [NewDeadLetter(0, "a", False, 4, "ValueError: no")]
    assert (found.base, found.lanes, found.entries) == (1, [], [])


def test_a_dead_letter_of_a_lone_record_holds_nothing(partition: Partition) -> None:
    feed(partition, "aa")
    take(partition)
    partition.finish(0, ALONE)
    settled(partition)
    take(partition, LATER)

    partition.finish(0, HELD)
    partition.finish(1, PASSED)

    found = settled(partition)
    assert found.dead == [NewDeadLetter(0, alone_in("a", 0), False, 4, "ValueError: no")]
    assert (found.lanes, found.lanes_gone, found.entries_gone) == ([], [alone_in("a", 0)], [0])


def test_a_dead_record_does_not_block_the_rest_of_its_key(partition: Partition) -> None:
    feed(partition, "aaa")
    take(partition)
    partition.finish(0, ALONE)
    assert take(partition, LATER) == [1, 0]

    partition.finish(0, RELEASED)
    partition.finish(1, PASSED)

    assert work(partition) == [2]
    assert settled(partition).base == 3


# -- the window


def test_no_more_than_the_window_is_fed(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "WINDOW", 5)
    assert WINDOW > 5

    feed(partition, "abc")
    assert partition.room() == 2
    feed(partition, "de")
    assert partition.room() == 0
    take(partition)
    partition.finish(1, PASSED)
    assert partition.room() == 0
    partition.finish(0, PASSED)
    assert partition.room() == 2


def test_the_base_moves_over_all_that_is_passed_and_the_bitmap_holds_the_rest(partition: Partition) -> None:
    feed(partition, "abcdefghijkl")
    take(partition)
    for offset in (1, 2, 4, 10):
        partition.finish(offset, PASSED)

    found = settled(partition)
    assert (found.base, found.passed) == (0, bytes([0b00010110, 0b00000100]))

    partition.finish(0, PASSED)
    found = settled(partition)
    assert (found.base, found.passed) == (3, bytes([0b10000010]))


def test_a_partition_without_holes_has_no_bitmap(partition: Partition) -> None:
    feed(partition, "ab")
    work(partition)

    found = settled(partition)

    assert (found.base, found.passed) == (2, b"")


@pytest.mark.parametrize("run", [1, 7, 1000])
def test_no_more_of_a_stored_lane_goes_out_than_its_next_owner_takes_for_doubtful(
    partition: Partition, rows: Rows, run: int
) -> None:
    """P6: a settlement is on its way, and no answer yet; what has left since then is not in it."""
    feed(partition, "a" * 5 * LANE_AHEAD)
    assert take(partition) == [0]
    partition.finish(0, Parked(NOW, 1, "no"))
    rows.apply(settled(partition))
    out: set[int] = set()
    for _ in range(2):
        while taken := partition.take(NOW, 1000, run):
            out.update(each.offset for each in taken)
            for each in taken:
                partition.finish(each.offset, PASSED)
        partition.settlement()
    assert len(out) == 2 * LANE_AHEAD
    assert out <= rows.load().perhaps_out()


def test_a_lane_with_too_many_waiting_is_spilled_and_goes_on(partition: Partition) -> None:
    feed(partition, "a" * SLOW_WAITING)
    assert take(partition) == [0]
    assert partition.entry_count == 0

    feed(partition, "ab")

    assert (partition.entry_count, partition.stored_count) == (SLOW_WAITING + 1, 1)
    found = settled(partition)
    assert found.lanes == [StoredLane("a", WaitState.SLOW, 0, 0, "slow")]
    assert found.entries == [("a", offset) for offset in range(SLOW_WAITING + 1)]
    assert found.base == SLOW_WAITING + 1
    partition.finish(0, PASSED)
    assert work(partition) == [SLOW_WAITING + 1, *range(1, LANE_AHEAD)]
    found = settled(partition)
    assert (found.lanes_gone, found.entries_gone) == ([], list(range(LANE_AHEAD)))
    assert work(partition) == list(range(LANE_AHEAD, SLOW_WAITING + 1))
    found = settled(partition)
    assert (found.lanes_gone, found.entries_gone) == (["a"], list(range(LANE_AHEAD, SLOW_WAITING + 1)))
    assert (partition.entry_count, partition.stored_count) == (0, 0)


def test_a_slow_lane_that_fills_the_window_is_spilled_to_make_room(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "WINDOW", 6)
    feed(partition, "abcabb")
    assert take(partition) == [0, 1, 2]
    for offset in (1, 2):
        partition.finish(offset, PASSED)
    assert work(partition) == [4, 5]
    assert partition.room() == 0

    partition.relieve()

    assert partition.room() == 6
    found = settled(partition)
    assert found.lanes == [StoredLane("a", WaitState.SLOW, 0, 0, "slow")]
    assert found.entries == [("a", 0), ("a", 3)]
    partition.finish(0, PASSED)
    assert work(partition) == [3]


def test_relieve_spills_only_the_lane_at_the_base(partition: Partition) -> None:
    feed(partition, "abab")

    partition.relieve()

    assert (partition.base, partition.stored_count) == (1, 1)
    assert work(partition) == [0, 1, 2, 3]


def test_relieve_without_a_lane_at_the_base_changes_nothing(partition: Partition) -> None:
    partition.relieve()

    assert partition.settlement() is None


# -- what is written


def test_nothing_done_is_nothing_to_write(partition: Partition) -> None:
    feed(partition, "ab")
    take(partition)

    assert partition.settlement() is None


def test_a_settlement_holds_only_what_changed_since_the_last(partition: Partition) -> None:
    feed(partition, "aab")
    take(partition)
    partition.finish(0, PARKED)
    first = settled(partition)
    assert first.lanes == [StoredLane("a", WaitState.RETRYING, 1, LATER, "ValueError: no")]
    assert first.entries == [("a", 0), ("a", 1)]

    partition.finish(2, PASSED)
    second = settled(partition)

    assert second == Settlement(3, b"", None, [], [], [], [], [], going_out=GoingOut(3))
    assert partition.settlement() is None


def test_an_entry_settled_before_it_was_written_is_never_written(partition: Partition) -> None:
    feed(partition, "aa")
    take(partition)
    partition.finish(0, Parked(NOW, 1, "no"))

    assert work(partition) == [0, 1]

    assert settled(partition) == Settlement(2, b"", None, [], ["a"], [], [], [], going_out=GoingOut(2))


def test_a_lane_that_recovered_is_written_without_its_failure(partition: Partition) -> None:
    feed(partition, "aaa")
    take(partition)
    partition.finish(0, PARKED)
    settled(partition)
    take(partition, LATER)

    partition.finish(0, PASSED)

    found = settled(partition)
    assert found.lanes == [StoredLane("a", WaitState.SLOW, 0, 0, "slow")]
    assert found.entries_gone == [0]


def test_a_slow_lane_that_only_goes_on_is_not_written_each_time(partition: Partition) -> None:
    feed(partition, "aaa")
    partition.relieve()
    settled(partition)
    take(partition)

    partition.finish(0, PASSED)

    assert settled(partition) == Settlement(3, b"", None, [], [], [], [0], [], going_out=GoingOut(3))


def test_a_lane_that_ends_and_begins_again_before_a_settlement_is_gone(partition: Partition) -> None:
    feed(partition, "a")
    take(partition)
    partition.finish(0, PARKED)
    settled(partition)
    assert work(partition, LATER) == [0]

    feed(partition, "a")

    found = settled(partition)
    assert (found.lanes, found.lanes_gone) == ([], ["a"])


def test_an_entry_that_moves_to_a_lane_of_its_own_is_deleted_and_written(partition: Partition, rows: Rows) -> None:
    feed(partition, "aa")
    take(partition)
    partition.finish(0, PARKED)
    rows.apply(settled(partition))
    take(partition, LATER)

    partition.finish(0, Parked(2 * LATER, 2, "no", alone=True))

    found = settled(partition)
    assert (found.entries_gone, found.entries) == ([0], [(alone_in("a", 0), 0)])
    rows.apply(found)
    assert rows.entries == {0: alone_in("a", 0), 1: "a"}


# -- the next owner


def test_the_next_owner_goes_on_where_the_last_one_settled(partition: Partition, rows: Rows) -> None:
    feed(partition, "abcabc")
    take(partition)
    partition.finish(0, PARKED)
    partition.finish(1, PASSED)
    partition.finish(2, HELD)
    take(partition)  # 4 is out, and not settled

    after = taken_over(partition, rows)

    assert (after.base, after.position, after.missing()) == (4, 6, [4])
    after.feed(4, "b", wanted=True)
    feed(after, "abc")
    assert work(after) == [4, 7]
    assert work(after, LATER) == [0, 3, 6]
    rows.apply(settled(after))
    assert (rows.base, rows.passed) == (9, b"")
    assert (list(rows.lanes), rows.entries) == (["c"], {5: "c", 8: "c"})


def test_a_retry_keeps_its_count_and_its_time_over_a_take_over(partition: Partition, rows: Rows) -> None:
    feed(partition, "a")
    take(partition)
    partition.finish(0, Parked(LATER, 3, "no"))

    after = taken_over(partition, rows)

    assert after.next_due_ms() == LATER
    assert take(after, LATER - 1) == []
    assert after.take(LATER, ALL) == [Delivery(0, "a", failures=3, again=True)]


def test_holes_are_fed_first_and_until_then_are_missing(partition: Partition, rows: Rows) -> None:
    feed(partition, "abcde")
    take(partition)
    for offset in (1, 3):
        partition.finish(offset, PASSED)
    after = taken_over(partition, rows)

    assert (after.missing(), after.position) == ([0, 2], 4)
    after.feed(0, "a", wanted=True)
    assert after.missing() == [2]
    with pytest.raises(AssertionError, match="missing is fed first"):
        after.feed(4, "e", wanted=True)
    after.feed(2, "", wanted=False)  # the log no longer holds it
    after.feed(4, "e", wanted=True)

    assert work(after) == [0, 4]
    assert after.base == 5


def test_a_spilled_lane_is_worked_by_the_next_owner(partition: Partition, rows: Rows) -> None:
    feed(partition, "aaa")
    take(partition)
    partition.relieve()

    after = taken_over(partition, rows)

    assert (after.entry_count, after.stored_count) == (3, 1)
    assert work(after) == [0, 1, 2]
    rows.apply(settled(after))
    assert rows == Rows(base=3)


def test_a_lone_record_is_still_alone_for_the_next_owner(partition: Partition, rows: Rows) -> None:
    partition.feed(0, "#", wanted=True)
    partition.feed(1, "#", wanted=True)
    take(partition)
    partition.finish(0, ALONE)

    after = taken_over(partition, rows)

    after.feed(1, "#", wanted=True)
    assert take(after) == [1]
    assert take(after, LATER) == [0]


def test_a_requeued_dead_letter_goes_first_in_the_lane_it_held(partition: Partition, rows: Rows) -> None:
    feed(partition, "aaab")
    take(partition)
    partition.finish(0, HELD)
    rows.apply(settled(partition))

    rows.requeue(0)
    after = rows.load()

    assert work(after) == [0, 1, 2]
    rows.apply(settled(after))
    assert (rows.lanes, rows.entries, rows.dead) == ({}, {}, {})


def test_a_discarded_dead_letter_frees_the_lane_it_held(partition: Partition, rows: Rows) -> None:
    feed(partition, "aaa")
    take(partition)
    partition.finish(0, HELD)
    rows.apply(settled(partition))

    rows.discard(0)

    assert work(rows.load()) == [1, 2]


def test_a_freed_lane_without_entries_loses_its_row(rows: Rows) -> None:
    rows.lanes["a"] = StoredLane("a", WaitState.RETRYING, 0, 0, "no")
    partition = rows.load()
    assert partition.stored_count == 0
    assert partition.next_due_ms() is None
    assert partition.settlement() is None  # not worth a write of its own

    feed(partition, "a")
    assert work(partition) == [0]

    rows.apply(settled(partition))
    assert rows == Rows(base=1)


@pytest.mark.parametrize("passed", [b"", b"\x02", b"\x00\x80", bytes(range(1, 256))])
def test_a_bitmap_is_read_as_it_was_written(passed: bytes) -> None:
    partition = Partition(100, passed)
    for offset in partition.missing():
        partition.feed(offset, "", wanted=False)
    places = [n for n in range(len(passed) * 8) if passed[n // 8] >> n % 8 & 1]

    assert partition.position == 100 + max(places, default=-1) + 1
    holes = set(range(100, partition.position)) - {100 + n for n in places}
    assert set(Partition(100, passed).missing()) == holes


def test_what_no_handler_wants_is_settled_with_a_way_back(partition: Partition) -> None:
    """M3: while another version of the program has handlers for it, it is left open for that one."""
    feed(partition, "a")
    for offset in (1, 3):
        partition.feed(offset, "", wanted=False)
    take(partition)
    partition.finish(0, Passed())
    found = settled(partition)
    assert (found.base, found.unskipped) == (4, (1, b"\x02"))  # 2 is not in the log

    partition.confirm(skips=False)

    assert (partition.base, partition.position) == (1, 4)
    feed(partition, "b")
    take(partition)
    partition.finish(4, Passed())
    found = settled(partition)
    assert (found.base, found.passed, found.unskipped) == (1, b"\x0a", None)


def test_what_was_skipped_and_confirmed_is_passed_for_good(partition: Partition) -> None:
    partition.feed(0, "", wanted=False)
    assert settled(partition).unskipped == (0, b"")
    partition.feed(1, "", wanted=False)  # after the settlement was made, before it is known to be written

    partition.confirm(skips=True)

    partition.touch()
    found = settled(partition)
    assert (found.base, found.unskipped) == (2, (1, b""))


def test_a_record_behind_one_that_is_skipped_waits_until_that_is_confirmed(partition: Partition) -> None:
    """P2 across versions of the program: the one before it may have a handler there."""
    partition.feed(0, "a", wanted=False)
    partition.feed(1, "a", wanted=True)
    partition.feed(2, "b", wanted=True)
    assert take(partition) == [2]
    settled(partition)
    partition.confirm(skips=True)
    assert take(partition) == [1]
    partition.finish(1, Passed())
    partition.feed(3, "a", wanted=False)
    partition.feed(4, "a", wanted=True)
    settled(partition)
    partition.confirm(skips=False)
    assert take(partition) == []


def run_of(partition: Partition, limit: int = ALL, run: int = 3) -> list[int]:
    return [delivery.offset for delivery in partition.take(NOW, limit, run)]


def test_a_run_is_the_oldest_records_of_a_lane_in_order(partition: Partition) -> None:
    feed(partition, "abaaab")
    assert run_of(partition) == [0, 2, 3, 1, 5]
    assert run_of(partition) == []
    for offset in (0, 2):
        partition.finish(offset, Passed())
    assert run_of(partition) == []
    partition.finish(3, Passed())
    assert run_of(partition) == [4]


def test_a_run_counts_against_the_limit(partition: Partition) -> None:
    feed(partition, "aaaab")
    assert run_of(partition, limit=2) == [0, 1]


def test_when_one_of_a_run_parks_those_behind_it_are_taken_back_and_wait(partition: Partition) -> None:
    feed(partition, "aaa")
    assert run_of(partition) == [0, 1, 2]
    partition.finish(0, Passed())
    partition.finish(1, Parked(LATER, 1, "no"))
    partition.untake(2)
    assert run_of(partition) == []
    found = settled(partition)
    assert (found.base, found.entries) == (3, [("a", 1), ("a", 2)])
    assert [(each.offset, each.failures) for each in partition.take(LATER, ALL, 3)] == [(1, 1), (2, 0)]


def test_when_one_of_a_run_dies_and_holds_those_behind_it_wait(partition: Partition) -> None:
    feed(partition, "aaa")
    run_of(partition)
    partition.finish(0, HELD)
    for offset in (1, 2):
        partition.untake(offset)
    assert (run_of(partition), partition.out()) == ([], 0)


def test_a_run_that_was_not_begun_is_handed_out_again(partition: Partition) -> None:
    feed(partition, "aaa")
    for offset in run_of(partition):
        partition.untake(offset)
    assert run_of(partition) == [0, 1, 2]
    partition.finish(0, Passed())
    for offset in (1, 2):
        partition.untake(offset)
    assert run_of(partition) == [1, 2]


def test_a_run_out_of_its_order_is_refused(partition: Partition) -> None:
    feed(partition, "aa")
    run_of(partition)
    with pytest.raises(AssertionError, match="in its order"):
        partition.finish(1, Passed())


def test_a_run_stops_before_a_skip_that_is_not_confirmed(partition: Partition) -> None:
    partition.feed(0, "a", wanted=True)
    partition.feed(1, "a", wanted=False)
    partition.feed(2, "a", wanted=True)
    assert run_of(partition) == [0]


def test_a_settlement_after_a_refused_skip_frees_nothing(partition: Partition) -> None:
    """P2 across versions: the next one has no skip in it, and is no confirmation of the first."""
    partition.feed(0, "a", wanted=False)
    partition.feed(1, "a", wanted=True)
    partition.feed(2, "b", wanted=True)
    assert take(partition) == [2]
    settled(partition)
    partition.confirm(skips=False)
    partition.finish(2, Passed())
    assert settled(partition).unskipped is None
    partition.confirm(skips=True)
    assert take(partition) == []


def put_last(*waiting: int, held: bool = False) -> Partition:
    """Return a partition where offset 0 was put behind what waits of its key."""
    last = StoredLane(alone_in("a", 0), WaitState.LAST, 0, 0, "last"), [0]
    main = StoredLane("a", WaitState.HELD if held else WaitState.SLOW, 0, 0, ""), waiting
    return Partition(10, lanes=[last, main] if waiting or held else [last])


def test_a_record_that_was_put_last_comes_after_what_waits_of_its_key() -> None:
    assert work(put_last(3, 5)) == [3, 5, 0]
    assert work(put_last()) == [0]


def test_what_comes_later_does_not_keep_the_last_waiting_for_ever() -> None:
    partition = put_last(3)
    feed(partition, "a")  # offset 10
    assert take(partition, limit=1) == [3]
    partition.finish(3, PASSED)
    assert sorted(take(partition)) == [0, 10]


def test_the_last_waits_while_its_key_is_parked_or_held_and_is_not_lost() -> None:
    partition = put_last(3, 5)
    assert take(partition) == [3]
    partition.finish(3, PARKED)
    assert (take(partition), partition.next_due_ms()) == ([], LATER)
    assert take(partition, LATER) == [3]
    partition.finish(3, HELD)
    assert take(partition, LATER) == []
    assert work(put_last(5, held=True)) == []


def test_the_last_may_be_taken_back_parked_and_settled_as_any_other() -> None:
    partition = put_last(3)
    for offset in take(partition):
        partition.finish(offset, PASSED)
    assert take(partition) == [0]
    partition.untake(0)
    assert take(partition) == [0]
    partition.finish(0, PARKED)
    assert take(partition, LATER) == [0]
    partition.finish(0, HELD)
    written = settled(partition)
    assert written.dead == [NewDeadLetter(0, alone_in("a", 0), False, 4, "ValueError: no")]
    assert set(written.lanes_gone) == {alone_in("a", 0), "a"}
    assert sorted(written.entries_gone) == [0, 3]


def test_the_last_goes_on_when_the_last_before_it_is_dead_though_that_holds_the_key() -> None:
    partition = put_last(3)
    assert take(partition) == [3]
    partition.finish(3, HELD)
    assert take(partition) == [0]
