"""What is passed over, and what comes late, in the machine of one partition."""

import random
from collections.abc import Iterator, Set

import pytest

from penstock.delivery.cursor_state import NOTED_TYPES, LateMove, PassedOver, PassedRecord, PassedType
from penstock.delivery.lane import (
    WHOLE,
    LaneId,
    SideLane,
    StoredLane,
    WaitState,
    alone_in,
    columns_of,
    is_late,
    key_lane,
    late_lane,
    live_lane,
    shared_lane,
    stored_lane,
)
from penstock.delivery.machine import Delivery, Partition, Settlement
from penstock.delivery.verdict import Dead, Parked, Passed, Verdict
from tests.property.delivery_model import Rows

MOVE = LateMove("x", 10, 4)
LATER = 5000


def settled(partition: Partition, rows: Rows | None = None) -> Settlement:
    """Return what there is to write, written."""
    found = partition.settlement()
    assert found is not None
    if rows is not None:
        rows.apply(found)
    partition.confirm(skips=True)
    return found


def past(offset: int) -> Partition:
    """Return a partition whose cursor stands at an offset."""
    return Partition(offset)


def take(partition: Partition, run: int = 10) -> list[int]:
    return [each.offset for each in partition.take(0, 100, run)]


# -- what is passed over


def test_the_first_of_a_type_is_written_with_the_cursor_and_the_rest_when_it_is_asked_for() -> None:
    partition = Partition(0)
    for offset in range(3):
        partition.feed(offset, "k", wanted=False, unhandled_type="x")
    assert settled(partition).passed_over == [PassedType("x", 0, 3, 3)]
    for offset in range(3, 6):
        partition.feed(offset, "k", wanted=False, unhandled_type="x")
    assert settled(partition).passed_over == []
    partition.flush_passed_over()
    assert settled(partition).passed_over == [PassedType("x", 0, 6, 3)]
    partition.flush_passed_over()
    assert partition.settlement() is None


def test_what_a_predicate_refuses_is_not_counted() -> None:
    partition = Partition(0)
    partition.feed(0, "k", wanted=False)
    assert settled(partition).passed_over == []


def test_types_are_counted_up_to_a_bound_and_those_known_before_count() -> None:
    passed = PassedOver()
    passed.known = {f"t-{number}" for number in range(NOTED_TYPES - 1)}
    for offset, type in enumerate(("new", "newer", "t-0")):
        passed.add(type, offset)
    assert [each.type for each in passed.take()] == ["new", "t-0"]
    assert passed.is_full


def test_what_is_passed_over_below_where_the_partition_was_taken_are_single_records() -> None:
    """Others there are settled, or wait: a note that goes on would have them delivered again."""
    partition = Partition(1, b"\x06")  # 1 is open, 2 and 3 are passed
    partition.feed(1, "a", wanted=False, unhandled_type="x")
    found = settled(partition)
    assert (found.passed_over, found.passed_singles) == ([], [PassedRecord("x", 1)])
    partition.feed(4, "a", wanted=False, unhandled_type="x")
    found = settled(partition)
    assert (found.passed_over, found.passed_singles) == ([PassedType("x", 4, 5, 1)], [])


def test_what_may_have_been_handed_out_are_single_records_with_a_mark() -> None:
    partition = Partition(1)
    partition.feed(1, "a", wanted=False, unhandled_type="x", again=True)
    partition.feed(2, "a", wanted=False, unhandled_type="x")
    found = settled(partition)
    assert found.passed_singles == [PassedRecord("x", 1, again=True)]
    assert found.passed_over == [PassedType("x", 2, 3, 1)]


class UnwalkedSet(Set[str]):
    """Says what is in it, and cannot be walked."""

    def __contains__(self, type: object) -> bool:
        return type == "known"

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all types are walked for one record")

    def __len__(self) -> int:
        return NOTED_TYPES


def test_once_a_type_was_left_out_a_further_one_costs_no_walk_of_all() -> None:
    passed = PassedOver()
    passed.known = {f"t-{number}" for number in range(NOTED_TYPES)}
    passed.add("one too many", 0)
    passed.known = UnwalkedSet()
    passed.add("another", 1)
    passed.add("known", 2)
    assert [each.type for each in passed.take()] == ["known"]


# -- what comes late


def test_late_records_go_out_once_they_are_written() -> None:
    partition, rows = past(10), Rows()
    partition.deliver_late([(1, "k"), (3, "k"), (2, "other")], [MOVE])
    assert take(partition) == []
    found = settled(partition, rows)
    assert found.entries == [(late_lane("k"), 1), (late_lane("k"), 3), (late_lane("other"), 2)]
    assert [(lane.key, lane.state) for lane in found.lanes] == [
        (late_lane("k"), WaitState.SLOW),
        (late_lane("other"), WaitState.SLOW),
    ]
    assert found.late_moves == [MOVE]
    assert take(partition) == [1, 3, 2]
    assert (partition.late_count, partition.entry_count) == (3, 3)
    again = rows.load()
    assert again.late_count == 3
    assert take(again) == [1, 3, 2]


