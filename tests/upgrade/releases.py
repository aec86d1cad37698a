"""Releases: earlier ones from the wheel of a commit, later ones as copies with one migration more."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import IO

import pytest

import penstock

PRESENT = Path(penstock.__file__).parent
REPOSITORY = Path(__file__).parents[2]
# Takes away what code of the version before it no longer needs.
CONTRACTING = """
UPDATE penstock_meta SET value = '{version}' WHERE name = 'schema_version';
UPDATE penstock_meta SET value = '{usable_from}' WHERE name = 'usable_from';
ALTER TABLE penstock_member DROP COLUMN later;
"""
BRISK = {
    "PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL": "0.2",
    "PENSTOCK_CLUSTER_REBALANCE_INTERVAL": "0.5",
    "PENSTOCK_CLUSTER_GATHER_JOINS": "0.2",
    "PENSTOCK_CLUSTER_LEASE_TTL": "20",
}


class Release:
    """A copy of the package in a folder, which processes are started with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_commit(cls, commit: str, folder: Path) -> Release:
        """Build the wheel of a commit and install it in a folder; skip where that commit is missing."""
        git = shutil.which("git")
        asked = [git or "git", "-C", str(REPOSITORY), "archive", "--format=tar", commit]
        packed = subprocess.run(asked, capture_output=True, check=False) if git else None
        if packed is None or packed.returncode:
            pytest.skip(f"commit {commit} is missing here, as in a shallow clone")
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder / "source", filter="data")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
        offline = ("--no-index", "--no-deps")
        _run(*pip, "wheel", *offline, "--no-build-isolation", "-w", str(folder), str(folder / "source"))
        (wheel,) = folder.glob("penstock*.whl")
        _run(*pip, "install", *offline, "--target", str(folder / "installed"), str(wheel))
        return cls(folder / "installed")

    def following(self, folder: Path, version: int, script: str) -> Release:
        """Copy this release and add one migration to the copy, on every dialect."""
        shutil.copytree(self.folder / "penstock", folder / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
        for migrations in (folder / "penstock/database").glob("*/migrations"):
            (migrations / f"{version:04}_later.sql").write_text(script)
        return Release(folder)

    def version_of_tables(self) -> int:
        """Return the newest version of the tables that this release knows."""
        files = (self.folder / "penstock").glob("**/sqlite/migrations/*.sql")
        return max(int(path.name[:4]) for path in files)

    def migrate(self, url: str) -> str:
        """Run `penstock migrate` of this release; return what it prints."""
        ended = self.run("migrate", "--url", url)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def run(self, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of this release until it ends."""
        return subprocess.run(
            self._command(*args), cwd=cwd, env=self._env(), capture_output=True, text=True, timeout=120
        )

    def worker(self, program: Path) -> RunningRelease:
        """Start `penstock worker` of this release, on the outbox of a program."""
        said = (program.parent / f"said-{self.folder.name}-{len(list(program.parent.iterdir()))}").open("w+")
        command = self._command("worker", f"{program.stem}:outbox")
        started = subprocess.Popen(command, cwd=program.parent, env=self._env(), stderr=said)
        return RunningRelease(started, said)

    def _command(self, *args: str) -> list[str]:
        return [sys.executable, "-c", "from penstock.cli import main; main()", *args]

    def _env(self) -> dict[str, str]:
        return os.environ | BRISK | {"PYTHONPATH": str(self.folder)}


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


class RunningRelease:
    """A worker process of a release, and what it says."""

    def __init__(self, process: subprocess.Popen[bytes], said: IO[str]) -> None:
        self.process, self._said, self.pid = process, said, process.pid

    def said(self) -> str:
        """Return what it has said so far."""
        return Path(self._said.name).read_text()

    def is_gone(self) -> bool:
        """Return whether it has ended."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and return how it did."""
        self.process.terminate()
        return self.process.wait(60)

    def close(self) -> None:
        """Let nothing stay behind."""
        self.kill()
        self._said.close()
