"""A SQLite file, as all connections of one process share it: its state, its writers, and the sign of a write.

The sign is only a hint (inotify on Linux): a write is visible once SQLite shows it, and a waiting thread polls from
time to time in any case. The file is named, never opened here: closing it would drop this process's locks on it.

A new file is private: SQLite itself would let everybody read it, but for the umask. The files that SQLite puts beside
it (`-wal`, `-shm`, `-journal`) get the same rights from SQLite.
"""

import ctypes
import os
import select
import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from threading import Event, Lock, get_ident
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakMethod, WeakValueDictionary

from penstock.errors import StoreReplaced, StoreUnreachable

FileNumber = tuple[int, int]  # device and inode of the file
FILE_MODE = 0o600
_IN_MODIFY = 2  # of linux/inotify.h
_CALL = b"\1"
_library: Any = ctypes.CDLL(None) if os.name == "posix" else None
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
        if known is not None and number is None:
            raise StoreUnreachable(self._path, "the file was moved or removed")
        if known is not None and number != known:
            raise StoreReplaced(self._path)
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
        return known is not None and _number(self._path) != known

    def may_keep(self, conn: FileConnection) -> bool:
        """Return whether an idle connection may be kept."""
        return conn.generation == self.generation and not self.is_read_only

    def refuse_writes(self) -> None:
        """Record that a write to the file has failed."""
        self.is_read_only = True
        self.generation += 1
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


def _number(path: str) -> FileNumber | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class WriterQueue:
    """Lets the transactions of this process write in order of arrival.

    In SQLite a waiting writer sleeps for up to 100 ms between two tries. So a thread that writes again at once always
    finds the lock free, and the sleeping ones starve: one group kept another waiting for seconds. The queue only sets
    the order. SQLite's lock still decides which connection writes, and a thread continues without a turn when it has
    waited for as long as it would wait for that lock, or holds the turn itself. From any thread.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock, self._pid = Lock(), os.getpid()
        self._holder: tuple[Any, int] | None = None  # a connection, and the thread that took the turn
        self._waiting: deque[tuple[Any, int, Any]] = deque()  # the same, and a lock that its turn releases

    def join(self, conn: Any, seconds: float) -> None:
        """Wait for the turn of a connection, at most that long."""
        if self._pid != os.getpid():  # after a fork: one of the parent's threads may have held the lock
            self._begin()
        with self._lock:
            thread = get_ident()
            if self._holder is None:
                self._holder = conn, thread
                return
            if self._holder[1] == thread:
                return
            go_on = Lock()
            go_on.acquire()
            place = conn, thread, go_on
            self._waiting.append(place)
        has_turn = False
        try:
            has_turn = go_on.acquire(timeout=seconds)
        finally:
            if not has_turn:
                with self._lock:
                    if place in self._waiting:
                        self._waiting.remove(place)

    def leave(self, conn: Any) -> None:
        """End the turn of a connection, if it has it, and start the next."""
        holder = self._holder
        if holder is None or holder[0] is not conn:
            return
        with self._lock:
            if self._holder is not holder:
                return
            self._holder = None
            if self._waiting:
                following, thread, go_on = self._waiting.popleft()
                self._holder = following, thread
                go_on.release()


class Sign(Enum):
    """The reason for the end of a wait."""

    NONE = "the time is up"
    WRITTEN = "the file is being written"
    CALLED = "wake was called"


class WriteWatch:
    """Lets one thread wait until a file is written or any thread calls `wake`. `sees`: whether writes are reported."""

    def __init__(self, path: str) -> None:
        self._called, self._lock = Event(), Lock()
        self._poll: select.poll | None = None
        self._calls: select.poll | None = None
        self._files: list[int] = []
        self.sees = False
        watch = _watch(path)
        if watch is not None:
            self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self._files = [watch, self._read_end, self._write_end]
            self._poll, self._calls = select.poll(), select.poll()
            self._calls.register(self._read_end, select.POLLIN)
            for file in (watch, self._read_end):
                self._poll.register(file, select.POLLIN)
            self.sees = True

    def wait(self, seconds: float) -> Sign:
        """Wait at most that long; return the reason for the end, CALLED if there are two."""
        if self._poll is None:
            found = self._called.wait(seconds)
            self._called.clear()
            return Sign.CALLED if found else Sign.NONE
        ready = [file for file, _ in self._poll.poll(seconds * 1000)]
        for file in ready:
            with suppress(BlockingIOError):
                while len(os.read(file, 4096)) == 4096:  # read all: many writes are one sign
                    pass
        if self._read_end in ready:
            return Sign.CALLED
        return Sign.WRITTEN if ready else Sign.NONE

    def rest(self, seconds: float) -> None:
        """Wait that long, or until `wake`; a write meanwhile ends the next wait."""
        if self._calls is None:
            self._called.wait(seconds)
        else:
            self._calls.poll(seconds * 1000)

    def wake(self) -> None:
        """End the wait, or the next one."""
        with self._lock:  # otherwise the file might be closed meanwhile, and its number reused
            if self._files:
                with suppress(BlockingIOError):  # full: a call is pending already
                    os.write(self._write_end, _CALL)
                return
        self._called.set()

    def close(self) -> None:
        """Stop watching; call it in the waiting thread."""
        self.sees, self._poll, self._calls = False, None, None
        with self._lock:
            files, self._files = self._files, []
            for file in files:
                os.close(file)


def can_watch() -> bool:
    """Return whether this system reports writes."""
    return hasattr(_library, "inotify_init1") and hasattr(os, "pipe2")


def _watch(path: str) -> int | None:
    if not can_watch():
        return None
    watch: int = _library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watch < 0:  # the user's limit is reached
        return None
    if _library.inotify_add_watch(watch, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(watch)
        return None
    return watch


def make_private(path: str) -> None:
    """Make an empty file under another name, and give it its own unless one is there by now.

    The file itself is never opened here: closing it would end all locks of this process on it, as POSIX has
    it, also SQLite's; another process would take it for unused, and remove the write-ahead log that this one
    goes on writing. What cannot be made so is left to SQLite, which says why it cannot make it either.
    """
    path = os.path.realpath(path)
    if os.path.exists(path):
        return  # whose rights its owner has chosen
    new = f"{path}.{uuid4().hex}"
    with suppress(OSError):
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            os.fchmod(fd, FILE_MODE)  # whatever the umask is
            os.close(fd)
            _link(new, path)
        finally:
            os.unlink(new)


def _link(new: str, path: str) -> None:
    try:
        os.link(new, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links; no connection can have opened what is made here
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
