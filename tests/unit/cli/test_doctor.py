"""`penstock doctor`: a table for people, JSON for programs."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.cli import doctor, main
from penstock.operate.doctor import EXTRAS, DoctorFinding, PartState
from tests.suites.refusal import refusal

FINDINGS = [
    DoctorFinding("Python", PartState.OK, "3.11", "everything", "install it"),
    DoctorFinding("Disk", PartState.LOW, "0.1 GiB free", "room", "free some space"),
    DoctorFinding(
        "[postgres]", PartState.MISSING, "not installed", "PostgreSQL", "pip install 'penstock-outbox[postgres]'"
    ),
    DoctorFinding("SQLite callers", PartState.NOTE, "a note", "publishing", "begin it so"),
]
BROKEN = DoctorFinding("SQLite", PartState.BROKEN, "3.1", "the default", "use a newer Python")


def left(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed."""
    code = refusal(SystemExit, main, ["doctor", *args]).code
    return code if isinstance(code, int) else 0, capsys.readouterr().out


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[DoctorFinding]:
    """Give the findings that the doctor will make."""
    findings = list(FINDINGS)
    monkeypatch.setattr(doctor, "examine", lambda where: findings)
    return findings


@pytest.mark.usefixtures("found")
def test_the_table_names_each_part_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = left(capsys)
    assert code == 0
    rows = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert " ok " in rows["Python"]
    assert "install it" not in rows["Python"]
    assert "free some space" in rows["Disk"]
    assert "pip install 'penstock-outbox[postgres]'" in rows["[postgres]"]
    assert "begin it so" in rows["SQLite callers"]


@pytest.mark.usefixtures("found")
def test_json_has_every_finding(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = left(capsys, "--json")
    assert code == 0
    assert [(one["part"], one["state"], one["found"]) for one in json.loads(out)] == [
        (one.part, one.state.value, one.found) for one in FINDINGS
    ]


@pytest.mark.parametrize("flag", [[], ["--json"]], ids=str)
def test_something_that_every_use_needs_is_broken_so_it_exits_with_1(
    capsys: pytest.CaptureFixture[str], found: list[DoctorFinding], flag: list[str]
) -> None:
    found.append(BROKEN)
    code, out = left(capsys, *flag)
    assert code == 1
    assert "SQLite" in out


def test_this_machine_is_examined(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = left(capsys, "--json")
    assert code == 0
    parts = [one["part"] for one in json.loads(out)]
    assert {"Python", "SQLite", "Disk", "PostgreSQL", "Java"} <= set(parts)
    assert [part for part in parts if part.startswith("[")] == [f"[{extra.name}]" for extra in EXTRAS]
    assert left(capsys)[0] == 0


def test_the_disk_that_counts_is_the_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looked = list[Path]()

    def examine(where: Path) -> list[DoctorFinding]:
        looked.append(where)
        return []

    monkeypatch.setattr(doctor, "examine", examine)
    (tmp_path / "data").mkdir()
    url = f"sqlite:///{tmp_path}/data/shop.db"
    with closing(Outbox(url)) as outbox:
        outbox.migrate()
    left(capsys, "--url", url)
    left(capsys)
    assert looked == [tmp_path / "data", Path.cwd()]
