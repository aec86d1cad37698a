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

from penstock.app import Outbox

from ..clock import FakeClock
from .visits import AFTER_EFFECT, BEFORE_EFFECT, Visits

_NOTES = "penstock-notes"
_DATABASE = "world.db"
_MEMORY = Path("/dev/shm")  # noqa: S108 - only a private folder in it is used  # nosec B108
_ROOM_BYTES = 48_000_000


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
        to = os.open(self.folder / _NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(to, f"{line}\n".encode())
        finally:
            os.close(to)


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


@contextmanager
def worlds_at(server: str | None) -> Iterator[Worlds]:
    """Open storage for worlds: files in a temporary folder, or databases on a PostgreSQL server."""
    with TemporaryDirectory(prefix="penstock-lab-", dir=_memory()) as root:
        worlds = _worlds(Path(root).resolve(), server)
        try:
            yield worlds
        finally:
            worlds.drop()


def _memory() -> Path | None:
    """Return a folder in memory with space for a world, which loses nothing by a kill; None with TMPDIR."""
    elsewhere = "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK)
    return None if elsewhere or shutil.disk_usage(_MEMORY).free < _ROOM_BYTES else _MEMORY


def _worlds(root: Path, server: str | None) -> Worlds:
    if server is None:
        return Worlds(root)
    from .postgres_worlds import PostgresWorlds

    return PostgresWorlds(root, server)
