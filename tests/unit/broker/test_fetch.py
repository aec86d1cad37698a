"""Where partitions are known to end: never believed after a growth, and nothing is kept of what is gone."""

from penstock.broker.fetch import KnownEnds


def test_a_look_that_began_before_a_growth_is_not_believed() -> None:
    ends = KnownEnds()
    before = ends.moves((1, 0))
    ends.moved((1, 0))
    ends.found((1, 0), before, 5, 0)
    assert ends.at((1, 0), 5) is None
    ends.found((1, 0), ends.moves((1, 0)), 6, 0)
    assert ends.at((1, 0), 6) == (6, 0)
    assert ends.at((1, 0), 5) is None


def test_a_change_of_topics_forgets_ends_and_all_of_topics_that_are_gone() -> None:
    ends = KnownEnds()
    for topic in (1, 2):
        ends.moved((topic, 0))
        ends.found((topic, 0), 1, 5, 0)
    ends.forget({2: "still there"})
    assert ends.at((2, 0), 5) is None
    assert (ends.moves((1, 0)), ends.moves((2, 0))) == (0, 1)
