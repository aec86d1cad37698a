"""A cache of open segment files of bounded size.

Each use of a file is a `with` block; a file in use is never closed. Safe from any thread.
"""

import errno
import logging
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from penstock.errors import Error, FileUnreadable

from .disk import Disk, DiskFile

logger = logging.getLogger("penstock.files")

_OTHERS = (errno.ENOENT, errno.EMFILE, errno.ENFILE)  # failures that say nothing of the file's readability
FileKey = tuple[Path, bool]  # the file, and whether it is also open for writing


class _Opened:
    __slots__ = ("file", "forgotten", "users")

    def __init__(self, file: DiskFile) -> None:
        self.file, self.users, self.forgotten = file, 0, False


class _Use:
    """One use of a file: a `with` block. No generator, because every read and write makes one."""

    __slots__ = ("_files", "_key", "_opened")

    def __init__(self, files: "OpenFiles", key: FileKey) -> None:
        self._files, self._key = files, key

    def __enter__(self) -> DiskFile:
        self._opened = self._files.take(self._key)
        return self._opened.file

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        self._files.give_back(self._opened)
        if exc is not None or self._files.unreadable:
            self._files.note_use(self._key, exc)


class OpenFiles:
    """Opens files on demand and closes the least recently used ones."""

    def __init__(self, disk: Disk, most: int) -> None:
        self.disk, self._most = disk, most
        self._lock = Lock()
        self._opened: OrderedDict[FileKey, _Opened] = OrderedDict()
        self.unreadable: dict[Path, FileUnreadable] = {}  # since their last use

    def use(self, path: Path, *, write: bool = False) -> "_Use":
        """Open a file within a block. Raises FileNotFoundError; reading FileUnreadable, writing OSError."""
        return _Use(self, (path, write))

    def take(self, key: FileKey) -> _Opened:
        """Mark a file as in use until it is given back. Raises FileUnreadable, OSError."""
        with self._lock:
            opened = self._opened.get(key)
            if opened is None:
                path, write = key
                opened = self._opened[key] = _Opened(self._open(path, write=write))
                self._shrink()
            else:
                self._opened.move_to_end(key)
            opened.users += 1
            return opened

    def _open(self, path: Path, *, write: bool) -> DiskFile:
        try:
            return self.disk.open(path, write=write)
        except OSError as exc:
            self.note_use((path, write), exc)
            raise

    def note_use(self, key: FileKey, exc: BaseException | None) -> None:
        """Note whether a file could be read. Raises FileUnreadable if not."""
        path, write = key
        if exc is None:
            if self.unreadable.pop(path, None) is not None:
                logger.warning("%s can be read again", path)
        elif isinstance(exc, OSError) and not (write or isinstance(exc, Error) or exc.errno in _OTHERS):
            error = FileUnreadable(str(path), exc.strerror or str(exc), exc.errno)
            if path not in self.unreadable:
                logger.error("%s cannot be read: %s", path, exc.strerror or exc)
            self.unreadable[path] = error
            raise error from exc

    def check(self) -> None:
        """Raise FileUnreadable while a file cannot be read; one that could not be opened is tried again."""
        for path, error in list(self.unreadable.items()):
            if (path, False) in self._opened:
                raise error  # a read has failed: another may not
            try:
                with self.use(path):
                    pass
            except FileNotFoundError:
                self.unreadable.pop(path, None)

    def give_back(self, opened: _Opened) -> None:
        """End one use of a file."""
        with self._lock:
            opened.users -= 1
            if opened.forgotten and not opened.users:
                opened.file.close()

    def forget(self, path: Path) -> None:
        """Drop a file that was replaced or removed; the next use opens it anew."""
        with self._lock:
            self.unreadable.pop(path, None)
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
