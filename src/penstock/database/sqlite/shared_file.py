"""The state of a SQLite file that all connections of one process share."""

import os
import sqlite3
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakMethod, WeakValueDictionary

from penstock.errors import StoreReplaced, StoreUnreachable

from .writer_queue import WriterQueue

FileNumber = tuple[int, int]  # device and inode of the file
_shared: "WeakValueDictionary[str, SharedFile]" = WeakValueDictionary()
_lock = Lock()


class FileConnection(sqlite3.Connection):
    """A connection with the generation that it was opened in."""

    generation = 0


class BeforeOpening(NamedTuple):
    """The state before a connection was opened, so that a replacement of the file meanwhile is noticed."""

    generation: int
    number: FileNumber | None


class SharedFile:
    """Decides which connections of this process to a file stay usable, and has the others closed.

    Two events make all connections unusable. First, SQLite shares state of a file among the connections of a
    process: while one is open that was opened when the file was read-only, new ones cannot write either, even
    if the file is writable again; so none is kept until a write has succeeded. Second, when the file was
    replaced, as by a backup moved over it, open connections still use the old file, beside a write-ahead log
    that may be of either: then all use is refused, and nothing is written. The same holds while no file has
    the name: writes to a removed file would be lost. From any thread.
    """

    def __init__(self, path: str) -> None:
        self.generation = 0  # connections of an earlier one are closed
        self.is_read_only = False
        self._path = path
        self._number: FileNumber | None = None
        self._holders: list[WeakMethod[Any]] = []
        self.writers = WriterQueue()

    def when_renewed(self, drop: Callable[[], None]) -> None:
        """Register a method to call when idle connections must be closed."""
        self._holders = [each for each in self._holders if each() is not None] + [WeakMethod(drop)]

    def before_opening(self) -> BeforeOpening:
        """Check the file before opening a connection. Raises StoreReplaced, StoreUnreachable."""
        known = self._number  # read first: another thread may be creating the file
        number = _number(self._path)
        if _is_another(number, known):
            raise StoreReplaced(self._path)
        if _is_gone(number, known):
            raise StoreUnreachable(self._path, "the file was moved or removed")
        return BeforeOpening(self.generation, number)

    def opened(self, conn: FileConnection, before: BeforeOpening) -> None:
        """Record a new connection, with the state before it was opened."""
        conn.generation = before.generation
        self._number = before.number or _number(self._path)

    def may_use(self, conn: FileConnection) -> bool:
        """Return whether an idle connection may be used. Raises StoreReplaced, StoreUnreachable."""
        self.before_opening()
        return self.may_keep(conn)

    def is_lost(self) -> bool:
        """Return whether the path now names another file, or none."""
        known = self._number
        number = _number(self._path)
        return _is_another(number, known) or _is_gone(number, known)

    def may_keep(self, conn: FileConnection) -> bool:
        """Return whether an idle connection may be kept."""
        return conn.generation == self.generation and not self.is_read_only

    def refuse_writes(self) -> None:
        """Record that a write to the file has failed."""
        self.is_read_only = True
        self.generation += 1
        self._drop()

    def accept_writes(self) -> None:
        """Record that the file can be written."""
        self.is_read_only = False

    def _drop(self) -> None:
        for holder in self._holders:
            drop = holder()
            if drop is not None:
                drop()


def shared_file(path: str) -> SharedFile:
    """Return the shared state for a path, one per file in this process."""
    with _lock:
        known = _shared.get(path)
        if known is None or known.is_lost():
            known = _shared[path] = SharedFile(path)
        return known


def _is_another(number: FileNumber | None, known: FileNumber | None) -> bool:
    return number is not None and known is not None and number != known


def _is_gone(number: FileNumber | None, known: FileNumber | None) -> bool:
    return number is None and known is not None


def _number(path: str) -> FileNumber | None:
    """Return the number of the file at a path; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
