"""The command line as a program of its own."""

import sys


def penstock(*args: str) -> list[str]:
    """Return the command that runs `penstock` with this Python and this tree."""
    return [sys.executable, "-c", "from penstock.cli import main; main()", *args]
