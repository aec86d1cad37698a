"""A SQLite file that the connections of one process share: what they have in common."""

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakMethod, WeakValueDictionary

logger = logging.getLogger("penstock.database")

FileNumber = tuple[int, int]  # device and inode: which file a path means
_shared: "WeakValueDictionary[str, SharedFile]" = WeakValueDictionary()
_lock = Lock()


class FileConnection(sqlite3.Connection):
    """A connection that knows to which generation of its file's connections it belongs."""

    generation = 0


Connect = Callable[[], FileConnection]


class BeforeOpening(NamedTuple):
    """What was seen before a connection was opened: a file that is replaced meanwhile is noticed later."""

    generation: int
    number: FileNumber | None


class SharedFile:
    """Says which connections of this process to a file may be used on, and has the others closed.

    Two things spoil them all. SQLite shares what it knows of a file among the connections of a process: while
    one is open that was opened when the file could not be written, new ones cannot write either, though the
    file can be written again; so none is kept until it was written. And a file that was replaced by another
    of its name, as by a restored backup, is still the one that open connections read. From any thread.
    """

    def __init__(self, path: str) -> None:
        self.generation = 0  # of the connections: those of an earlier one are closed
        self.is_read_only = False
        self._path, self._companions = path, (f"{path}-wal", f"{path}-shm")
        self._number: FileNumber | None = None
        self._companion_numbers: list[FileNumber | None] = []
        self._holders: list[WeakMethod[Any]] = []
        self._successors: list[WeakMethod[Any]] = []
        self._lock = Lock()

    def when_renewed(self, drop: Callable[[], None]) -> None:
        """Have this method called when connections that are kept are to be closed."""
        self._holders = [each for each in self._holders if each() is not None] + [WeakMethod(drop)]

    def when_replaced(self, work: Callable[[Any], None]) -> None:
        """Have this method called with the first connection to a file that has replaced this one."""
        self._successors = [each for each in self._successors if each() is not None] + [WeakMethod(work)]

    def before_opening(self, connect: Connect) -> BeforeOpening:
        """Look at what a connection is about to open."""
        number = self._look(connect)
        return BeforeOpening(self.generation, number)

    def opened(self, conn: FileConnection, before: BeforeOpening) -> None:
        """Take note of a connection that was opened; with what was seen before it was."""
        conn.generation = before.generation
        self._number = before.number or _number(self._path)
        self._companion_numbers = [_number(each) for each in self._companions]

    def may_keep(self, conn: FileConnection, connect: Connect) -> bool:
        """Return whether a connection may be used on; looks whether the file is still the same."""
        if self._number is not None:
            self._look(connect)
        return conn.generation == self.generation and not self.is_read_only

    def refuse_writes(self) -> None:
        """Take note that the file could not be written."""
        self.is_read_only = True
        self.generation += 1
        self._drop()

    def accept_writes(self) -> None:
        """Take note that the file can be written."""
        self.is_read_only = False

    def _look(self, connect: Connect) -> FileNumber | None:
        """Return which file the path means now, and go over to it if that is another one."""
        number, known = _number(self._path), self._number
        if number is not None and known is not None and number != known:
            self._replace(known, connect)
        return number

    def _replace(self, known: FileNumber, connect: Connect) -> None:
        """Go over to the file that the path means now.

        The files beside it, if they are still those of the former one, are put aside: SQLite would take its
        write-ahead log for that of the new one, and mix the two. Nobody misses them: whoever has the former
        file open has them open, too. Nobody opens the new file before what knew the former one is refused.
        """
        with self._lock:
            if self._number != known:
                return  # another thread has seen it
            for companion, number in zip(self._companions, self._companion_numbers, strict=True):
                if number is not None and _number(companion) == number:
                    with suppress(FileNotFoundError):
                        os.replace(companion, f"{companion}.replaced")
            conn = connect()
            try:
                for successor in self._successors:
                    work = successor()
                    if work is not None:
                        work(conn)
            finally:
                conn.close()
            self._number = None
            self.generation += 1
        logger.warning(
            "%s was replaced by another file, as by a restored backup; it is opened anew. What was beside "
            "the former file has .replaced in its name and can be removed",
            self._path,
        )
        self._drop()

    def _drop(self) -> None:
        for holder in self._holders:
            drop = holder()
            if drop is not None:
                drop()


def shared_file(path: str) -> SharedFile:
    """Return the file of a path, the same for all of this process."""
    with _lock:
        known = _shared.get(path)
        if known is None:
            known = _shared[path] = SharedFile(path)
        return known


def _number(path: str) -> FileNumber | None:
    """Return which file a path means now; None for none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
