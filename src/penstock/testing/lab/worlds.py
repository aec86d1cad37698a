"""Worlds: stores in which handlers work in the laboratory.

Every round starts in a fresh one, at the same path. A world is created once, with the user's tables and the
published events, and kept; each round gets a copy. All compared state must be in it: in its database or in
its folder. Its path never changes, so rounds are alike.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from penstock.app import Outbox
from penstock.errors import LabFailed

from ..clock import FakeClock
from .visits import AFTER_EFFECT, BEFORE_EFFECT, Visits

_NOTES = "penstock-notes"
_DATABASE = "world.db"
_MEMORY = Path("/dev/shm")  # noqa: S108 - only a private folder in it is used  # nosec B108
_ROOM_BYTES = 48_000_000
_CREATE = "CREATE DATABASE {}"
_COPY = "CREATE DATABASE {} TEMPLATE {}"
_DROP = "DROP DATABASE IF EXISTS {} WITH (FORCE)"
_AT_WORK = "SELECT count(*), pg_sleep(0.01) FROM pg_stat_activity WHERE datname = %s"
_MOST_LOOKS = 1000


@dataclass(frozen=True, slots=True)
class World:
    """A world in one process: the store's address, a folder, the outbox that works there, a clock."""

    url: str
    folder: Path
    outbox: Outbox
    clock: FakeClock
    visits: Visits | None = None

    @property
    def path(self) -> Path:
        """The SQLite file of the store; your own tables may be in it, too."""
        assert self.url.startswith("sqlite:"), f"the store is {self.url}, no file"
        return self.folder / _DATABASE

    def note(self, *words: object) -> None:
        """Note an effect that cannot be undone, such as a sent mail; the laboratory kills before and after it."""
        line = " ".join(str(each) for each in words).replace("\n", " ")
        if self.visits is None:
            self._write(line)
        else:
            with self.visits.around(BEFORE_EFFECT, AFTER_EFFECT):
                self._write(line)

    def notes(self) -> list[str]:
        """Return all noted effects, sorted: the order of different keys is not guaranteed."""
        path = self.folder / _NOTES
        return sorted(path.read_text("utf-8").splitlines()) if path.exists() else []

    def _write(self, line: str) -> None:
        with (self.folder / _NOTES).open("ab", buffering=0) as notes:  # unbuffered: a kill loses nothing
            notes.write(f"{line}\n".encode())


class Worlds:
    """The storage for the worlds of one laboratory: SQLite files in a folder."""

    def __init__(self, root: Path) -> None:
        self.folder, self._kept = root / "world", root / "kept"
        self.folder.mkdir()
        self.url = f"sqlite:///{self.folder / _DATABASE}"

    def keep(self) -> None:
        """Save the present world, which is not in use; every later one starts as its copy."""
        shutil.copytree(self.folder, self._kept)

    def renew(self) -> None:
        """Restore the saved world."""
        shutil.rmtree(self.folder)
        shutil.copytree(self._kept, self.folder)

    def calm(self) -> None:
        """Wait until nothing of a killed process still runs; locks of files end with their process."""

    def drop(self) -> None:
        """Remove everything outside the folder: nothing."""


class PostgresWorlds(Worlds):
    """Separate databases, created and dropped through the given address; each with a folder."""

    def __init__(self, root: Path, server: str) -> None:
        from penstock.database.postgres.dialect import PostgresDialect

        super().__init__(root)
        name = f"penstock_lab_{uuid4().hex[:12]}"
        self._name, self._kept_name, self._dialect = name, f"{name}_kept", PostgresDialect(server)
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        self._run(_CREATE, name)

    def keep(self) -> None:
        """Copy folder and database; there are no connections."""
        super().keep()
        self._run(_COPY, self._kept_name, self._name)

    def renew(self) -> None:
        super().renew()
        self._run(_DROP, self._name)
        self._run(_COPY, self._name, self._kept_name)

    def calm(self) -> None:
        """Wait until the server has noticed the end of a killed process, and rolled its transactions back."""
        for _ in range(_MOST_LOOKS):
            if self._with(lambda conn: conn.execute(_AT_WORK, (self._name,)).fetchone()[0]) == 0:
                return
        raise LabFailed(f"sessions of a killed process stay in database {self._name}; is there a pooler in between?")

    def drop(self) -> None:
        self._run(_DROP, self._name)
        self._run(_DROP, self._kept_name)

    def _run(self, statement: str, *names: str) -> None:
        from psycopg.sql import SQL, Identifier

        self._with(lambda conn: conn.execute(SQL(statement).format(*map(Identifier, names))))

    def _with(self, work: Any) -> Any:
        conn = self._dialect.connect()
        try:
            return work(conn)
        finally:
            self._dialect.close(conn)


@contextmanager
def worlds_at(server: str | None) -> Iterator[Worlds]:
    """Open storage for worlds: files in a temporary folder, or databases on a PostgreSQL server."""
    with TemporaryDirectory(prefix="penstock-lab-", dir=_memory()) as root:
        folder = Path(root).resolve()
        worlds = Worlds(folder) if server is None else PostgresWorlds(folder, server)
        try:
            yield worlds
        finally:
            worlds.drop()


def _memory() -> Path | None:
    """Return a folder in memory with space for a world, which loses nothing by a kill; None with TMPDIR."""
    elsewhere = "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK)
    return None if elsewhere or shutil.disk_usage(_MEMORY).free < _ROOM_BYTES else _MEMORY
