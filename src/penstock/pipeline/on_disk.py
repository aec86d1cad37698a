"""Bringing files to the disk: after a power cut nothing may point to what is not there.

A file is on the disk when its bytes and its name are, so its folder is brought there, too.
"""

import os
from contextlib import suppress
from pathlib import Path


def bring_to_disk(*files: Path) -> None:
    """Bring files to the disk, then the folders they are in; one that may not be opened is passed over."""
    for file in files:
        sync(file)
    for folder in dict.fromkeys(file.parent for file in files):
        with suppress(PermissionError):
            sync(folder)


def sync(path: Path) -> None:
    """Bring a file's bytes, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
