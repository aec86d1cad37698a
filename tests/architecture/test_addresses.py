"""No file of the repository names a package registry, nor a path of somebody's machine."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.architecture.source import PROJECT, assert_none, plant

# In pieces, so that this file does not hold what it looks for.
REGISTRIES = ["pypi" + ".org", "python" + "hosted", "registry." + "npmjs", "npmjs" + ".org", "crates" + ".io"]
MACHINE = ["work", "root", "home", "Users", "opt"]
NEEDLES = re.compile(
    "|".join(map(re.escape, REGISTRIES))
    + rf"|(?<![\w.$}}\]/-])/(?:{'|'.join(MACHINE)})/\w"
    + r"|index" + r"-url|https?://\S+/" + r"simple\b"
)  # fmt: skip


def files(project: Path) -> Iterator[Path]:
    """Yield the files that are or would be tracked: all but what .gitignore names."""
    ignored = [".git", *(project / ".gitignore").read_text("utf-8").split()]
    patterns = [pattern.strip("/") for pattern in ignored]

    def walk(folder: Path) -> Iterator[Path]:
        for path in sorted(folder.iterdir()):
            if any(fnmatch(path.name, pattern) for pattern in patterns):
                continue
            yield from walk(path) if path.is_dir() else [path]

    yield from walk(project)


def breaches(project: Path) -> Iterator[str]:
    """Yield each line that names a registry or a machine's path."""
    for path in files(project):
        try:
            lines = path.read_text("utf-8").splitlines()
        except (UnicodeDecodeError, FileNotFoundError):  # an image; a file that another test has removed
            continue
        for number, line in enumerate(lines, 1):
            if found := NEEDLES.search(line):
                yield f"{path.relative_to(project)}:{number}: {found[0]}"


def test_no_file_names_a_registry_or_a_machine() -> None:
    assert_none(breaches(PROJECT))


def test_the_walk_sees_hidden_folders_and_leaves_out_what_git_ignores() -> None:
    seen = {path.relative_to(PROJECT).as_posix() for path in files(PROJECT)}
    assert {"README.md", ".ci/run", "scripts/setup", "constraints.txt"} <= seen
    assert not any(part in path for path in seen for part in (".venv/", "__pycache__", ".git/"))


@pytest.mark.parametrize(
    "line",
    [
        "see https://" + "pypi" + ".org/project/x",
        "cd /" + "work/main",
        'path = "/' + 'root/x"',
        "(/" + "home/me/x)",
        "pip install --index" + "-url x",
        "https://mirror.example/" + "simple/",
    ],
)
def test_a_planted_address_is_found(line: str, tmp_path: Path) -> None:
    plant(tmp_path, ".gitignore", "dist/\n")
    plant(tmp_path, "docs/x.md", line)
    plant(tmp_path, "dist/x.md", line)
    assert len(list(breaches(tmp_path))) == 1


@pytest.mark.parametrize("line", ["PYTHON=/path/to/python", "$ROOT/work/x", "/usr/lib/postgresql", "home/x"])
def test_a_harmless_path_is_not_reported(line: str, tmp_path: Path) -> None:
    plant(tmp_path, ".gitignore", "dist/\n")
    plant(tmp_path, "docs/x.md", line)
    assert list(breaches(tmp_path)) == []
