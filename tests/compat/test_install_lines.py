"""Every line of the documentation that installs Penstock works in a clean environment."""

import json
import os
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors.settings import DISTRIBUTION
from tests.docs.install_lines import all_lines, distributions, extras
from tests.docs.pages import PROJECT

LINES = all_lines()
# Spark is 400 MB of source. scripts/setup has installed it in the environment of this test, so that is asked.
HEAVY = {"spark"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the repository's wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(PROJECT))
    (found,) = folder.glob("penstock_outbox-*.whl")
    return found


def pip(python: str, *words: str, folder: Path | None = None) -> str:
    """Run pip for an environment, with the pinned versions; return what it says."""
    environment = {**os.environ, "PIP_CONSTRAINT": str(PROJECT / "constraints.txt")}
    command = [sys.executable, "-m", "pip", "--python", python, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"pip {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def install_in_a_clean_environment(words: tuple[str, ...], wheel: Path, folder: Path) -> None:
    """Install the repository's wheel and what the line names, and ask the doctor what is there."""
    venv.create(folder, with_pip=False)
    python = str(folder / "bin" / "python")
    pip(python, "install", "--no-compile", str(wheel), *by_name(words))
    assert_has(python, words)


def by_name(words: tuple[str, ...]) -> list[str]:
    """Return the words of a line with the name of the distribution in the place of a clone's folder."""
    return [DISTRIBUTION + word[1:] if word.startswith(".") else word for word in words]


def by_extras() -> list[tuple[str, ...]]:
    """Return the light lines, those with the same extras as one: an environment costs seconds."""
    united: dict[frozenset[str], dict[str, None]] = {}
    for words in LINES:
        united.setdefault(frozenset(extras(words)), {}).update(dict.fromkeys(words))
    return [tuple(words) for named, words in united.items() if not named & HEAVY]


def assert_has(python: str, words: tuple[str, ...]) -> None:
    """Assert that an environment has what a line names."""
    check = "import json, sys, importlib.metadata as m; [m.version(each) for each in json.loads(sys.argv[1])]"
    named = json.dumps(sorted(distributions(words)))
    subprocess.run([python, "-I", "-c", check, named], check=True)
    command = [str(Path(python).parent / "penstock"), "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = {part["part"]: part for part in json.loads(done.stdout)}
    for extra in extras(words):
        assert found[f"[{extra}]"]["state"] == "ok", found[f"[{extra}]"]


@pytest.mark.slow
def test_every_line_installs_what_it_says_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    light = by_extras()
    assert len(light) > 5
    with ThreadPoolExecutor(2) as threads:
        done = [
            threads.submit(install_in_a_clean_environment, words, wheel, tmp_path / str(number))
            for number, words in enumerate(light)
        ]
        for each in done:
            each.result()


@pytest.mark.slow
def test_the_heavy_lines_are_what_this_environment_has() -> None:
    heavy = [words for words in LINES if extras(words) & HEAVY]
    assert heavy
    for words in heavy:
        said = pip(sys.executable, "install", "--dry-run", "--no-index", "--no-build-isolation", *by_name(words))
        assert "Would install" not in said
        assert_has(sys.executable, words)
