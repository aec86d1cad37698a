"""Making a store fail for real: no space left, no right to write."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import gettempdir
from typing import Any

from penstock.database.contract import Result
from penstock.database.sqlite.dialect import SqliteConnection, SqliteDialect

NOBODY = 65534


class SmallDisk(SqliteDialect):
    """A file that may not grow beyond some pages, until the limit is lifted."""

    pages: int | None = None

    def begin(self, conn: SqliteConnection, **options: Any) -> list[Result]:
        conn.execute(f"PRAGMA max_page_count = {self.pages or 1_000_000}")
        return super().begin(conn, **options)


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user who may write nowhere: root, whom no permission stops, becomes nobody for the while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Let nobody write a file or its folder."""
    temporary = Path(gettempdir()).resolve()
    everyone_may_pass = [folder for folder in path.parents if folder.is_relative_to(temporary) and folder != temporary]
    files = [each for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")) if each.exists()]
    before = {each: each.stat().st_mode for each in [*files, *everyone_may_pass]}
    for folder in everyone_may_pass:
        folder.chmod(0o755 if folder != path.parent else 0o555)
    for each in files:
        each.chmod(0o444)
    try:
        with without_rights():
            yield
    finally:
        for each, mode in before.items():
            with suppress(FileNotFoundError):  # the files beside it go with its last connection
                each.chmod(mode)


@contextmanager
def opened_elsewhere(path: Path) -> Iterator[None]:
    """Let another process have a file open, so that the files beside it stay."""
    program = (
        "import sqlite3, sys\n"
        "conn = sqlite3.connect(sys.argv[1])\n"
        "conn.execute('SELECT count(*) FROM penstock_meta').fetchone()\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with Popen([sys.executable, "-c", program, str(path)], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield
        process.communicate()
