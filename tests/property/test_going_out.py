"""What may have been handed out, held against plain sets: in its row, and joined with what others wrote."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.delivery import machine
from penstock.delivery.cursor_state import GoingOut
from penstock.delivery.machine import Partition
from penstock.delivery.verdict import Passed

END = 60


@st.composite
def going_outs(draw: st.DrawFn) -> GoingOut:
    """Draw how far records went out, and which below were kept back."""
    to = draw(st.integers(0, END))
    kept = draw(st.frozensets(st.integers(0, to - 1))) if to else frozenset()
    return GoingOut(to, kept)


def offsets(going_out: GoingOut) -> set[int]:
    """Return what it has."""
    return set(filter(going_out.has, range(END + 1)))


@given(going_outs())
def test_a_row_gives_back_what_was_written(going_out: GoingOut) -> None:
    assert GoingOut.stored(going_out.to, going_out.bitmap()) == going_out


@given(going_outs(), going_outs())
def test_it_is_joined_and_cut_as_sets_are(one: GoingOut, other: GoingOut) -> None:
    assert offsets(one | other) == offsets(one) | offsets(other)
    assert offsets(one & other) == offsets(one) & offsets(other)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 10**9)), max_size=40), st.data())
def test_it_has_all_that_began_and_its_row_is_bounded(feed: list[tuple[str, int]], data: st.DataObject) -> None:
    """Whatever has ended since, in whatever order, and however far apart the log's offsets are.

    Of what waits it has no more than may follow before it is written again.
    """
    partition, offset, began, fed = Partition(0), 0, set[int](), set[int]()
    for lane, gap in feed:
        if partition.room() > 0:
            offset += min(gap, partition.room()) if partition.position > partition.base else gap
            partition.feed(offset, lane, wanted=True)
            fed.add(offset)
        for each in partition.take(0, data.draw(st.integers(0, 3))):
            began.add(each.offset)
            if data.draw(st.booleans()):
                partition.finish(each.offset, Passed())
        more = data.draw(st.integers(0, 5))
        going_out = partition.going_out(more)
        assert all(map(going_out.has, began))
        assert sum(map(going_out.has, fed - began)) <= more
        assert 4 * len(going_out.bitmap()) <= machine.WINDOW + END
