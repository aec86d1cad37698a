"""Small Python programs in processes of their own, for what only a process of its own can show."""

import os
import subprocess
import sys
from pathlib import Path

import penstock

# Found at import: a test stands in another folder, where a relative path leads nowhere.
SOURCE = Path(penstock.__file__).resolve().parents[1]


def start(program: str, **environment: str) -> subprocess.Popen[str]:
    """Start a program that can import penstock; `finish` waits for it."""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(child: subprocess.Popen[str], *, expected: int = 0) -> str:
    """Return what a program printed once it has ended as expected."""
    with child:
        printed, complaints = child.communicate()
    assert child.returncode == expected, complaints
    return printed
