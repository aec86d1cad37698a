"""Ranges, admission and the cutting into tasks: values, no I/O."""

import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.log.contract import Growth
from penstock.pipeline.offsets import Piece, Range, admit, before_barriers, describe_pieces, split

BOUNDS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12)


def a_range(starts: dict[int, int], ends: dict[int, int]) -> Range:
    return Range("log", "orders", 1, starts, ends)


@given(BOUNDS, st.integers(1, 100))
def test_admission_takes_what_is_allowed_and_no_more(bounds: list[tuple[int, int]], at_most: int) -> None:
    starts = {n: start for n, (start, _) in enumerate(bounds)}
    ends = {n: start + more for n, (start, more) in enumerate(bounds)}
    admitted = admit(starts, ends, at_most)
    total = sum(more for _, more in bounds)
    assert sum(admitted[n] - starts[n] for n in starts) == min(at_most, total)
    assert all(starts[n] <= admitted[n] <= ends[n] for n in starts)


def test_a_partition_gets_its_share_of_what_waits() -> None:
    assert admit({0: 0, 1: 0}, {0: 900, 1: 100}, 100) == {0: 90, 1: 10}


def test_a_log_that_went_back_admits_nothing() -> None:
    assert admit({0: 10}, {0: 5}, 100) == {0: 10}


@given(BOUNDS, st.integers(1, 6), st.booleans())
def test_tasks_hold_each_record_once(bounds: list[tuple[int, int]], tasks: int, cut: bool) -> None:
    pieces = [Piece(n, start, start + more) for n, (start, more) in enumerate(bounds) if more]
    dealt = split(pieces, tasks, cut=cut)
    given_out = sorted((p.partition, n) for task in dealt for p in task for n in range(p.start, p.end))
    assert given_out == sorted((p.partition, n) for p in pieces for n in range(p.start, p.end))
    assert len(dealt) <= tasks
    assert all(task for task in dealt)


@given(BOUNDS, st.integers(1, 6))
def test_a_partition_that_may_not_be_cut_is_in_one_task(bounds: list[tuple[int, int]], tasks: int) -> None:
    pieces = [Piece(n, start, start + more) for n, (start, more) in enumerate(bounds) if more]
    assert sorted(p for task in split(pieces, tasks, cut=False) for p in task) == pieces


def test_one_large_partition_is_cut_when_it_may_be() -> None:
    dealt = split([Piece(0, 0, 100)], 4, cut=True)
    assert [task[0].end - task[0].start for task in dealt] == [25, 25, 25, 25]


def test_partitions_that_come_later_begin_at_0() -> None:
    batch = a_range({0: 3, 1: 0}, {0: 9, 1: 4}).next({0: 10, 1: 4, 2: 7, 3: 0})
    assert batch == a_range({0: 9, 1: 4, 2: 0, 3: 0}, {0: 10, 1: 4, 2: 7, 3: 0})
    assert admit({0: 9}, {0: 10, 1: 3}, 100) == {0: 10, 1: 3}


def test_a_batch_ends_where_the_topic_grew() -> None:
    growths, ends = [Growth((5, 8)), Growth((9, 8, 0, 4))], dict.fromkeys(range(8), 10)
    first = before_barriers({0: 0, 1: 0}, ends, growths)
    assert first == {0: 10, 1: 10} | dict.fromkeys(range(2, 8), 0)
    second = before_barriers({0: 5, 1: 7}, ends, growths)
    assert {partition for partition, end in second.items() if end} == {0, 1, 2, 6}  # 2 was empty when it grew
    later = before_barriers({0: 9, 1: 8, 2: 0, 3: 4}, ends, growths)
    assert later == ends


def test_a_range_that_ends_before_a_growth_has_its_part_of_the_new_partitions() -> None:
    growths, ends = [Growth((5, 8))], {0: 3, 1: 9, 2: 3, 3: 3}
    assert before_barriers({0: 0, 1: 0}, ends, growths) == {0: 3, 1: 9, 2: 0, 3: 0}
    assert before_barriers({0: 3, 1: 7}, ends, growths) == {0: 3, 1: 9, 2: 3, 3: 0}
    assert before_barriers({0: 3, 1: 9}, ends, growths) == ends


def test_the_kept_form_of_a_range_comes_back_whole() -> None:
    first = a_range({0: 3, 1: 0}, {0: 9, 1: 4})
    pending = Range("log", "orders", 1, {0: 1}, {0: 1}, {0: 5})
    for each in (first, pending):
        assert Range.from_json(json.loads(json.dumps(each.to_json()))) == each


def test_the_next_range_begins_where_this_one_ends_and_never_goes_back() -> None:
    after = a_range({0: 0, 1: 0}, {0: 9, 1: 4}).next({0: 12, 1: 2})
    assert (after.starts, after.ends) == ({0: 9, 1: 4}, {0: 12, 1: 4})
    assert after.pieces() == [Piece(0, 9, 12)]


def test_pieces_are_said_briefly() -> None:
    words = describe_pieces([Piece(n, 0, 5) for n in range(7)])
    assert words.startswith("partition 0: 0 to before 5, ")
    assert words.endswith("and 3 more partitions")
