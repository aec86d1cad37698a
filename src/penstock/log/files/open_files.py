"""The segments that are open: a bounded number of them, however many there are.

Each use of a file is a `with` block; a file that is in use is never closed. Safe from any thread.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from .disk import Disk, DiskFile


class _Opened:
    __slots__ = ("file", "forgotten", "users")

    def __init__(self, file: DiskFile) -> None:
        self.file, self.users, self.forgotten = file, 0, False


class OpenFiles:
    """Opens files as they are needed and closes those that were not used for longest."""

    def __init__(self, disk: Disk, most: int) -> None:
        self.disk, self._most = disk, most
        self._lock = Lock()
        self._opened: OrderedDict[tuple[Path, bool], _Opened] = OrderedDict()

    @contextmanager
    def use(self, path: Path, *, write: bool = False) -> Iterator[DiskFile]:
        """Give a file for reading, or for writing too. Raises FileNotFoundError, OSError."""
        key = path, write
        with self._lock:
            opened = self._opened.get(key)
            if opened is None:
                opened = self._opened[key] = _Opened(self.disk.open(path, write=write))
                self._shrink()
            else:
                self._opened.move_to_end(key)
            opened.users += 1
        try:
            yield opened.file
        finally:
            with self._lock:
                opened.users -= 1
                if opened.forgotten and not opened.users:
                    opened.file.close()

    def forget(self, path: Path) -> None:
        """Open a file anew from now on: it was replaced or removed."""
        with self._lock:
            for key in ((path, True), (path, False)):
                opened = self._opened.pop(key, None)
                if opened is not None:
                    self._leave(opened)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for opened in self._opened.values():
                self._leave(opened)
            self._opened.clear()

    @property
    def count(self) -> int:
        """How many files are open."""
        return len(self._opened)

    def _shrink(self) -> None:
        if len(self._opened) <= self._most:
            return
        for key, opened in list(self._opened.items())[:-1]:
            if not opened.users:
                del self._opened[key]
                self._leave(opened)
            if len(self._opened) <= self._most:
                return

    def _leave(self, opened: _Opened) -> None:
        opened.forgotten = True
        if not opened.users:
            opened.file.close()
