"""The SQLite file beside the segments: topics, groups, cursors and lanes, in the same tables as ever."""

import os
from pathlib import Path

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
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        return super().connect()

    def missing_file(self) -> str | None:
        """Look for the file."""
        return None if os.path.exists(self.path) else self.path
