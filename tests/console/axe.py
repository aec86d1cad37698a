"""axe-core, which finds what people who cannot see or point would stumble over. Fetched for tests only."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

VERSION = "4.14.0"
_FETCH_SECONDS = 60


def axe_source(folder: Path) -> str:
    """Return the script of axe-core, fetched by npm; skips where it cannot be had."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so axe-core cannot be fetched")
    try:
        subprocess.run(
            [npm, "pack", f"axe-core@{VERSION}", "--silent"],
            cwd=folder,
            check=True,
            timeout=_FETCH_SECONDS,
            capture_output=True,
        )
    except (subprocess.SubprocessError, OSError) as exc:
        pytest.skip(f"axe-core could not be fetched: {type(exc).__name__}")
    with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as archive:
        found = archive.extractfile("package/axe.min.js")
        assert found is not None
        return found.read().decode()


def stumbles(page: Any, source: str) -> list[str]:
    """Return what is serious or worse on a page, in words."""
    page.evaluate(source)  # the page's own policy lets no foreign script in: this way is the debugger's
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:120]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
