import io
from pathlib import Path

from rich.console import Console

from bench import Ratio, Target, Value
from bench.report import print_case, print_targets, result_path, write_json
from bench.result import Report, Settings, TargetResult
from tests.unit.bench.fakes import SpentTime, a_case, a_machine, results_of


def a_report() -> Report:
    time = SpentTime()
    case = a_case(
        time.variant("A", 1, 2, 4),
        time.variant("B", 2, 2, 2),
        targets=[
            Target("cpu", Ratio("A", "B", "cpu_us"), at_most=3),
            Target("gone", Value("A", "wal_bytes"), at_most=3),
        ],
    )
    cases = [results_of(case, time, rounds=3)]
    return Report(machine=a_machine(), settings=Settings(rounds=3), cases=cases)


def a_target(**changes: object) -> TargetResult:
    said: dict[str, object] = {
        "name": "record.create_cpu",
        "label": "Record / plain slotted object",
        "measure": "cpu_us",
        "unit": "x",
        "bound": "at most 3 x",
        "value": 0.52,
        "low": 0.49,
        "high": 0.58,
        "passed": True,
    }
    return TargetResult(**(said | changes))  # type: ignore[arg-type]  # a test's shorthand


def test_the_cause_of_a_bound_that_is_not_kept_stands_below_its_line() -> None:
    text = io.StringIO()
    print_targets(Console(file=text, width=200), [a_target(passed=False, cause="each batch is one flush")])

    line, below = text.getvalue().strip("\n").splitlines()
    assert line.endswith("MISS")
    assert below == "   cause: each batch is one flush"


def test_a_table_has_a_row_per_measure_and_variant() -> None:
    text = io.StringIO()
    print_case(Console(file=text, width=200), a_report().cases[0])

    lines = [line.split() for line in text.getvalue().splitlines()]
    assert ["wall_seconds", "A", "1.00", "2.00", "4.00"] in lines
    assert ["B", "2.00", "2.00", "2.00"] in lines
    assert "toy: two toys (1 records, 3 rounds)" in text.getvalue()


def test_the_json_file_holds_everything(tmp_path: Path) -> None:
    report = a_report()
    path = result_path(tmp_path, report.machine)
    write_json(report, path)

    assert path == tmp_path / "results" / "20261115T200000Z.json"
    assert Report.decode(path.read_bytes()) == report
    assert [measures["wall_seconds"] for measures in report.cases[0].variants[0].rounds] == [1, 2, 4]


def test_a_report_holds_only_when_everything_was_measured() -> None:
    report = a_report()

    assert report.cases[0].targets[0].passed
    assert not report.holds
