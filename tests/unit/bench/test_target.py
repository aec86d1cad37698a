import pytest

from bench import Difference, NotMeasured, Paired, Ratio, Target, Value, Variant
from bench.target import Quantity, Rounds
from tests.unit.bench.fakes import a_case

ROUNDS: Rounds = {
    "A": [{"cpu_us": 2.0}, {"cpu_us": 9.0}, {"cpu_us": 3.0}],
    "B": [{"cpu_us": 1.0}, {"cpu_us": 3.0}, {"cpu_us": 2.0}],
    "idle": [{"cpu_us": 0.0}, {"cpu_us": 0.0}, {"cpu_us": 1.0}],
}


def test_a_ratio_divides_the_medians_and_spreads_over_the_pairs() -> None:
    assert Ratio("A", "B", "cpu_us").work_out(ROUNDS) == Quantity(3 / 2, 1.5, 3.0)


def test_a_ratio_to_zero_is_not_measured() -> None:
    with pytest.raises(NotMeasured, match="cpu_us of idle is zero"):
        Ratio("A", "idle", "cpu_us").work_out(ROUNDS)


def test_a_paired_ratio_is_the_median_of_the_rounds_to_the_best_of_each() -> None:
    rounds: Rounds = {
        "A": [{"ms": 4.0}, {"ms": 30.0}, {"ms": 9.0}],
        "B": [{"ms": 2.0}, {"ms": 40.0}, {"ms": 6.0}],
        "C": [{"ms": 8.0}, {"ms": 10.0}, {"ms": 7.0}],
    }
    assert Paired("A", ("B", "C"), "ms").work_out(rounds) == Quantity(2.0, 1.5, 3.0)
    assert Paired("A", ("B",), "ms").work_out(rounds) == Quantity(1.5, 0.75, 2.0)


def test_a_measure_may_be_a_sum_of_others() -> None:
    rounds: Rounds = {"A": [{"worker_us": 2.0, "database_us": 4.0}], "B": [{"worker_us": 1.0, "database_us": 2.0}]}
    assert Paired("A", ("B",), "worker_us + database_us").work_out(rounds) == Quantity(2.0, 2.0, 2.0)
    with pytest.raises(NotMeasured, match=r"A gave no worker_us \+ wal_us in every round"):
        Paired("A", ("B",), "worker_us + wal_us").work_out(rounds)


def test_who_is_below_the_floor_is_left_out_of_the_round() -> None:
    rounds: Rounds = {
        "A": [{"ms": 4.0, "rate": 100.0}, {"ms": 6.0, "rate": 95.0}, {"ms": 1.0, "rate": 94.0}],
        "B": [{"ms": 1.0, "rate": 50.0}, {"ms": 2.0, "rate": 100.0}, {"ms": 1.0, "rate": 100.0}],
        "C": [{"ms": 4.0, "rate": 100.0}, {"ms": 9.0, "rate": 100.0}, {"ms": 1.0, "rate": 100.0}],
    }
    assert Paired("A", ("B", "C"), "ms", ("rate", 95)).work_out(rounds) == Quantity(2.0, 1.0, 3.0)
    assert Paired("A", ("B",), "ms", ("rate", 95)).work_out(rounds) == Quantity(3.0, 3.0, 3.0)
    with pytest.raises(NotMeasured, match="in no round had A / B both rate of at least 101"):
        Paired("A", ("B",), "ms", ("rate", 101)).work_out(rounds)


def test_a_difference_subtracts_the_medians() -> None:
    assert Difference("A", "B", "cpu_us").work_out(ROUNDS) == Quantity(1.0, 1.0, 6.0)


def test_a_value_is_the_median() -> None:
    assert Value("A", "cpu_us").work_out(ROUNDS) == Quantity(3.0, 2.0, 9.0)


@pytest.mark.parametrize(
    ("target", "inside", "outside", "words"),
    [
        (Target("t", Ratio("A", "B", "cpu_us"), at_most=3), 3.0, 3.0001, "at most 3 x"),
        (Target("t", Ratio("A", "B", "cpu_us"), at_least=0.5), 0.5, 0.4999, "at least 0.5 x"),
        (Target("t", Value("A", "rss_growth_mb"), at_most=100), 100, 101, "at most 100 MB"),
        (Target("t", Difference("A", "B", "poll_ms"), at_most=2), -5, 2.5, "at most 2 ms"),
        (Target("t", Value("A", "queries_per_tick"), at_most=5), 0, 6, "at most 5"),
        (Target("t", Value("A", "statements_per_second"), at_most=5), 5, 5.1, "at most 5 /s"),
        (Target("t", Value("A", "core_percent"), at_most=2), 2, 2.1, "at most 2 %"),
    ],
)
def test_a_bound_itself_is_kept(target: Target, inside: float, outside: float, words: str) -> None:
    assert target.keeps(inside)
    assert not target.keeps(outside)
    assert target.bound == words


@pytest.mark.parametrize("bounds", [{}, {"at_most": 1.0, "at_least": 1.0}])
def test_a_target_has_exactly_one_bound(bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="needs either at_most or at_least"):
        Target("t", Value("A", "cpu_us"), at_most=bounds.get("at_most"), at_least=bounds.get("at_least"))


def test_a_target_on_an_unknown_variant_is_refused_when_it_is_declared() -> None:
    with pytest.raises(ValueError, match=r"toy\.t names 'B'"):
        a_case(Variant("A", lambda run: None), targets=[Target("t", Ratio("A", "B", "cpu_us"), at_most=1)])
