"""Who may write a log in files: the one process that holds the lock on its file `writer.lock`.

The lock is the system's, so it ends with the process, however that ends. The file holds the process's number,
for the message that a second one gets.
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
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise WriterElsewhere(str(folder), holder or "of another user") from exc
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process write."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)


def writer_pid(folder: Path) -> int | None:
    """Return the process that says it writes, if there is such a process; asking takes no lock."""
    try:
        pid = int((folder / NAME).read_text("ascii"))
    except (OSError, ValueError):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # it is another user's
        return pid
    return pid
