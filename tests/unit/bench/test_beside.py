"""Two packages are measured by turns, held against the same peers, and told on one page."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

import pytest
from click.testing import CliRunner

from bench import Case, NotMeasured, Paired, Peer, Run, Target, Variant
from bench.__main__ import Bench, main
from bench.beside import CaseComparison, Comparison, tree_of
from bench.beside.__main__ import _wanted
from bench.beside.comparing import _with_shared
from bench.beside.turns import Place, TurningRun, Turns, alternate
from bench.case import Extra
from bench.catalogue import catalogue
from bench.publishing.__main__ import compared_again, joined
from bench.publishing.before_after import NUMBERS, comparison_page, publish_comparison
from bench.publishing.page import CASES, FOLDER
from bench.result import Report, Settings, case_result
from bench.runner import Runner
from tests.unit.bench.fakes import Journal, SpentTime, a_case, a_machine

RIVAL = Peer(name="rival")


def a_comparison(name: str = "toy", *, before: float = 4.0, after: float = 2.0) -> CaseComparison:
    case = Case(
        name=name,
        about="made up",
        variants=[Variant("ours", _nothing), Variant("theirs", _nothing, peer=RIVAL)],
        targets=[
            Target("p50", Paired("ours", ("theirs",), "wait_ms"), at_most=1.5, cause="the disk"),
        ],
    )
    rounds = (1.0, 1.5, 2.0)

    def result(ours: float) -> Any:
        measured = {
            "ours": [{"wait_ms": ours * part} for part in rounds],
            "theirs": [{"wait_ms": 1.0 * part} for part in rounds],
        }
        return case_result(case, 3, measured, {})

    return CaseComparison(
        earlier_commit="0ld",
        machine=a_machine(),
        settings=Settings(rounds=3),
        shared=["theirs"],
        before=result(before),
        after=result(after),
    )


def _nothing(run: Run) -> Extra:
    return None


class Walker:
    """A run that stands at some places, one after the other, and writes down when it was let go."""

    def __init__(self, name: str, places: list[Place], journal: list[str]) -> None:
        self._name, self._places, self._journal = name, iter(places), journal
        self.place: Place | None = (-1, -1, -1)

    def go(self) -> None:
        if self.place != (-1, -1, -1):
            self._journal.append(f"{self._name} {self.place}")
        self.place = next(self._places, None)


def turns_of(first: list[Place], second: list[Place]) -> list[str]:
    journal: list[str] = []
    walkers = (Walker("old", first, journal), Walker("new", second, journal))
    alternate(cast(TurningRun, walkers[0]), cast(TurningRun, walkers[1]))
    return journal


def test_both_do_the_same_variant_one_after_the_other_and_begin_in_turn() -> None:
    places = [(0, 1, 0), (0, 1, 1), (0, 2, 0)]

    assert turns_of(places, places) == [
        "new (0, 1, 0)",
        "old (0, 1, 0)",
        "old (0, 1, 1)",
        "new (0, 1, 1)",
        "old (0, 2, 0)",
        "new (0, 2, 0)",
    ]


def test_the_one_that_has_less_to_do_waits_for_the_other_at_the_next_place_they_share() -> None:
    journal = turns_of([(0, 1, 0), (0, 1, 2)], [(0, 1, 0), (0, 1, 1), (0, 1, 2), (1, 1, 0)])

    assert journal[2] == "new (0, 1, 1)"
    assert set(journal[3:5]) == {"old (0, 1, 2)", "new (0, 1, 2)"}
    assert journal[5:] == ["new (1, 1, 0)"]


def test_a_run_says_its_place_before_each_variant_and_does_nothing_until_it_is_told() -> None:
    time, out = SpentTime(), io.StringIO()

    class Told:
        def readline(self) -> str:
            time.journal.append(out.getvalue().splitlines()[-1])
            return "\n"

    case = a_case(time.variant("a", 1), time.variant("b", 1))
    Runner(Settings(rounds=2), time, Turns([case], out, cast(IO[str], Told()))).run(case)

    steps = [line for line in time.journal if not line.startswith("measure")]
    assert steps == [
        *("[0, -1, 0]", "[0, 0, 0]", "a", "[0, 0, 1]", "b"),
        *("[0, 1, 0]", "a", "[0, 1, 1]", "b"),
        *("[0, 2, 0]", "b", "[0, 2, 1]", "a"),
    ]


def test_a_run_that_is_left_alone_ends() -> None:
    case = a_case(Variant("a", _nothing))

    with pytest.raises(SystemExit):
        Turns([case], io.StringIO(), io.StringIO()).begin("toy", 1)


def test_a_run_that_fails_is_told_by_name() -> None:
    run = TurningRun("0ld", ["no order"], dict(os.environ))
    try:
        with pytest.raises(NotMeasured, match="the run of 0ld failed"):
            run.go()
    finally:
        run.close()


def test_peers_run_once_and_keep_their_place_in_the_order() -> None:
    case = a_case(Variant("ours", lambda run: {"x_us": 1.0}), Variant("theirs", _nothing, peer=RIVAL))
    alone = _wanted(case, ["ours", "theirs"], peers=False)

    assert [variant.name for variant in alone.variants] == ["ours", "theirs"]
    assert [variant.peer for variant in alone.variants] == [None, None]
    before = Runner(Settings(rounds=2), SpentTime(), Journal()).run(alone)
    assert before.variants[1].not_measured == "it runs once, beside the present package"

    measured = {"ours": [{"x_us": 5.0}] * 2, "theirs": [{"x_us": 2.0}] * 2}
    both = _with_shared(before, case_result(case, 2, measured, {}), ["theirs"])
    assert [variant.rounds[0]["x_us"] for variant in both.variants] == [1.0, 2.0]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    package = folder / "src" / "penstock"
    package.mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(folder)]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for version in ("first", "second"):
        (package / "__init__.py").write_text(f"VERSION = {version!r}\n")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", version], check=True)
    return folder


def test_the_package_of_an_earlier_commit_is_the_one_that_its_run_imports(
    repository: Path, tmp_path: Path
) -> None:
    tree = tree_of("HEAD~1", repository=repository, home=tmp_path)

    seen = subprocess.run(
        [sys.executable, "-c", "import penstock; print(penstock.VERSION)"],
        env=tree.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout == "first\n"
    assert tree_of("HEAD~1", repository=repository, home=tmp_path) == tree


def test_a_commit_that_is_not_there_is_refused_by_name(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="rev-parse"):
        tree_of("nonsense", repository=repository, home=tmp_path)
    result = CliRunner().invoke(main, ["partition", "--beside", "nonsense"], obj=Bench(home=tmp_path))
    assert result.exit_code == 1
    assert "--beside nonsense: git rev-parse" in result.output


def test_cases_have_to_be_named_unless_the_page_is_written() -> None:
    result = CliRunner().invoke(main, ["--beside", "HEAD"])

    assert result.exit_code == 2
    assert "name the cases, or give --publish" in result.output


def test_a_pair_has_the_ratio_of_each_round_and_peers_have_none() -> None:
    [pair] = a_comparison().pairs(["wait_ms"])

    assert (pair.variant, pair.before.median, pair.after.median) == ("ours", 6.0, 3.0)
    assert pair.ratio is not None
    assert (pair.ratio.min, pair.ratio.median, pair.ratio.max) == (0.5, 0.5, 0.5)


def test_the_page_has_both_values_of_a_target_and_the_verdict_on_the_present_one() -> None:
    text = comparison_page(Comparison(cases=[a_comparison()]))

    assert (
        "| toy.p50 | `wait_ms` | ours / theirs | at most 1.5 x | 4.00 x (4.00..4.00) | 2.00 x (2.00..2.00) "
        "| MISS | the disk |" in text
    )
    assert "| toy | ours | `wait_ms` | 6.00 (4.00..8.00) | 3.00 (2.00..4.00) | 0.50 |" in text
    assert (
        "| toy | 3 | quick | `0ld` | `abc`, with changes not committed | 2026-11-15T20:00:00+00:00 |" in text
    )


def test_a_case_that_is_compared_again_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    publish_comparison(Comparison(cases=[a_comparison("a"), a_comparison("b")]), tmp_path)
    publish_comparison(Comparison(cases=[a_comparison("b", after=1.0)]), tmp_path)

    kept = Comparison.decode((tmp_path / NUMBERS).read_bytes())
    assert [case.name for case in kept.cases] == ["a", "b"]
    assert [case.after.targets[0].value for case in kept.cases] == [2.0, 1.0]
    assert (tmp_path / "before-after.md").read_text("utf-8") == comparison_page(kept)


def test_runs_of_one_commit_make_one_page_and_others_are_refused() -> None:
    case = a_comparison().after
    report = Report(machine=a_machine(), settings=Settings(), cases=[replace(case, name=CASES[0])])
    others = replace(report, cases=[replace(case, name=name) for name in reversed(CASES[1:])])

    assert [found.name for found in joined([others, report]).cases] == list(CASES)
    with pytest.raises(ValueError, match="no run measured rates"):
        joined([others])
    with pytest.raises(ValueError, match="abc and def"):
        joined([report, replace(others, machine=replace(a_machine(), commit="def"))])


def test_the_page_of_the_documentation_is_what_its_comparisons_make(tmp_path: Path) -> None:
    kept = Comparison.decode((FOLDER / NUMBERS).read_bytes())

    for path in publish_comparison(compared_again(kept, catalogue()), tmp_path):
        assert (FOLDER / path.name).read_bytes() == path.read_bytes(), "run python -m bench.publishing"


@pytest.mark.slow
def test_a_case_is_measured_with_the_package_of_an_earlier_commit(repository: Path, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.json"
    bench = Bench(home=tmp_path, pages=tmp_path / "pages")
    words = ["partition", "--beside", "HEAD", "--rounds", "1", "--publish", "--json", str(numbers)]
    result = CliRunner().invoke(main, words, obj=bench)

    [case] = Comparison.decode(numbers.read_bytes()).cases
    assert case.name == "partition"
    assert all(len(variant.rounds) == 1 for half in (case.before, case.after) for variant in half.variants)
    assert result.output.count("partition.cpu") == 1
    assert "| partition.cpu |" in (bench.pages / "before-after.md").read_text("utf-8")
