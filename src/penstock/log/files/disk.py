"""The disk of a log in files: the few calls whose order makes it survive a crash.

All writes of the log go through here, so a test can substitute a disk that forgets unsynced bytes. Owns the
system calls and the file modes (0700, 0600); does not know the meaning of the bytes.

The writer's lock is on the file `writer.lock`: only the process that holds it may write. The system releases the lock
when the process ends, however it ends. The file holds the process id, for a second writer's error message; the id alone
proves nothing: it stays after a kill and may be reused. A process that only checks for a writer takes a shared lock for
a moment, so a writer that finds the lock taken tries again unless the holder is another writer.
"""

import contextlib
import errno
import fcntl
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import WriterElsewhere
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import crc32c

FOLDER_MODE, FILE_MODE = 0o700, 0o600
LOCK_NAME = "writer.lock"
BESIDE = ".new"  # suffix of a file that is about to replace another
_CRC = struct.Struct(">I")
_PIECES = 1024  # buffers of one call: IOV_MAX of every system we know
_AT_ONCE: int | None = getattr(os, "RWF_NOWAIT", None)  # flag of preadv: fail instead of waiting
_LOOK_BYTES = 256 * 1024  # distance between two probes


class DiskFile:
    """One open file. Reads and writes name their position; two threads may use it at once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, position: int, size: int) -> bytes:
        """Return bytes from a position on; fewer only at the end of the file."""
        found = os.pread(self._fd, size, position)
        while len(found) < size:  # a signal, or the end
            more = os.pread(self._fd, size - len(found), position + len(found))
            if not more:
                break
            found += more
        return found

    def is_cached(self, position: int, size: int) -> bool:
        """Return whether bytes can be read without waiting for the disk, by probing some; False if unknown."""
        if _AT_ONCE is None:
            return False
        byte, last = bytearray(1), position + size - 1
        try:
            for at in (*range(position, last, _LOOK_BYTES), last):
                if not os.preadv(self._fd, [byte], at, _AT_ONCE):
                    return False
        except OSError:  # it would wait, or the file system does not support this
            return False
        return True

    def write(self, position: int, pieces: Sequence[Buffer]) -> int:
        """Write pieces from a position on and return the number of bytes. Raises OSError, perhaps after a part."""
        if len(pieces) == 1 and os.pwrite(self._fd, pieces[0], position) == len(pieces[0]):
            return len(pieces[0])
        written = 0
        for first in range(0, len(pieces), _PIECES):
            some = pieces[first : first + _PIECES]
            size = sum(len(each) for each in some)
            done = os.pwritev(self._fd, some, position + written)
            while done < size:  # a full disk writes a part, and fails the next call
                rest = memoryview(b"".join(some))[done:]
                done += os.pwritev(self._fd, [rest], position + written + done)
            written += size
        return written

    def sync(self) -> None:
        """Return once the bytes are on disk. Never call it after a failure: dropped bytes would count as written."""
        if sys.platform == "darwin":
            fcntl.fcntl(self._fd, fcntl.F_FULLFSYNC)  # fsync stops at the drive's cache on macOS
        else:
            os.fdatasync(self._fd)

    def allocate(self, size: int) -> None:
        """Extend the file to at least that many bytes; new ones are zero. Raises OSError when the disk is full."""
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._fd, 0, size)
                return
            except OSError as exc:
                if exc.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise
        if self.size < size:
            os.ftruncate(self._fd, size)

    def truncate(self, size: int) -> None:
        """Cut the file to a size."""
        os.ftruncate(self._fd, size)

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Disk:
    """The file system of this machine."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and its parents, unless they exist; only the owner may enter it."""
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def create(self, path: Path) -> DiskFile:
        """Create a file and open it. Raises FileExistsError."""
        return DiskFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        """Open an existing file. Raises FileNotFoundError."""
        return DiskFile(os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC))

    def exists(self, path: Path) -> bool:
        """Return whether the path exists."""
        return path.exists()

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, replacing the target; durable only once the folder is synced."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder, if it exists and is empty."""
        with contextlib.suppress(FileNotFoundError, OSError):
            os.rmdir(path)

    def sync_folder(self, path: Path) -> None:
        """Return once the names in a folder are on disk."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def with_crc(body: bytes) -> bytes:
    """Return bytes with their CRC32C behind them."""
    return body + _CRC.pack(crc32c(body))


def without_crc(content: bytes) -> bytes | None:
    """Undo `with_crc`; None for damaged bytes."""
    body = content[: -_CRC.size]
    return body if len(content) >= _CRC.size and _CRC.unpack(content[-_CRC.size :])[0] == crc32c(body) else None


def write_whole(disk: Disk, path: Path, content: bytes) -> None:
    """Replace a small file: after a crash it holds the old or the new content, nothing between."""
    beside = path.with_name(path.name + BESIDE)
    disk.remove(beside)
    with contextlib.closing(disk.create(beside)) as file:
        file.write(0, [content])
        file.sync()
    disk.rename(beside, path)
    disk.sync_folder(path.parent)


def read_whole(disk: Disk, path: Path) -> bytes | None:
    """Return the content of a small file; None if it does not exist."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    with contextlib.closing(file):
        return file.read(0, file.size)


class WriterLock:
    """The lock, held until `release`."""

    def __init__(self, folder: Path) -> None:
        """Take it. Raises WriterElsewhere."""
        self._fd = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        fd = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
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
