"""The identity of the log in a directory: the file `identity`, compared with SQLite at a writer's start.

A JSON object of log id, incarnation, and two marks. Each start of a writer draws a new mark and writes it
here, to the SQLite file, and here again as confirmed. So a directory or a SQLite file restored from a backup
of an earlier start can be told from a crash in between: its mark is neither the last nor the one before.
"""

from pathlib import Path

import msgspec

from .disk import Disk, read_whole, write_whole

NAME = "identity"


class DirectoryIdentity(msgspec.Struct, frozen=True):
    """Its content. `mark` is of the last start; the SQLite file may still have `known_mark` instead."""

    log_id: str
    incarnation: int
    mark: str
    known_mark: str


def read_identity(disk: Disk, folder: Path) -> DirectoryIdentity | None:
    """Return the content of the file; None if it does not exist.

    Raises msgspec.MsgspecError for a damaged file.
    """
    content = read_whole(disk, folder / NAME)
    return None if content is None else msgspec.json.decode(content, type=DirectoryIdentity)


def write_identity(disk: Disk, folder: Path, identity: DirectoryIdentity) -> None:
    """Replace the file."""
    write_whole(disk, folder / NAME, msgspec.json.encode(identity) + b"\n")
