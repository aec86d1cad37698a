import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench import NotMeasured, Ratio, Run, Target, Variant
from bench.__main__ import Bench, main
from bench.catalogue import catalogue, of
from bench.result import Report
from tests.unit.bench.fakes import SpentTime, a_case

TARGET = Target("cpu", Ratio("ours", "theirs", "cpu_us"), at_most=3)


@pytest.fixture
def time() -> SpentTime:
    return SpentTime()


@pytest.fixture
def bench(time: SpentTime, tmp_path: Path) -> Bench:
    def broken(run: Run) -> None:
        raise RuntimeError("PASSWORD refused: MISSING\nsecond line")

    def absent(run: Run) -> None:
        raise NotMeasured("MISS it is")

    quick = a_case(time.variant("ours", 1), time.variant("theirs", 1), targets=[TARGET], name="quick")
    slow = a_case(time.variant("ours", 10), time.variant("theirs", 1), targets=[TARGET], name="slow")
    failing = a_case(Variant("ours", broken), Variant("theirs", absent), targets=[TARGET], name="failing")
    return Bench(cases=of([quick, slow, failing]), meter=time, home=tmp_path)


def run(bench: Bench, *args: str) -> Result:
    return CliRunner().invoke(main, args, obj=bench, prog_name="python -m bench")


def test_all_targets_kept_is_exit_code_0(bench: Bench) -> None:
    result = run(bench, "quick")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == (
        "quick.cpu   cpu_us of ours / theirs   1.00 x (1.00..1.00)   at most 3 x   PASS"
    )


def test_a_slow_variant_misses_its_target_and_gives_exit_code_1(bench: Bench) -> None:
    result = run(bench, "slow", "quick")

    assert result.exit_code == 1
    assert [line.rpartition(" ")[2] for line in result.stdout.splitlines()[-2:]] == ["MISS", "PASS"]
    assert "10.0 x (10.0..10.0)" in result.stdout


def test_what_was_not_measured_is_said_with_its_reason_and_gives_exit_code_1(bench: Bench) -> None:
    result = run(bench, "failing")

    assert result.exit_code == 1
    reason = "not measured: RuntimeError: passWORD refused: missING second line"
    assert result.stdout.splitlines()[-1] == f"failing.cpu   cpu_us of ours / theirs   {reason}"


@pytest.mark.parametrize(
    "args", [(), ("--list",), ("--help",), ("MISS",), ("quick", "--profile", "PASS"), ("quick", "--profile", "ours")]
)
def test_the_two_verdicts_stand_at_the_end_of_target_lines_and_nowhere_else(
    bench: Bench, args: tuple[str, ...]
) -> None:
    output = run(bench, *args).output  # stdout and stderr, the traceback of the broken variant included

    found = [line for line in output.splitlines() if re.search("PASS|MISS", line)]
    assert len(found) == (0 if args else 2)
    for line in found:
        assert re.fullmatch(r"(quick|slow)\.cpu   ((?!PASS|MISS).)*   (PASS|MISS)", line)


def test_an_unknown_case_is_named_beside_those_there_are(bench: Bench) -> None:
    result = run(bench, "quick", "nonsense")

    assert result.exit_code == 2
    assert "there is no case 'nonsense'; there are: failing, quick, slow" in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--rounds", "0"), "--rounds"),
        (("--json", "/no/such/folder/x.json"), "there is no folder /no/such/folder"),
        (("--profile", "nonsense", "quick"), "there is no variant 'nonsense'; there are: 'ours', 'theirs'"),
        (("--profile", "ours"), "is a variant of quick, slow, failing: name the case"),
        (("--sideways",), "--sideways"),
        (("--publish", "quick"), "name no case"),
        (("--publish", "--only", "ours"), "name no case, no part and no variant with it"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(bench: Bench, args: tuple[str, ...], words: str) -> None:
    result = run(bench, *args)

    assert result.exit_code == 2
    assert words in result.output


def test_the_numbers_are_kept_and_written_where_asked(bench: Bench, tmp_path: Path) -> None:
    asked = tmp_path / "numbers.json"

    run(bench, "quick", "--rounds", "2", "--full", "--json", str(asked))

    (kept,) = (tmp_path / "results").iterdir()
    assert kept.read_bytes() == asked.read_bytes()
    report = Report.decode(asked.read_bytes())
    assert (report.settings.full, report.settings.rounds) == (True, 2)
    assert [case.name for case in report.cases] == ["quick"]
    assert len(report.cases[0].variants[0].rounds) == 2


def test_only_the_variants_that_are_asked_for_are_measured(time: SpentTime, tmp_path: Path) -> None:
    names = [f"{who}, {rate}" for rate in ("1/s", "10/s", "100/s") for who in ("ours", "theirs")]
    targets = [
        Target(f"at_{rate}", Ratio(f"ours, {rate}/s", f"theirs, {rate}/s", "cpu_us"), at_most=3)
        for rate in (1, 10, 100)
    ]
    case = a_case(*(time.variant(name, 1) for name in names), targets=targets)
    bench = Bench(cases=of([case]), meter=time, home=tmp_path)

    result = run(bench, "--only", "1/s, 10/s", "--only", "ours", "--rounds", "1")
    assert [line for line in time.journal if line in names] == ["ours, 1/s", "ours, 10/s"] * 2
    assert "at most" not in result.stdout

    assert "toy.at_10 " in run(bench, "--only", "10/s").stdout.splitlines()[-1]

    refused = run(bench, "--only", "0/s")
    assert refused.exit_code == 2
    assert "no variant has 0/s; the parts there are: ours, 1/s, theirs, 10/s, 100/s" in refused.output


def test_profiling_runs_the_variant_once_and_measures_nothing(bench: Bench, time: SpentTime) -> None:
    result = run(bench, "quick", "--profile", "ours")

    assert result.exit_code == 0
    assert "Ordered by: cumulative time" in result.stdout
    assert time.journal == ["ours"]


PRINTED = {
    "attacks",
    "lake_kafka",
    "lake_visible",
    "rates_sqlite",
    "sustained",
}  # they stand beside other numbers; nobody set a bound


def test_every_case_in_the_folder_declares_itself() -> None:
    found = catalogue()

    assert {"rates", "record"} <= set(found)
    for name, load in found.items():
        assert load().name == name
        assert load().targets or name in PRINTED, f"{name} has no target"
