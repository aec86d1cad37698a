"""Syncing files to the disk: after a power cut nothing may point to a missing file.

A file is on the disk when its bytes and its name are, so its folder is synced, too.
"""

import os
from contextlib import suppress
from pathlib import Path


def bring_to_disk(*files: Path) -> None:
    """Sync files, then their folders; a folder that may not be opened is skipped."""
    for file in files:
        sync(file)
    for folder in dict.fromkeys(file.parent for file in files):
        with suppress(PermissionError):
            sync(folder)


def sync(path: Path) -> None:
    """Sync a file's bytes, or a folder's names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
