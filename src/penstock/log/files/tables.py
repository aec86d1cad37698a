"""The SQLite file beside the segments: topics, groups, cursors and lanes, in the same tables as ever."""

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from ..sql.sqlite.dialect import SqliteConnection, SqliteDialect
from .disk import FILE_MODE, FOLDER_MODE

NAME = "penstock.db"


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
