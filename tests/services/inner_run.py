"""A pytest run inside a test, with this project's conftest: for tests about the test run itself."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def inner_pytest(test_file: Path, *options: str) -> list[str]:
    """Return the command that runs `test_file` from the project root."""
    # The file lies outside the tree, so the conftest is named; no cache, for this one is the outer run's.
    given = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", *given, *options, str(test_file)]
