"""A SQLite file that Penstock makes is its owner's alone, and one that was there keeps its rights."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.database.sqlite.dialect import SqliteDialect
from penstock.database.sqlite.private_file import make_private
from penstock.log.store import open_store

OPENED = """
import json, os, sys
from pathlib import Path
from penstock.database.migrations import migrate
from penstock.database.sqlite.dialect import SqliteDialect
from penstock.log.store import open_store
folder = Path(sys.argv[2])
store = open_store(sys.argv[1])
migrate(store.database)
with store.database.looking():
    found = {str(each.relative_to(folder)): each.stat().st_mode & 0o777 for each in folder.rglob("*")}
print(json.dumps(found))
"""


def rights(url: str, folder: Path, umask: int) -> dict[str, int]:
    """Return the rights of what is in a folder while a store in it is open in a process of its own."""
    command = [sys.executable, "-c", OPENED, url, str(folder)]
    found: dict[str, int] = json.loads(subprocess.check_output(command, umask=umask, text=True))
    return found


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777], ids=oct)
def test_the_file_and_those_beside_it_are_their_owners_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    found = rights(f"sqlite:///{tmp_path}/shop.db", tmp_path, umask)
    assert {"shop.db", "shop.db-wal", "shop.db-shm"} == found.keys()
    assert set(found.values()) == {0o600}


def test_a_directory_of_a_log_is_its_owners_with_all_that_is_in_it(tmp_path: Path) -> None:
    found = rights(f"file:///{tmp_path}/log", tmp_path, 0)
    assert {name: mode for name, mode in found.items() if (tmp_path / name).is_dir()} == {"log": 0o700}
    files = {mode for name, mode in found.items() if not (tmp_path / name).is_dir()}
    assert len(found) > 2
    assert files == {0o600}


@pytest.mark.parametrize("mode", [0o644, 0o660], ids=oct)
def test_a_file_that_was_there_keeps_its_rights_and_gives_them_to_those_beside_it(tmp_path: Path, mode: int) -> None:
    sqlite3.connect(tmp_path / "shop.db").close()
    os.chmod(tmp_path / "shop.db", mode)
    found = rights(f"sqlite:///{tmp_path}/shop.db", tmp_path, 0o022)
    assert set(found.values()) == {mode}


def test_the_file_behind_a_link_is_made_for_its_owner_too(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    store = open_store(f"sqlite:///{tmp_path}/link.db")
    with store.database.looking():
        assert stat.S_IMODE((tmp_path / "real.db").stat().st_mode) == 0o600
    store.close()
    assert (tmp_path / "link.db").is_symlink()


def test_a_reader_of_another_user_is_told_whose_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.db"
    path.touch()
    refused = sqlite3.OperationalError("unable to open database file")
    refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for another user; root may read everything
    said = SqliteDialect(str(path)).translate(refused)
    assert "it belongs to another user" in str(said)
    assert "chmod g+rw" in str(said)


def test_it_is_made_private_where_the_file_system_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    before = os.umask(0)
    try:
        make_private(str(tmp_path / "shop.db"))
    finally:
        os.umask(before)
    assert [(each.name, each.stat().st_mode & 0o777) for each in tmp_path.iterdir()] == [("shop.db", 0o600)]
