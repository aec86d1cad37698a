"""A stranger's first minutes: a fresh clone, an empty home, the README's commands."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.services.budget import level_from_environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1200)  # it fetches every package anew
def test_both_readme_commands_pass_in_a_fresh_clone_with_an_empty_home(tmp_path: Path) -> None:
    if level_from_environment() != "long":
        pytest.skip("CI sets up and runs the demo in a clean clone itself; with an empty home in --long")
    clone, home = tmp_path / "penstock", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PATH", "PIP_", "LANG"))}
    environment = kept | {"HOME": str(home), "CI": "true"}

    demo = _run(["./scripts/demo"], clone, environment)
    assert demo.splitlines()[-1].startswith("reconciled:")

    # Not the whole set again: this test is about the set-up, and the set itself runs beside it.
    assert " passed" in _run(["./scripts/test", "tests/unit/model", "-q"], clone, environment)


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout
