"""Who is counted, and what is written: worked out from what the rows say, without a database."""

from collections.abc import Iterable, Mapping

from penstock.membership.domain import Changes, Held, View, changes
from penstock.membership.filters import Filter, filter_of
from penstock.membership.serving import NOTHING, SLOTS, Domain, Present, ServedGroup, Serves, decode_serves

GATHER_MS = 3000
YOUNG, OLD = GATHER_MS - 1, GATHER_MS
GROUP = Domain(5, 6)
WANTS = filter_of(["events:a"])
TWO = '[["a",null],["b",null]]'


def slots(members: str, ages: Mapping[str, int], wanted: Iterable[str | None]) -> Changes:
    """Return the changes for some slots, given who was counted, who is there, and who should own what."""
    present = [Present(id, age, Serves(slots=True)) for id, age in ages.items()]
    rows = {row: Held(None, owner) for row, owner in enumerate(wanted)}
    return changes(View({SLOTS: members}, {}, {SLOTS: rows}, present), gather_ms=GATHER_MS)


def group(stored: list[Filter], present: list[Present], rows: int = 4) -> Changes:
    """Return the changes for a new group."""
    held = {row: Held(None, None) for row in range(rows)}
    return changes(View({}, {5: stored}, {GROUP: held}, present), gather_ms=GATHER_MS)


def test_nothing_changes_when_all_is_as_it_should_be() -> None:
    assert not slots(TWO, {"a": OLD, "b": OLD}, "aabb")


def test_a_newcomer_waits() -> None:
    assert not slots(TWO, {"a": OLD, "b": OLD, "c": YOUNG}, "aabb")


def test_a_newcomer_that_has_waited_is_counted() -> None:
    found = slots(TWO, {"a": OLD, "b": OLD, "c": OLD}, "aaabbb")
    assert found.wanted == {SLOTS: {2: "c", 5: "c"}}


def test_a_newcomer_that_has_waited_brings_the_younger_ones_along() -> None:
    found = slots(TWO, {"a": OLD, "b": OLD, "c": OLD, "d": 0}, "aabb")
    assert set(found.wanted[SLOTS].values()) == {"c", "d"}


def test_a_young_member_that_was_counted_before_still_is() -> None:
    assert not slots(TWO, {"a": YOUNG, "b": 0}, "aabb")


def test_newcomers_are_counted_at_once_when_nobody_else_is_there() -> None:
    assert slots("[]", {"c": 0}, [None]).wanted == {SLOTS: {0: "c"}}
    assert slots(TWO, {"c": 0}, "ab").wanted == {SLOTS: {0: "c", 1: "c"}}


def test_newcomers_are_counted_at_once_when_rows_have_lost_their_owner() -> None:
    found = slots(TWO, {"a": OLD, "c": 0}, "aabb")
    assert found.wanted == {SLOTS: {2: "c", 3: "c"}}


def test_a_row_goes_back_to_its_present_owner_when_the_wanted_one_is_gone() -> None:
    """It was never handed over: that is no move at all."""
    rows = {0: Held("a", "gone"), 1: Held("b", "b"), 2: Held("gone", "gone")}
    present = [Present(id, OLD, Serves(slots=True)) for id in "ab"]
    found = changes(View({SLOTS: "[]"}, {}, {SLOTS: rows}, present), gather_ms=GATHER_MS)
    assert found.wanted[SLOTS][0] == "a"
    assert 1 not in found.wanted[SLOTS]


def test_nobody_is_wanted_when_nobody_serves() -> None:
    assert slots(TWO, {}, "ab").wanted == {SLOTS: {0: None, 1: None}}
    assert not slots("[]", {}, [None])


def test_only_members_with_the_filter_that_counts_get_partitions() -> None:
    wide = filter_of(["events:*"])
    present = [
        Present("old", OLD, Serves(groups=(ServedGroup(5, WANTS, (6,)),))),
        Present("new", 0, Serves(groups=(ServedGroup(5, wide, (6,)),))),
    ]
    found = group([WANTS], present)
    assert found.filters == {5: [wide, WANTS]}
    assert set(found.wanted[GROUP].values()) == {"new"}


def test_only_members_that_serve_the_topic_get_its_partitions() -> None:
    present = [
        Present("a", OLD, Serves(groups=(ServedGroup(5, WANTS, (6,)),))),
        Present("b", OLD, Serves(groups=(ServedGroup(5, WANTS, (7,)),))),
        Present("c", OLD, Serves(slots=True)),
    ]
    assert set(group([WANTS], present).wanted[GROUP].values()) == {"a"}


def test_a_newcomer_is_not_hurried_by_rows_it_may_not_hold() -> None:
    """Rows that pins leave without an owner are no reason to count it at once."""
    served = (ServedGroup(5, WANTS, (6,)),)
    present = [
        Present("a", OLD, Serves(groups=served, pins=frozenset({0, 1}))),
        Present("b", 0, Serves(groups=served, pins=frozenset({1}))),
    ]
    rows = {0: Held("a", "a"), 1: Held("a", "a"), 2: Held(None, None)}
    view = View({GROUP: '[["a",[0,1]]]'}, {5: [WANTS]}, {GROUP: rows}, present)
    assert not changes(view, gather_ms=GATHER_MS)
    present[1] = Present("b", 0, Serves(groups=served, pins=frozenset({2})))
    assert changes(view, gather_ms=GATHER_MS).wanted == {GROUP: {2: "b"}}


def test_a_member_that_changes_its_pins_is_given_others() -> None:
    served = (ServedGroup(5, WANTS, (6,)),)
    present = [Present("a", OLD, Serves(groups=served, pins=frozenset({1})))]
    view = View({GROUP: '[["a",[0]]]'}, {5: [WANTS]}, {GROUP: {0: Held("a", "a"), 1: Held(None, None)}}, present)
    assert changes(view, gather_ms=GATHER_MS).wanted == {GROUP: {0: None, 1: "a"}}


def test_what_a_member_serves_can_be_read_back() -> None:
    for serves in (
        NOTHING,
        Serves(True, (ServedGroup(1, WANTS, (2, 3)), ServedGroup(2, (), ())), frozenset(range(64))),
    ):
        assert decode_serves(serves.encode()) == serves
    assert decode_serves("{}") == NOTHING


def test_a_member_whose_words_are_unknown_is_given_nothing() -> None:
    """Another release may say it differently; that must not stop those that share."""
    for text in ("", "[]", '{"slots": 7}', '{"groups": [{"id": "x"}]}'):
        assert decode_serves(text) == NOTHING
    assert decode_serves('{"slots": true, "later": 1}') == Serves(slots=True)
