"""A SQLite file that only its owner may read: SQLite itself would let everybody, but for the umask.

The files that SQLite puts beside it (`-wal`, `-shm`, `-journal`) get the same rights from SQLite.
"""

import os
from contextlib import suppress
from uuid import uuid4

FILE_MODE = 0o600


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
