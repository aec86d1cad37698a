"""Who may write a log in files: the one process that holds the lock on its file `writer.lock`.

The lock is the system's, so it ends with the process, however that ends. The file holds the process's number,
for the message that a second one gets; the number alone says nothing, for after a kill it stays, and may be
given to another program. Who only asks whether somebody writes takes the lock for a moment, together with
others who ask, so a writer that finds it taken looks again unless it is another writer.
"""

import fcntl
import os
from pathlib import Path

from penstock.errors import WriterElsewhere

NAME = "writer.lock"


class WriterLock:
    """The lock, held until `release`."""

    def __init__(self, folder: Path) -> None:
        """Take it. Raises WriterElsewhere."""
        self._fd = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while not _taken(self._fd, fcntl.LOCK_EX):
            if _is_held(self._fd):
                holder = _said(self._fd)
                os.close(self._fd)
                raise WriterElsewhere(str(folder), holder or "of another user")
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process write."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)


def writer_pid(folder: Path) -> int | None:
    """Return the process that writes; 0 if it has not said yet which it is, None if there is none."""
    try:
        fd = os.open(folder / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not _is_held(fd):
            return None
        said = _said(fd)
        return int(said) if said.isdecimal() else 0
    finally:
        os.close(fd)


def _taken(fd: int, kind: int) -> bool:
    """Return whether a lock was taken, without waiting for it."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_held(fd: int) -> bool:
    """Return whether a writer has the lock; others who ask at the same moment are none."""
    if not _taken(fd, fcntl.LOCK_SH):
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _said(fd: int) -> str:
    return os.pread(fd, 20, 0).decode("ascii", "replace").strip()
