"""The SQLite file beside the segments: topics, groups, cursors and lanes, in the same tables as ever.

SQLite keeps no checksum over what it stores. Damage to a page's structure, an index or a type is found by its
own check; a value that has become another one is not.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

from ..sql.sqlite.dialect import SqliteConnection, SqliteDialect
from .disk import FILE_MODE, FOLDER_MODE

NAME = "penstock.db"
_QUICK_BYTES = 64 << 20  # of a file that is looked through at every start of a writer
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def quick_damage(directory: Path) -> str | None:
    """Return what is wrong with the pages of the file; None if nothing is, or it is too large to look."""
    path = directory / NAME
    try:
        if path.stat().st_size > _QUICK_BYTES:
            return None
    except FileNotFoundError:
        return None
    return _damage(path, "PRAGMA quick_check(1)")


def damage(directory: Path) -> str | None:
    """Return what is wrong with the file, pages, indexes and types; None if nothing is found."""
    path = directory / NAME
    return _damage(path, "PRAGMA integrity_check(1)") if path.exists() else None


def _damage(path: Path, check: str) -> str | None:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as conn:
            found = str(conn.execute(check).fetchone()[0])
    except sqlite3.Error as exc:
        code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        return str(exc) if code in _DAMAGED else None
    return None if found == "ok" else found


class TablesDialect(SqliteDialect):
    """SQLite in the directory of a log; both are made, for their owner only, when they are needed first."""

    def __init__(self, directory: str) -> None:
        super().__init__(os.path.join(directory, NAME))

    def connect(self) -> SqliteConnection:
        """Open the file, making it, and its directory, if they are not there."""
        Path(self.path).parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if not os.path.exists(self.path):
            self._make()
        return super().connect()

    def _make(self) -> None:
        """Make an empty file under another name, and give it its own unless one is there by now.

        The file itself is never opened here: closing it would end all locks of this process on it, as POSIX
        has it, also SQLite's; another process would take it for unused, and remove the write-ahead log that
        this one goes on writing.
        """
        new = f"{self.path}.{uuid4().hex}"
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        try:
            with suppress(FileExistsError):
                os.link(new, self.path)
        finally:
            os.unlink(new)

    def missing_file(self) -> str | None:
        """Look for the file."""
        return None if os.path.exists(self.path) else self.path
