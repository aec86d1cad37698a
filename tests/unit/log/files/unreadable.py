"""A disk that refuses to open some files, as it does for a user without the right to read them."""

import errno
import os
from pathlib import Path

import pytest

from penstock.log.files.disk import Disk, DiskFile


def refuse_segments(monkeypatch: pytest.MonkeyPatch, partition: int) -> None:
    """Let nobody open the segments of a partition; tests run as root, whom no mode keeps out."""
    opened = Disk.open

    def refused(disk: Disk, path: Path, *, write: bool = False) -> DiskFile:
        if path.suffix == ".log" and path.parent.name == str(partition):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(disk, path, write=write)

    monkeypatch.setattr(Disk, "open", refused)


def refuse_to_read(monkeypatch: pytest.MonkeyPatch, partition: int) -> None:
    """Let every read of a segment of a partition fail, as on a broken disk; it can be opened."""
    opened, read = Disk.open, DiskFile.read
    broken = set[DiskFile]()

    def noted(disk: Disk, path: Path, *, write: bool = False) -> DiskFile:
        file = opened(disk, path, write=write)
        if path.suffix == ".log" and path.parent.name == str(partition):
            broken.add(file)
        return file

    def failing(file: DiskFile, position: int, size: int) -> bytes:
        if file in broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(file, position, size)

    monkeypatch.setattr(Disk, "open", noted)
    monkeypatch.setattr(DiskFile, "read", failing)
