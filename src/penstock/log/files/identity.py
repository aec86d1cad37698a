"""Which log a directory holds: the file `identity`, compared with the SQLite file when a writer starts.

A JSON object of log id, incarnation, and two marks. Each start of a writer draws a new mark and puts it here,
into the SQLite file, and here again as confirmed. So a directory or a SQLite file that was put back from a
backup of an earlier start is told from a crash in between: its mark is neither the last nor the one before.
"""

from pathlib import Path

import msgspec

from .disk import Disk, read_whole, write_whole

NAME = "identity"


class DirectoryIdentity(msgspec.Struct, frozen=True):
    """What the file says. `mark` is of the last start, `known_mark` what the SQLite file may have instead."""

    log_id: str
    incarnation: int
    mark: str
    known_mark: str


def read_identity(disk: Disk, folder: Path) -> DirectoryIdentity | None:
    """Return what the file says; None if there is none.

    Raises msgspec.MsgspecError for one that is damaged.
    """
    content = read_whole(disk, folder / NAME)
    return None if content is None else msgspec.json.decode(content, type=DirectoryIdentity)


def write_identity(disk: Disk, folder: Path, identity: DirectoryIdentity) -> None:
    """Put the file in its place."""
    write_whole(disk, folder / NAME, msgspec.json.encode(identity) + b"\n")