def test_only_the_last_place_of_a_note_is_written() -> None:
    partition = past(10)
    partition.deliver_late([], [MOVE])
    partition.deliver_late([], [MOVE._replace(first=7)])
    assert settled(partition).late_moves == [MOVE._replace(first=7)]


def test_late_records_that_come_while_others_are_written_wait_for_the_next_time() -> None:
    partition = past(10)
    partition.deliver_late([(1, "k")], [])
    assert partition.settlement() is not None
    partition.deliver_late([(2, "k")], [])
    partition.confirm(skips=True)
    assert take(partition) == [1]
    assert settled(partition).entries == [(late_lane("k"), 2)]
    partition.finish(1, Passed())
    assert take(partition) == [2]


def test_of_the_two_lanes_of_a_key_one_is_out_at_a_time_and_they_take_turns() -> None:
    partition = past(10)
    for offset in range(10, 16):
        partition.feed(offset, "k", wanted=True)
    partition.feed(16, "other", wanted=True)
    partition.deliver_late([(offset, "k") for offset in range(6)], [])
    settled(partition)
    order = list[int]()
    while taken := take(partition, run=2):
        order += taken
        for offset in taken:
            partition.finish(offset, Passed())
    assert order == [10, 11, 16, 0, 1, 12, 13, 2, 3, 14, 15, 4, 5]
    assert (partition._partners, partition._beside) == ({}, {})


def test_a_late_lane_that_waits_for_a_retry_does_not_hold_the_lane_of_its_key() -> None:
    partition, rows = past(10), Rows(10)
    partition.deliver_late([(1, "k"), (2, "k")], [])
    settled(partition, rows)
    assert take(partition, run=1) == [1]
    partition.feed(10, "k", wanted=True)
    assert take(partition, run=1) == []
    partition.finish(1, Parked(LATER, 1, "no"))
    assert take(partition, run=1) == [10]
    assert partition.take(LATER, 10) == []
    partition.finish(10, Passed())
    partition.feed(11, "k", wanted=True)
    assert [each.offset for each in partition.take(LATER, 10)] == [1]
    settled(partition, rows)
    again = rows.load()
    again.feed(11, "k", wanted=True)
    assert [each.offset for each in again.take(0, 10)] == [11]
    assert again.take(LATER, 10) == []


def test_what_is_taken_back_lets_the_other_lane_of_its_key_go() -> None:
    partition = past(10)
    partition.deliver_late([(1, "k"), (2, "k")], [])
    settled(partition)
    partition.feed(10, "k", wanted=True)
    assert take(partition) == [1, 2]
    partition.untake(2)
    partition.untake(1)
    assert take(partition) == [1, 2]
    partition.finish(1, Passed())
    assert take(partition) == []
    partition.finish(2, Passed())
    assert take(partition) == [10]


@pytest.mark.parametrize("seed", range(10))
def test_no_two_records_of_a_key_are_out_of_different_lanes_whatever_happens(seed: int) -> None:
    rng, partition = random.Random(seed), past(1000)
    late, live, now_ms = list(range(200)), list(range(1000, 1200)), 0
    key_of = {offset: f"k-{rng.randrange(4)}" for offset in late + live}
    out, done = dict[int, Delivery](), list[int]()
    for _ in range(20_000):
        act = rng.randrange(6)
        if act == 0 and late:
            partition.deliver_late([(late[0], key_of[late.pop(0)])], [])
        elif act == 1 and live:
            partition.feed(live[0], key_of[live.pop(0)], wanted=True)
        elif act == 2 and partition.settlement() is not None:
            partition.confirm(skips=True)
        elif act == 3:
            now_ms += 1
            out |= {each.offset: each for each in partition.take(now_ms, rng.randrange(9), rng.randrange(1, 4))}
            lanes = {(key_of[offset], each.lane) for offset, each in out.items()}
            assert len(lanes) == len({key for key, _ in lanes})
        elif out and rng.random() < 0.2:
            for offset in sorted(out, reverse=True):
                partition.untake(offset)
            out.clear()
        elif out:
            offset = next(iter(out))
            lane = out.pop(offset).lane
            behind = [each for each in sorted(out, reverse=True) if out[each].lane == lane]
            if rng.random() < 0.3:
                for each in behind:
                    partition.untake(each)
                    del out[each]
                partition.finish(offset, Parked(now_ms + rng.randrange(4), 1, "no"))
            else:
                partition.finish(offset, Passed())
                done.append(offset)
    assert sorted(done) == sorted(key_of)
    for lot in (range(200), range(1000, 1200)):
        for key in set(key_of.values()):
            mine = [offset for offset in done if offset in lot and key_of[offset] == key]
            assert mine == sorted(mine)
    assert (partition._partners, partition._beside) == ({}, {})


