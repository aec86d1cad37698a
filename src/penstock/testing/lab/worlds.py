"""Worlds: where handlers work in the laboratory. Every round begins in a fresh one, at the same place.

A world is made once, with the user's tables and the events published, and kept; for a round it is copied. All
that counts must be in it: in its database or in its folder. Its place never changes, so rounds are alike.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from penstock.app import Outbox

from ..clock import FakeClock
from .visits import AFTER_EFFECT, BEFORE_EFFECT, Visits

_NOTES = "penstock-notes"
_DATABASE = "world.db"
_MEMORY = Path("/dev/shm")  # noqa: S108 - only the folder in it is ours, and that is private  # nosec B108
_ROOM_BYTES = 48_000_000


@dataclass(frozen=True, slots=True)
class World:
    """A world as one process sees it: the store's address, a folder, the outbox at work there, a clock."""

    url: str
    folder: Path
    outbox: Outbox
    clock: FakeClock
    visits: Visits | None = None

    @property
    def path(self) -> Path:
        """The SQLite file of the store; tables of your own may live in it, too."""
        assert self.url.startswith("sqlite:"), f"the store is {self.url}, no file"
        return self.folder / _DATABASE

    def note(self, *words: object) -> None:
        """Write down an effect that leaves the database: a fake for a mail sent, a card charged.

        It cannot be taken back, as the real one cannot, and the laboratory kills before and after it.
        """
        line = " ".join(str(each) for each in words).replace("\n", " ")
        if self.visits is None:
            self._write(line)
        else:
            with self.visits.around(BEFORE_EFFECT, AFTER_EFFECT):
                self._write(line)

    def notes(self) -> list[str]:
        """Return all effects that were noted, sorted: the order of different keys is nobody's promise."""
        path = self.folder / _NOTES
        return sorted(path.read_text("utf-8").splitlines()) if path.exists() else []

    def _write(self, line: str) -> None:
        to = os.open(self.folder / _NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(to, f"{line}\n".encode())
        finally:
            os.close(to)


class Worlds(Protocol):
    """The place of the worlds of one laboratory."""

    url: str
    folder: Path

    def keep(self) -> None:
        """Keep the world as it is now; every later one begins like this."""

    def renew(self) -> None:
        """Make the world anew, as it was kept."""

    def calm(self) -> None:
        """Wait until nothing of a killed process is left at work."""

    def drop(self) -> None:
        """Remove what lies outside the folder."""


class FileWorlds:
    """Worlds in SQLite files."""

    def __init__(self, root: Path) -> None:
        self.folder, self._kept = root / "world", root / "kept"
        self.folder.mkdir()
        self.url = f"sqlite:///{self.folder / _DATABASE}"

    def keep(self) -> None:
        """Copy the folder; nobody has it open."""
        shutil.copytree(self.folder, self._kept)

    def renew(self) -> None:
        """Copy it back."""
        shutil.rmtree(self.folder)
        shutil.copytree(self._kept, self.folder)

    def calm(self) -> None:
        """Nothing to wait for: with a process go its locks."""

    def drop(self) -> None:
        """Nothing lies elsewhere."""


@contextmanager
def worlds_at(server: str | None) -> Iterator[Worlds]:
    """Give a place for worlds: files in a temporary folder, or databases on a PostgreSQL server."""
    with TemporaryDirectory(prefix="penstock-lab-", dir=_memory()) as root:
        worlds = _worlds(Path(root).resolve(), server)
        try:
            yield worlds
        finally:
            worlds.drop()


def _memory() -> Path | None:
    """Return where files are kept in memory, if there is room: a kill loses nothing written, synced or not.

    None where the system has no such place, or where temporary files were sent elsewhere.
    """
    elsewhere = "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK)
    return None if elsewhere or shutil.disk_usage(_MEMORY).free < _ROOM_BYTES else _MEMORY


def _worlds(root: Path, server: str | None) -> Worlds:
    if server is None:
        return FileWorlds(root)
    from .postgres_worlds import PostgresWorlds

    return PostgresWorlds(root, server)
