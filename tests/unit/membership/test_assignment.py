"""Who gets which row: examples of the rules; that they hold for all is in the property tests."""

from collections import Counter

from penstock.membership.assignment import Participant, assign

NOBODY = dict.fromkeys(range(8))


def pinned(id: str, *rows: int) -> Participant:
    """Return a member that is pinned to some rows."""
    return Participant(id, frozenset(rows))


def sizes(rows: dict[int, str | None], *members: Participant) -> dict[str | None, int]:
    """Return how many rows each gets."""
    return dict(Counter(assign(rows, members).values()))


def test_rows_are_shared_fairly() -> None:
    assert sizes(NOBODY, *(Participant(id) for id in "abc")) == {"a": 3, "b": 3, "c": 2}


def test_who_has_most_keeps_the_odd_row() -> None:
    assert assign({0: "b", 1: "b", 2: "a"}, [Participant("a"), Participant("b")]) == {0: "b", 1: "b", 2: "a"}


def test_without_members_nobody_should_own_anything() -> None:
    assert assign({0: "a", 1: None}, []) == {0: None, 1: None}


def test_a_pinned_row_goes_to_those_pinned_to_it_and_the_others_to_the_rest() -> None:
    found = assign(NOBODY, [pinned("a", 0, 1), pinned("b", 0, 1), Participant("c")])
    assert {found[0], found[1]} == {"a", "b"}
    assert {found[row] for row in range(2, 8)} == {"c"}


def test_a_row_that_nobody_may_hold_has_no_owner() -> None:
    assert assign({0: "a", 1: "a"}, [pinned("a", 1)]) == {0: None, 1: "a"}


def test_pins_that_overlap_in_part_are_as_even_as_they_can_be() -> None:
    """b gives row 1 to a, because c may have only what b has too."""
    members = [pinned("a", 0, 1), pinned("b", 1, 2, 3, 4, 5), pinned("c", 5)]
    owned = {0: "a", 1: "b", 2: "b", 3: "b", 4: "b", 5: "b"}
    assert assign(owned, members) == {**owned, 1: "a", 5: "c"}


def test_a_row_is_passed_on_along_a_chain_where_that_evens_out() -> None:
    """c is full of rows that b may have, and b of those that a may have."""
    members = [pinned("a", 0, 1), pinned("b", 1, 2, 3), pinned("c", 3, 4, 5, 6)]
    owned = {0: "a", 1: "b", 2: "b", 3: "c", 4: "c", 5: "c", 6: "c"}
    assert assign(owned, members) == {**owned, 1: "a", 3: "b"}


def test_pins_to_rows_that_are_not_there_say_nothing() -> None:
    assert sizes(NOBODY, pinned("a", 100), Participant("b")) == {"b": 8}


def test_256_rows_are_shared_evenly_among_1_to_16() -> None:
    for count in range(1, 17):
        shares = sizes(dict.fromkeys(range(256)), *(Participant(f"m-{n:02}") for n in range(count)))
        assert len(shares) == count
        assert sum(shares.values()) == 256
        assert max(shares.values()) - min(shares.values()) <= 1


def test_of_three_two_are_left_with_128_each() -> None:
    three = assign(dict.fromkeys(range(256)), [Participant(id) for id in "abc"])
    assert sorted(Counter(three.values()).values()) == [85, 85, 86]
    two = assign(three, [Participant("a"), Participant("c")])
    assert Counter(two.values()) == {"a": 128, "c": 128}
    assert all(two[row] == owner for row, owner in three.items() if owner != "b")
