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
