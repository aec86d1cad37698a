"""The SQLite file of a log in files, opened again and again by processes that come and go."""

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from penstock.log.files.tables import NAME, TablesDialect
from penstock.log.store import open_store

COME_AND_GO = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM t'); c.close()"


def test_another_process_that_ends_takes_no_write_ahead_log_away(tmp_path: Path) -> None:
    """Opening a second connection must not end the locks of the first: the file would seem unused."""
    dialect, path = TablesDialect(str(tmp_path)), tmp_path / NAME
    first = dialect.connect()
    first.execute("CREATE TABLE t (n INTEGER)")
    second = dialect.connect()
    subprocess.run([sys.executable, "-c", COME_AND_GO, str(path)], check=True)
    second.execute("INSERT INTO t VALUES (1)")
    elsewhere = sqlite3.connect(path)
    assert elsewhere.execute("SELECT n FROM t").fetchall() == [(1,)]
    for conn in (first, second, elsewhere):
        conn.close()


def test_it_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    def opened(_: int) -> None:
        with closing(open_store(f"file:///{tmp_path}/log")) as store:
            store.database.look(lambda tx: None)  # again where another is just turning its journal on

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(opened, range(8)))
    assert stat.S_IMODE((tmp_path / "log" / NAME).stat().st_mode) == 0o600
    assert not [each for each in (tmp_path / "log").iterdir() if not each.name.startswith(NAME)]
    assert [each for each in (tmp_path / "log").iterdir() if each.suffix != ".db"] == []
