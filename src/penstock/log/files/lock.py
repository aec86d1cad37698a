"""The writer's lock of a log in files, on its file `writer.lock`: only the process that holds it may write.

The system releases the lock when the process ends, however it ends. The file holds the process id, for the
error message of a second writer; the id alone proves nothing, because it stays after a kill and may be reused
by another program. A process that only checks for a writer takes a shared lock for a moment, so a writer that
finds the lock taken tries again unless the holder is another writer.
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
                holder = _read_pid(self._fd)
                os.close(self._fd)
                raise WriterElsewhere(str(folder), holder or "of another user")
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)


def writer_pid(folder: Path) -> int | None:
    """Return the process id of the writer; 0 if it has not written its id yet, None if there is no writer."""
    try:
        fd = os.open(folder / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not _is_held(fd):
            return None
        pid = _read_pid(fd)
        return int(pid) if pid.isdecimal() else 0
    finally:
        os.close(fd)


def _taken(fd: int, kind: int) -> bool:
    """Try to take a lock without waiting; return whether it was taken."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_held(fd: int) -> bool:
    """Return whether a writer has the lock; the shared locks of other checks do not count."""
    if not _taken(fd, fcntl.LOCK_SH):
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _read_pid(fd: int) -> str:
    return os.pread(fd, 20, 0).decode("ascii", "replace").strip()
