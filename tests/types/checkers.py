"""mypy and pyright in their strict modes, on some files, as a user's project would run them."""

import json
import subprocess
import sys
from pathlib import Path


def mypy(files: list[Path], folder: Path) -> dict[Path, list[str]]:
    """Return the errors of mypy in each file."""
    done = _run(
        "mypy",
        "--strict",
        "--config-file=",
        "--python-version=3.11",
        "--no-error-summary",
        "--show-error-codes",
        "--no-pretty",
        "--show-absolute-path",
        f"--cache-dir={folder}",
        *map(str, files),
        folder=folder,
    )
    errors = [line for line in done.splitlines() if ": error:" in line]
    return {file: [each for each in errors if each.startswith(str(file))] for file in files}


def pyright(files: list[Path], folder: Path) -> dict[Path, list[str]]:
    """Return the errors of pyright in each file; basedpyright is the one that brings its own node."""
    settings = {
        "include": [str(each) for each in files],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "enableTypeIgnoreComments": False,  # mypy's
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps(settings), "utf-8")
    done = _run("basedpyright", "-p", str(config), "--pythonpath", sys.executable, "--outputjson", folder=folder)
    report = json.loads(done)
    assert report["summary"]["filesAnalyzed"] == len(files), report["summary"]
    return {
        file: [
            f"{each['range']['start']['line'] + 1}: {each['message']} [{each.get('rule')}]"
            for each in report["generalDiagnostics"]
            if each["severity"] == "error" and Path(each["file"]) == file
        ]
        for file in files
    }


def _run(module: str, *args: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *args], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode in (0, 1), f"{done.stdout}\n{done.stderr}"
    return done.stdout
