"""The scripts parse, run from anywhere, and `scripts/setup` says plainly what is wrong.

Setup is run in a small tree with a stand-in for Python, so that nothing is downloaded: it answers the
questions setup asks, notes what it was told to do, and "makes" a virtual environment by copying
itself. The real thing is run by every `scripts/test`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = sorted(path for path in [*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"] if path.is_file())
# All that setup may need beside Python and bash; what is not there (flock on a Mac) is left out.
TOOLS = ["bash", "sh", "env", "basename", "cat", "cksum", "cp", "dirname", "flock", "grep", "mkdir", "mktemp"]
TOOLS += ["mv", "rm", "sed", "sort", "tail"]

STAND_IN = r"""#!/bin/sh
case "$*" in
  -V) echo "Python 3.12.9"; exit ;;
  "-E -s -c"*) echo "$STAND_IN_PROBE" "$0"; exit ;;
  "-I -c"*) exec "$REAL_PYTHON" "$@" ;;
esac
[ "$3" != freeze ] || { printf 'b==2\na==1\n'; exit; }
echo "$*" >>"$STAND_IN_NOTES"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip install "*) eval "$STAND_IN_PIP" ;;
esac
"""


@dataclass
class Tree:
    """A project of its own in a folder, with a PATH that has the stand-in as its only Python."""

    root: Path
    path: Path
    notes: Path
    probe: str = "3.12.9 yes yes"
    pip: str = "true"

    def variables(self) -> dict[str, str]:
        stand_in = {"STAND_IN_PROBE": self.probe, "STAND_IN_PIP": self.pip, "STAND_IN_NOTES": str(self.notes)}
        return {"PATH": str(self.path), "REAL_PYTHON": sys.executable} | stand_in

    def setup(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run scripts/setup from a foreign folder and without a home."""
        command = [str(self.root / "scripts" / "setup"), *arguments]
        return subprocess.run(
            command, cwd="/", env=self.variables(), capture_output=True, text=True, check=False, timeout=60
        )

    def take_notes(self) -> list[str]:
        """Return what the stand-in was told to do since the last call: the verbs only."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return [line.split()[1] for line in lines]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root, path = tmp_path / "a project", tmp_path / "bin"
    (root / "scripts").mkdir(parents=True)
    path.mkdir()
    for name in ("setup", "lib.sh"):
        shutil.copy(ROOT / "scripts" / name, root / "scripts" / name)
    (root / "pyproject.toml").write_text('[dependency-groups]\ndev = ["a-tool", "psycopg[binary]"]\n')
    (root / "constraints.txt").write_text("a-tool==1\n")
    for tool in TOOLS:
        if found := shutil.which(tool):
            (path / tool).symlink_to(found)
    (path / "python3").write_text(STAND_IN)
    (path / "python3").chmod(0o755)
    return Tree(root, path, tmp_path / "notes")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_parses(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
    if script.suffix != ".sh":
        assert os.access(script, os.X_OK), "not executable"


def test_setup_installs_pinned_extras_and_tools(tree: Tree) -> None:
    run = tree.setup()
    assert run.returncode == 0, run.stderr
    last = tree.notes.read_text().splitlines()[-1]
    assert "-c constraints.txt --no-build-isolation --editable .[" in last
    assert last.endswith("a-tool psycopg[binary]")


def test_setup_installs_only_extras_that_exist() -> None:
    (listed,) = re.findall(r'^EXTRAS="(.*)"', (ROOT / "scripts" / "setup").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(listed.split(",")) <= set(project["optional-dependencies"])


def test_a_second_setup_does_nothing(tree: Tree) -> None:
    assert tree.setup().returncode == 0
    assert tree.take_notes() == ["venv", "pip", "pip"]
    again = tree.setup()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert tree.take_notes() == []


def test_changed_pins_update_the_environment_in_place(tree: Tree) -> None:
    tree.setup()
    tree.take_notes()
    (tree.root / "constraints.txt").write_text("a-tool==2\n")
    assert tree.setup().returncode == 0
    assert tree.take_notes() == ["pip", "pip"]


def test_an_interrupted_setup_is_made_anew(tree: Tree) -> None:
    tree.pip = "kill -9 $PPID; exit 9"
    assert tree.setup().returncode != 0
    tree.take_notes()
    tree.pip = "true"
    assert tree.setup().returncode == 0
    assert tree.take_notes() == ["venv", "pip", "pip"]


def test_a_moved_tree_is_made_anew(tree: Tree) -> None:
    tree.setup()
    tree.take_notes()
    tree.root = tree.root.rename(tree.root.with_name("moved"))
    assert tree.setup().returncode == 0
    assert tree.take_notes() == ["venv", "pip", "pip"]


def test_a_vanished_python_is_replaced(tree: Tree) -> None:
    tree.setup()
    tree.take_notes()
    (tree.root / ".venv" / "bin" / "python").unlink()
    assert tree.setup().returncode == 0
    assert tree.take_notes() == ["venv", "pip", "pip"]


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock is missing: setups are not put in a row")
def test_two_setups_at_once_install_once(tree: Tree) -> None:
    command = [str(tree.root / "scripts" / "setup")]
    both = [subprocess.Popen(command, env=tree.variables(), stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [run.wait(timeout=60) for run in both] == [0, 0]
    assert tree.take_notes() == ["venv", "pip", "pip"]


def test_renewing_writes_sorted_pins(tree: Tree) -> None:
    assert tree.setup("--renew").returncode == 0
    lines = (tree.root / "constraints.txt").read_text().splitlines()
    assert [line[0] for line in lines[:2]] == ["#", "#"]
    assert lines[2:] == ["a==1", "b==2"]


def the_one_sentence(run: subprocess.CompletedProcess[str]) -> str:
    assert run.returncode == 1
    return run.stderr.splitlines()[-1]


def test_a_python_that_is_too_old_is_refused_in_one_sentence(tree: Tree) -> None:
    tree.probe = "3.9.2 no yes"
    run = tree.setup()
    assert len(run.stderr.splitlines()) == 1
    assert "setup: Python 3.11 or later is needed, but the newest try was 3.9.2 (" in the_one_sentence(run)


def test_a_python_that_does_not_run_is_not_taken(tree: Tree) -> None:
    broken = tree.path / "python3.13"
    broken.write_text("#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
    broken.chmod(0o755)
    assert tree.setup().returncode == 0


def test_no_python_at_all_is_refused_in_one_sentence(tree: Tree) -> None:
    (tree.path / "python3").unlink()
    assert the_one_sentence(tree.setup()).startswith("setup: Python 3.11 or later is needed and none was found")


def test_a_missing_venv_module_names_the_debian_package(tree: Tree) -> None:
    tree.probe = "3.12.9 yes no"
    assert the_one_sentence(tree.setup()).endswith("apt-get install python3.12-venv")


def test_an_unreachable_index_is_named_after_the_end_of_the_log(tree: Tree) -> None:
    tree.pip = "echo 'Failed to establish a new connection: [Errno 101]'; exit 1"
    run = tree.setup()
    assert "| Failed to establish a new connection" in run.stderr
    assert the_one_sentence(run).startswith("setup: the package index could not be reached")


def test_another_failure_points_to_the_log(tree: Tree) -> None:
    tree.pip = "echo 'No space left on device'; exit 1"
    assert the_one_sentence(tree.setup()).endswith(".venv/setup.log is shown above.")


@pytest.mark.parametrize("name", ["setup", "test", "check"])
def test_help_is_given_from_any_folder(name: str) -> None:
    run = subprocess.run([str(ROOT / "scripts" / name), "--help"], cwd="/", capture_output=True, text=True, check=True)
    assert run.stdout.startswith(f"scripts/{name} [--")
