"""A SQLite file that the connections of one process share: what they have in common."""

import os
import sqlite3
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakMethod, WeakValueDictionary

from penstock.errors import StoreReplaced, StoreUnreachable

from .writer_queue import WriterQueue

FileNumber = tuple[int, int]  # device and inode: which file a path means
_shared: "WeakValueDictionary[str, SharedFile]" = WeakValueDictionary()
_lock = Lock()


class FileConnection(sqlite3.Connection):
    """A connection that knows to which generation of its file's connections it belongs."""

    generation = 0


class BeforeOpening(NamedTuple):
    """What was seen before a connection was opened: a file that is replaced meanwhile is noticed later."""

    generation: int
    number: FileNumber | None


class SharedFile:
    """Says which connections of this process to a file may be used on, and has the others closed.

    Two things spoil them all. SQLite shares what it knows of a file among the connections of a process: while
    one is open that was opened when the file could not be written, new ones cannot write either, though the
    file can be written again; so none is kept until it was written. And a file that was replaced by another
    of its name, as by a backup that was moved over it, is still the one that open connections have, beside a
    write-ahead log that may be of either: then all is refused, and nothing is touched. So it is while no file
    has the name: what is written to one that was removed is lost. From any thread.
    """

    def __init__(self, path: str) -> None:
        self.generation = 0  # of the connections: those of an earlier one are closed
        self.is_read_only = False
        self._path = path
        self._number: FileNumber | None = None
        self._holders: list[WeakMethod[Any]] = []
        self.writers = WriterQueue()

    def when_renewed(self, drop: Callable[[], None]) -> None:
        """Have this method called when connections that are kept are to be closed."""
        self._holders = [each for each in self._holders if each() is not None] + [WeakMethod(drop)]

    def before_opening(self) -> BeforeOpening:
        """Look at what a connection is about to open. Raises StoreReplaced, StoreUnreachable."""
        known = self._number  # before the look: another thread may be making the file just now
        number = _number(self._path)
        if _is_another(number, known):
            raise StoreReplaced(self._path)
        if _is_gone(number, known):
            raise StoreUnreachable(self._path, "the file was moved or removed")
        return BeforeOpening(self.generation, number)

    def opened(self, conn: FileConnection, before: BeforeOpening) -> None:
        """Take note of a connection that was opened; with what was seen before it was."""
        conn.generation = before.generation
        self._number = before.number or _number(self._path)

    def may_use(self, conn: FileConnection) -> bool:
        """Return whether a connection that was kept may be used. Raises StoreReplaced, StoreUnreachable."""
        self.before_opening()
        return self.may_keep(conn)

    def is_lost(self) -> bool:
        """Return whether the path means another file now, or none."""
        known = self._number
        number = _number(self._path)
        return _is_another(number, known) or _is_gone(number, known)

    def may_keep(self, conn: FileConnection) -> bool:
        """Return whether a connection may be kept for later."""
        return conn.generation == self.generation and not self.is_read_only

    def refuse_writes(self) -> None:
        """Take note that the file could not be written."""
        self.is_read_only = True
        self.generation += 1
        self._drop()

    def accept_writes(self) -> None:
        """Take note that the file can be written."""
        self.is_read_only = False

    def _drop(self) -> None:
        for holder in self._holders:
            drop = holder()
            if drop is not None:
                drop()


def shared_file(path: str) -> SharedFile:
    """Return the file of a path, the same for all of this process that opened it."""
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
    """Return which file a path means now; None for none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
