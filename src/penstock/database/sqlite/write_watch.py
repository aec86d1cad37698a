"""Notifies of writes to a file, where the system can (inotify on Linux).

It is only a hint: a write is visible once SQLite shows it, and the waiting thread polls from time to time in
any case. The file is named, never opened: closing it would drop this process's locks on it.
"""

import ctypes
import os
import select
from contextlib import suppress
from enum import Enum
from threading import Event, Lock
from typing import Any

_IN_MODIFY = 2  # of linux/inotify.h
_CALL = b"\1"
_library: Any = ctypes.CDLL(None) if os.name == "posix" else None


class Sign(Enum):
    """The reason for the end of a wait."""

    NONE = "the time is up"
    WRITTEN = "the file is being written"
    CALLED = "wake was called"


class WriteWatch:
    """Waits until a file is written or `wake` is called.

    One thread waits; any may call `wake`. `sees`: whether writes are reported; if not, only `wake` ends a
    wait early.
    """

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
    """Return a descriptor that becomes readable when the file is written; None if the system has none."""
    if not can_watch():
        return None
    watch: int = _library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watch < 0:  # the user's limit is reached
        return None
    if _library.inotify_add_watch(watch, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(watch)
        return None
    return watch
