"""The reference pages are what the code says: every setting, error, command, series and point is there."""

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from tests.docs.pages import PROJECT

pytestmark = pytest.mark.slow  # `scripts/check` looks for drift, too

# In a process of its own: other tests of this one declare settings, points and errors too.
DRIFT = "import sys, pathlib, tools.reference as r; sys.exit(r.main(sys.argv[2:], pathlib.Path(sys.argv[1])))"

# A name of each page, to be taken out.
NAMES = {
    "api.md": "### `penstock.Outbox`",
    "settings.md": "`PENSTOCK_LIMITS_EVENT_BYTES`",
    "errors.md": "`value_too_large`",
    "commands/README.md": "`penstock doctor`",
    "console.md": "`cancel-scheduled`",
    "grpc.md": "service Publishing {",
    "metrics.md": "`penstock_published_total`",
    "points.md": "`outbox.before_stage`",
    "rest.md": "`/v1/openapi.json`",
    "screens.md": "## `penstock dead list`",
    "commands/topics.md": "## `penstock topics grow`",
}


def reference(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run the tool on a folder."""
    command = [sys.executable, "-c", DRIFT, str(folder), *args]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the pages in a folder and below it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.md")}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the pages as the code has them now."""
    folder = tmp_path_factory.mktemp("reference")
    done = reference(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_reference_pages_have_not_drifted() -> None:
    command = [sys.executable, "-m", "tools.reference", "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_runs_write_the_same(fresh: Path, tmp_path: Path) -> None:
    assert reference(tmp_path).returncode == 0
    assert contents(tmp_path) == contents(fresh)


def test_a_name_that_a_page_lacks_is_drift(fresh: Path, tmp_path: Path) -> None:
    copytree(fresh, tmp_path, dirs_exist_ok=True)
    for page, name in NAMES.items():
        text = (fresh / page).read_text("utf-8")
        assert name in text
        (tmp_path / page).write_text(text.replace(name, "gone"), "utf-8")
    done = reference(tmp_path, "--check")
    assert done.returncode == 1
    *sentences, advice = done.stdout.splitlines()
    for (page, name), sentence in zip(NAMES.items(), sentences, strict=True):
        assert sentence.startswith(f"{page}:")
        assert name in sentence
    assert advice.endswith("run: python -m tools.reference")


def test_a_missing_page_and_a_foreign_page_are_drift(fresh: Path, tmp_path: Path) -> None:
    copytree(fresh, tmp_path, dirs_exist_ok=True)
    (tmp_path / "points.md").rename(tmp_path / "by-hand.md")
    (tmp_path / "commands" / "top.md").rename(tmp_path / "commands" / "bottom.md")
    done = reference(tmp_path, "--check")
    assert done.returncode == 1
    assert "points.md is not there" in done.stdout
    assert "by-hand.md is not written by this tool" in done.stdout
    assert "commands/top.md is not there" in done.stdout
    assert "commands/bottom.md is not written by this tool" in done.stdout
