"""Two packages are measured by turns, held against the same peers, and told on one page."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import Case, NotMeasured, Paired, Peer, Ratio, Run, Target, Variant
from bench.__main__ import Bench, main
from bench.beside import CaseComparison, Comparison, Tree, comparing, tree_of
from bench.beside.__main__ import _wanted
from bench.case import Extra
from bench.catalogue import catalogue
from bench.publishing.__main__ import compared_again, joined
from bench.publishing.before_after import NUMBERS, comparison_page, publish_comparison
from bench.publishing.page import CASES, FOLDER
from bench.result import Report, Settings, case_result
from tests.unit.bench.fakes import a_case, a_machine

RIVAL = Peer(name="rival")


def a_comparison(name: str = "toy", *, before: float = 4.0, after: float = 2.0) -> CaseComparison:
    case = Case(
        name=name,
        about="made up",
        variants=[Variant("ours", _nothing), Variant("theirs", _nothing, peer=RIVAL)],
        targets=[Target("p50", Paired("ours", ("theirs",), "wait_ms"), at_most=1.5, cause="the disk")],
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


def test_rounds_take_turns_and_what_does_not_depend_on_us_runs_once_in_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ours takes 4 us before and 2 us now, theirs 1 us; each round is dearer than the one before."""
    case = a_case(
        Variant("ours", _nothing),
        Variant("theirs", _nothing, peer=RIVAL),
        targets=[Target("cpu", Ratio("ours", "theirs", "x_us"), at_most=3)],
    )
    journal: list[str] = []

    def round_of(case: Case, settings: Settings, environment: dict[str, str], *, peers: bool) -> Report:
        journal.append("after" if peers else "before")
        size = 1.0 + len(journal)
        measured = {"ours": [{"x_us": size * (2 if peers else 4)}]} | ({"theirs": [{"x_us": size}]} if peers else {})
        result = case_result(_wanted(case, ["ours", "theirs"], peers=peers), 1, measured, {})
        return Report(machine=a_machine(), settings=settings, cases=[result])

    monkeypatch.setattr(comparing, "_round", round_of)
    [found] = comparing.compare(case, Settings(rounds=3), Tree("0ld", tmp_path)).cases

    assert journal == ["before", "after", "after", "before", "before", "after"]
    assert [len(variant.rounds) for variant in found.before.variants] == [3, 3]
    assert found.before.variants[1].rounds == found.after.variants[1].rounds
    assert found.after.targets[0].value == pytest.approx(2.0)
    assert found.before.targets[0].passed is False
    [pair] = found.pairs(["x_us"])
    assert [pair.before.median, pair.after.median] == [20.0, 8.0]


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


def test_the_package_of_an_earlier_commit_is_the_one_that_its_run_imports(repository: Path, tmp_path: Path) -> None:
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
    result = CliRunner().invoke(main, ["record", "--beside", "nonsense"], obj=Bench(home=tmp_path))
    assert result.exit_code == 1
    assert "--beside nonsense: git rev-parse" in result.output


def test_the_page_has_both_values_of_a_target_and_the_verdict_on_the_present_one() -> None:
    text = comparison_page(Comparison(cases=[a_comparison()]))

    assert (
        "| toy.p50 | `wait_ms` | ours / theirs | at most 1.5 x | 4.00 x (4.00..4.00) | 2.00 x (2.00..2.00) "
        "| MISS | the disk |" in text
    )
    assert "| toy | ours | `wait_ms` | 6.00 (4.00..8.00) | 3.00 (2.00..4.00) | 0.50 |" in text
    assert "| toy | 3 | quick | `0ld` | `abc`, with changes not committed | 2026-11-15T20:00:00+00:00 |" in text


def test_a_case_of_few_rounds_or_on_a_busy_machine_has_a_star() -> None:
    found = a_comparison()
    busy = replace(found, machine=replace(found.machine, load_average=(2.1, 0.0, 0.0)))
    short = replace(found, after=replace(found.after, rounds=2))

    assert "| toy.p50 \\* |" not in comparison_page(Comparison(cases=[found]))
    for doubtful in (busy, short):
        assert "| toy.p50 \\* |" in comparison_page(Comparison(cases=[doubtful]))


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
    if not (FOLDER / NUMBERS).exists():
        pytest.skip("no comparison is published: it wants a quiet machine")
    kept = Comparison.decode((FOLDER / NUMBERS).read_bytes())

    for path in publish_comparison(compared_again(kept, catalogue()), tmp_path):
        assert (FOLDER / path.name).read_bytes() == path.read_bytes(), "run python -m bench.publishing"


@pytest.mark.slow
def test_a_case_is_measured_with_the_package_of_an_earlier_commit(repository: Path, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.json"
    rests = list[str]()
    bench = Bench(home=tmp_path, pages=tmp_path / "pages", let_rest=lambda: rests.append("before the case"))
    words = ["record", "--beside", "HEAD", "--rounds", "1", "--publish", "--json", str(numbers)]
    result = CliRunner().invoke(main, words, obj=bench)

    [case] = Comparison.decode(numbers.read_bytes()).cases
    assert case.name == "record"
    assert all(len(variant.rounds) == 1 for half in (case.before, case.after) for variant in half.variants)
    assert rests == ["before the case"]
    assert result.output.count("record.create_cpu") == 1
    assert "| record.create_cpu \\* |" in (bench.pages / "before-after.md").read_text("utf-8")