def test_a_late_record_that_dies_or_goes_alone_stays_late() -> None:
    partition, rows = past(10), Rows()
    partition.deliver_late([(1, "a"), (2, "b"), (3, "b")], [])
    settled(partition, rows)
    assert take(partition, run=1) == [1, 2]
    partition.finish(1, Dead(1, "no", hold=True))
    partition.finish(2, Parked(LATER, 1, "no", alone=True))
    found = settled(partition, rows)
    assert [(each.lane, each.holding) for each in found.dead] == [(late_lane("a"), True)]
    assert rows.entries == {2: SideLane("b", late=True, alone=2), 3: late_lane("b")}
    assert partition.late_count == rows.load().late_count == 1  # not what waits for its retry


@pytest.mark.parametrize("verdict", [Parked(LATER, 1, "no"), Dead(1, "no", hold=True)])
def test_late_records_behind_one_that_failed_are_not_counted(verdict: Verdict) -> None:
    """They may wait for long, and there shall be room for those of other keys."""
    partition, rows = past(10), Rows()
    partition.deliver_late([(1, "k"), (2, "k"), (3, "other")], [])
    settled(partition, rows)
    assert take(partition, run=1) == [1, 3]
    partition.finish(1, verdict)
    partition.deliver_late([(4, "k")], [])
    assert partition.late_count == 2
    settled(partition, rows)
    assert partition.late_count == rows.load().late_count == 1
    partition.finish(3, Passed())
    assert partition.late_count == 0
    if isinstance(verdict, Parked):
        assert [each.offset for each in partition.take(LATER, 10)] == [1]
        partition.finish(1, Passed())
        assert partition.late_count == 2
        assert [each.offset for each in partition.take(LATER, 10, 10)] == [2, 4]
        partition.finish(2, Passed())
        partition.finish(4, Passed())
        assert (partition.late_count, partition.entry_count) == (0, 0)


def test_a_late_lane_that_ends_while_more_of_it_is_written_goes_on() -> None:
    partition, rows = past(10), Rows()
    partition.deliver_late([(1, "k")], [])
    settled(partition, rows)
    assert take(partition) == [1]
    partition.deliver_late([(2, "k")], [])
    found = partition.settlement()
    assert found is not None
    partition.finish(1, Passed())
    rows.apply(found)
    partition.confirm(skips=True)
    settled(partition, rows)
    assert (rows.entries, list(rows.lanes)) == ({2: late_lane("k")}, [late_lane("k")])
    assert take(partition) == [2]
    partition.finish(2, Passed())
    settled(partition, rows)
    assert (rows.entries, rows.lanes) == ({}, {})
    assert (partition.late_count, partition.entry_count, partition.stored_count) == (0, 0, 0)


def test_it_also_goes_out_when_what_was_skipped_is_refused() -> None:
    partition = past(10)
    partition.feed(10, "k", wanted=False, unhandled_type="y")
    partition.deliver_late([(1, "k")], [])
    assert partition.settlement() is not None
    partition.confirm(skips=False)
    assert take(partition) == [1]


def test_what_waited_and_has_no_handler_any_more_is_noted_with_its_entry() -> None:
    lane = StoredLane("k", WaitState.SLOW, 0, 0, "slow")
    partition, rows = Partition(10, b"", [(lane, [1, 2])]), Rows(10)
    rows.entries.update({1: "k", 2: "k"})
    assert take(partition, run=1) == [1]
    partition.pass_over(1, "x", again=True)
    found = settled(partition, rows)
    assert found.passed_entries == [PassedRecord("x", 1, again=True)]
    assert rows.entries == {2: "k"}
    assert take(partition) == [2]


# -- names


@pytest.mark.parametrize("lane", ["o-1", "", "\\x6f0a", WHOLE])
def test_a_lane_is_read_as_its_columns_tell(lane: LaneId) -> None:
    late = late_lane(lane)
    lanes = [lane, late, alone_in(late, 7), alone_in(lane, 7), alone_in(lane, 0)]
    assert [stored_lane(*columns_of(each)) for each in lanes] == lanes
    assert [is_late(each) for each in lanes] == [False, True, True, False, False]
    assert [live_lane(each) for each in lanes] == [None, lane, None, None, None]
    assert [shared_lane(each) for each in lanes] == [lane, late, late, lane, lane]
    assert len({columns_of(each) for each in lanes}) == len(lanes)


def test_a_key_that_is_written_in_hex_is_read_as_it_was() -> None:
    keys = ["o-1", "#7#x", "", "a\nb", "\\x41", "\udce9", "\0"]
    assert [SideLane(key_lane(key)).key for key in keys] == keys


def test_a_lane_that_waits_for_a_retry_is_late_as_its_name_says() -> None:
    lane = StoredLane(late_lane("k"), WaitState.RETRYING, 1, 0, "no")
    partition = Partition(10, b"", [(lane, [1])])
    (delivery,) = partition.take(0, 10)
    assert (delivery.lane, delivery.again, partition.entry_count) == (late_lane("k"), True, 1)
