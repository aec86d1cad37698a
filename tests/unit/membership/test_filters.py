"""Whose filter counts while two versions of a group run beside each other."""

import pytest

from penstock.membership.filters import REMEMBERED, Filter, covers, filter_of, have_nothing_in_common, succeed, wanted

A, B, AB, AC = (filter_of(f"events:{each}" for each in texts) for texts in ("a", "b", "ab", "ac"))
ALL = filter_of(["events:*"])


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("events:a", "events:a"),
        ("events:order.*", "events:order.placed"),
        ("events:order.*", "events:order.item.*"),
        ("events:*", "events:order.*"),
        ("events:*", "events:?shop.wants"),
        ("events:?shop.wants", "events:?shop.wants"),
    ],
)
def test_a_match_includes_another(wide: str, narrow: str) -> None:
    assert covers((wide,), (narrow,))
    assert wide == narrow or not covers((narrow,), (wide,))
    assert filter_of([wide, narrow]) == (wide,)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("events:a", "events:b"),
        ("events:a", "orders:a"),
        ("events:*", "orders:a"),
        ("events:order.*", "events:orders.placed"),
        ("events:order.*", "events:order"),
        ("events:order.*", "events:?order.wants"),
        ("events:?shop.wants", "events:?shop.likes"),
    ],
)
def test_neither_match_includes_the_other(one: str, other: str) -> None:
    assert not covers((one,), (other,))
    assert not covers((other,), (one,))
    assert filter_of([other, one]) == tuple(sorted([one, other]))


def test_two_spellings_of_one_filter_are_one() -> None:
    """Or each would cover the other, and they would take turns forever."""
    assert filter_of(["t:order.*", "t:order.a", "t:order.*"]) == filter_of(["t:order.*"])


@pytest.mark.parametrize(
    ("stored", "living", "wanted"),
    [
        pytest.param([], [A], [A], id="the first one counts"),
        pytest.param([], [], [], id="nobody is there"),
        pytest.param([A], [], [A], id="it is kept while nobody is there"),
        pytest.param([A], [A, A], [A], id="all are alike"),
        pytest.param([A], [A, AB], [AB, A], id="who wants more counts at once"),
        pytest.param([A], [A, ALL], [ALL, A], id="who wants all counts at once"),
        pytest.param([A, AB], [A, AB], [AB, A], id="who wants more counts at once, also when it did before"),
        pytest.param([AB], [AB, AC], [AC, AB], id="who is new and wants something else counts at once"),
        pytest.param([AB], [AB, A], [AB], id="who wants less waits"),
        pytest.param([AB, A], [A, AB], [AB, A], id="who counted before waits"),
        pytest.param([AC, AB], [AC, AB], [AC, AB], id="who counted before and wants something else waits"),
        pytest.param([AB], [A], [A, AB], id="who waited counts when the other is gone"),
        pytest.param([AC, AB], [AB], [AB, AC], id="a deploy that is taken back"),
        pytest.param([AB], [A, B], [A, AB, B], id="of those that waited, one that stays"),
        pytest.param([A], [AB, ALL, A], [ALL, AB, A], id="several new ones"),
    ],
)
def test_who_counts(stored: list[Filter], living: list[Filter], wanted: list[Filter]) -> None:
    found = succeed(stored, living)
    assert found[:1] == wanted[:1]
    assert sorted(found) == sorted(wanted)


def test_the_newest_that_waited_counts_when_the_other_is_gone() -> None:
    known = [ALL, A, B]
    assert succeed(known, [A, B])[0] == B
    assert succeed(known, [B, A])[0] == A


def test_what_counted_before_is_forgotten_in_the_end() -> None:
    known: list[Filter] = []
    versions = [filter_of([f"t:{number}"]) for number in range(20)]
    for version in versions:
        known = succeed(known, [version])
    assert known == versions[: -REMEMBERED - 1 : -1]


def test_what_a_living_member_has_is_not_forgotten() -> None:
    """Many versions at once do not take turns forever."""
    living = [filter_of([f"t:{number}"]) for number in range(20)]
    known = succeed([], living)
    assert succeed(known, living) == known
    assert len(known) == 20


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (("t:a",), ("t:b",), True),
        (("t:a", "t:b"), ("t:b", "t:c"), False),
        (("t:order.*",), ("t:order.placed",), False),
        (("t:order.placed",), ("t:order.*",), False),
        (("t:order.*",), ("t:user.*",), True),
        (("t:*",), ("t:a",), False),
        (("t:?f",), ("t:a",), False),  # nobody knows what it wants
        (("t:?f",), ("u:a",), True),
        (("t:a",), ("u:a",), True),
    ],
)
def test_programs_whose_filters_have_nothing_in_common_are_told_apart(one: Filter, other: Filter, apart: bool) -> None:
    assert have_nothing_in_common(one, other) is apart
    assert have_nothing_in_common(other, one) is apart


@pytest.mark.parametrize(
    ("filters", "answer"),
    [
        ([("t:a",)], True),
        ([("t:b",)], False),
        ([("t:a",), ("t:b",)], None),
        ([("t:b", "t:?f")], None),
        ([("u:a",)], False),
        ([], None),
    ],
)
def test_whether_filters_want_a_type(filters: list[Filter], answer: bool | None) -> None:
    assert wanted(filters, "t", "a") is answer
