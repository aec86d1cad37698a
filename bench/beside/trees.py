"""The sources of an earlier commit, laid out below `.bench/trees/`."""

import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from bench.errors import NotMeasured
from bench.home import HOME, ROOT
from bench.words import one_line

_SOURCES = "src"


@dataclass(frozen=True)
class Tree:
    """A version of the package: its commit, and where its sources are."""

    commit: str
    sources: Path

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that imports this version, whatever is installed."""
        return {**os.environ, "PYTHONPATH": str(self.sources)}


def tree_of(revision: str, *, repository: Path = ROOT, home: Path = HOME) -> Tree:
    """Return the sources of a commit, written out at its first use. Raises NotMeasured."""
    commit = _git(repository, "rev-parse", "--verify", "--short=12", f"{revision}^{{commit}}").decode().strip()
    folder = home / "trees" / commit
    if not folder.is_dir():
        packed = _git(repository, "archive", "--format=tar", commit, _SOURCES)
        unfinished = folder.with_name(f"{commit}.{os.getpid()}")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(unfinished, filter="data")
        unfinished.rename(folder)
    return Tree(commit, folder / _SOURCES)


def _git(repository: Path, *args: str) -> bytes:
    try:
        done = subprocess.run(["git", *args], cwd=repository, capture_output=True, check=False)
    except FileNotFoundError as exc:
        raise NotMeasured("there is no git to take the earlier commit from") from exc
    if done.returncode:
        raise NotMeasured(one_line(f"git {args[0]}: {done.stderr.decode(errors='replace')}"))
    return done.stdout
