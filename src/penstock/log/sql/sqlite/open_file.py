"""A file as one process has it open: what all connections to it have in common."""

from collections.abc import Callable
from threading import Lock
from typing import Any
from weakref import WeakMethod, WeakValueDictionary

_open: "WeakValueDictionary[str, OpenFile]" = WeakValueDictionary()
_lock = Lock()


class OpenFile:
    """Says which connections of this process to a file may be used on, and has the others closed.

    SQLite shares what it knows of a file among the connections of a process: while one is open that was
    opened when the file could not be written, new ones cannot write either, though the file can be written
    again. So all of them go together. While it is not known to be writable, none is kept. From any thread.
    """

    def __init__(self) -> None:
        self.generation = 0  # of the connections: those of an earlier one are closed
        self.is_read_only = False
        self._holders: list[WeakMethod[Any]] = []

    def when_renewed(self, drop: Callable[[], None]) -> None:
        """Have this method called when connections that are kept are to be closed."""
        self._holders = [each for each in self._holders if each() is not None] + [WeakMethod(drop)]

    def refuse_writes(self) -> None:
        """Take note that the file could not be written."""
        self.is_read_only = True
        self.generation += 1
        for holder in self._holders:
            drop = holder()
            if drop is not None:
                drop()

    def accept_writes(self) -> None:
        """Take note that the file can be written."""
        self.is_read_only = False


def open_file(path: str) -> OpenFile:
    """Return the file of a path, the same for all of this process."""
    with _lock:
        known = _open.get(path)
        if known is None:
            known = _open[path] = OpenFile()
        return known
