"""A disk in memory that loses what was not synced: a crash leaves what was, and a random part of the rest.

Pages of a file reach the disk in any order and by halves (sectors of 512 bytes); names in a folder in any
order. A sync that fails throws the pages away and says so once, as Linux does. A full disk writes what fits,
then refuses.
"""

import errno
import random
from collections.abc import Sequence
from pathlib import Path

from penstock.log.files.disk import Disk, DiskFile
from penstock.wire.kafka import Buffer

SECTOR = 512


class Inode:
    """A file's bytes as programs see them, as the disk has them, and what lies between."""

    def __init__(self) -> None:
        self.seen, self.kept = bytearray(), bytearray()
        self.dirty: set[int] = set()  # sectors
        self.size_synced = 0

    def crashed(self, source: random.Random) -> "Inode":
        left = Inode()
        left.kept[:] = self.kept
        for sector in sorted(self.dirty):
            if source.random() < 0.5:
                part = self.seen[sector * SECTOR : (sector + 1) * SECTOR]
                end = sector * SECTOR + len(part)
                if len(left.kept) < end:
                    left.kept.extend(bytes(end - len(left.kept)))
                left.kept[sector * SECTOR : end] = part
        if len(left.kept) < len(self.seen) and source.random() < 0.5:
            left.kept.extend(bytes(len(self.seen) - len(left.kept)))  # its new length was written, no more
        left.seen[:] = left.kept
        return left


class SimulatedFile(DiskFile):
    def __init__(self, disk: "SimulatedDisk", inode: Inode) -> None:
        self._disk, self.inode = disk, inode

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.inode.seen[position : position + size])

    def write(self, position: int, pieces: Sequence[Buffer]) -> int:
        self._disk.check_alive()
        content = b"".join(pieces)
        more = position + len(content) - len(self.inode.seen)
        if self._disk.room is not None and more > self._disk.room:
            self._put(position, content[: len(content) - more + self._disk.room])
            raise OSError(errno.ENOSPC, "no space left")
        self._put(position, content)
        return len(content)

    def _put(self, position: int, content: bytes) -> None:
        seen = self.inode.seen
        if len(seen) < position + len(content):
            seen.extend(bytes(position + len(content) - len(seen)))
        seen[position : position + len(content)] = content
        if content:
            last = (position + len(content) - 1) // SECTOR
            self.inode.dirty |= set(range(position // SECTOR, last + 1))

    def sync(self) -> None:
        self._disk.check_alive()
        self._disk.syncs += 1
        if self._disk.failing_syncs:
            self._disk.failing_syncs -= 1
            self._disk.failed_syncs += 1
            for sector in list(self.inode.dirty):
                if self._disk.source.random() < 0.5:
                    self.inode.dirty.discard(sector)  # thrown away, and nobody will know
            raise OSError(errno.EIO, "input/output error")
        kept, seen = self.inode.kept, self.inode.seen
        for sector in self.inode.dirty:
            end = min((sector + 1) * SECTOR, len(seen))
            if len(kept) < end:
                kept.extend(bytes(end - len(kept)))
            kept[sector * SECTOR : end] = seen[sector * SECTOR : end]
        del kept[len(seen) :]
        kept.extend(bytes(len(seen) - len(kept)))
        self.inode.dirty = set()

    def allocate(self, size: int) -> None:
        self._disk.check_alive()
        if self._disk.room is not None and size - len(self.inode.seen) > self._disk.room:
            raise OSError(errno.ENOSPC, "no space left")
        if len(self.inode.seen) < size:
            self.inode.seen.extend(bytes(size - len(self.inode.seen)))

    def truncate(self, size: int) -> None:
        self._disk.check_alive()
        del self.inode.seen[size:]
        self.inode.dirty = {each for each in self.inode.dirty if each * SECTOR < size}

    @property
    def size(self) -> int:
        return len(self.inode.seen)

    def close(self) -> None:
        pass


class SimulatedDisk(Disk):
    """One disk; `crash` cuts the power and returns the disk that the machine finds afterwards."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.names_seen: dict[Path, Inode | None] = {}  # None: a folder
        self.names_kept: dict[Path, Inode | None] = {}
        self.room: int | None = None
        self.failing_syncs = 0
        self.syncs = self.failed_syncs = 0
        self.is_dead = False
        self.dies_in: int | None = None  # after so many more calls that change something

    def check_alive(self) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            self.is_dead |= self.dies_in <= 0
        if self.is_dead:
            raise OSError(errno.EIO, "there is no power")

    def crash(self) -> "SimulatedDisk":
        self.is_dead = True
        after = SimulatedDisk(self.source)
        inodes: dict[int, Inode] = {}
        for path in sorted(self.names_seen.keys() | self.names_kept.keys()):
            kept, seen = self.names_kept.get(path, ...), self.names_seen.get(path, ...)
            found = kept if kept is seen or self.source.random() < 0.5 else seen
            if found is ... or (path.parent != path and path.parent not in after.names_seen and path.parent.name):
                continue
            if isinstance(found, Inode):
                found = inodes.setdefault(id(found), found.crashed(self.source))
            after.names_seen[path] = found
        after.names_kept = dict(after.names_seen)
        return after

    # -- as the log uses it

    def make_folder(self, path: Path) -> None:
        self.check_alive()
        for each in reversed([path, *path.parents]):
            if each.name:
                self.names_seen.setdefault(each, None)

    def names(self, folder: Path) -> list[str]:
        return sorted(each.name for each in self.names_seen if each.parent == folder)

    def create(self, path: Path) -> DiskFile:
        self.check_alive()
        if path in self.names_seen:
            raise FileExistsError(path)
        if self.room == 0:
            raise OSError(errno.ENOSPC, "no space left")
        made = Inode()
        self.names_seen[path] = made
        return SimulatedFile(self, made)

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        inode = self.names_seen.get(path)
        if inode is None:
            raise FileNotFoundError(path)
        return SimulatedFile(self, inode)

    def exists(self, path: Path) -> bool:
        return path in self.names_seen

    def rename(self, old: Path, new: Path) -> None:
        self.check_alive()
        self.names_seen[new] = self.names_seen.pop(old)

    def remove(self, path: Path) -> None:
        self.check_alive()
        self.names_seen.pop(path, None)

    def remove_folder(self, path: Path) -> None:
        if not self.names(path):
            self.names_seen.pop(path, None)

    def sync_folder(self, path: Path) -> None:
        self.check_alive()
        for each in [each for each in self.names_kept if each.parent == path]:
            del self.names_kept[each]
        for each, inode in self.names_seen.items():
            if each.parent == path:
                self.names_kept[each] = inode
