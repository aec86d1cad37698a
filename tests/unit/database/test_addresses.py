"""From a URL to a store: which forms there are, and which file or memory each means."""

import gc
import os
import sqlite3
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.database.address import FORMS, short_name, without_password
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.errors import InvalidUrl

NO_URLS = [
    "",
    "shop.db",
    "sqlite:shop.db",
    "sqlite://shop.db",
    "sqlite://",
    "sqlite:///",
    "sqlite:///:memory:",
    "sqlite:///shop\x00.db",
    "postgresql:/x",
    "mysql://u:secret@h/db",
    "memory:",
    None,
    Path("shop.db"),
]


@pytest.mark.parametrize("url", NO_URLS, ids=repr)
def test_what_is_no_store_is_refused_with_the_forms(url: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        Outbox(url)
    assert all(form in str(caught.value) for form in FORMS)
    assert "secret" not in str(caught.value)


def tables(path: Path) -> int:
    """Return how many tables a file has."""
    conn = sqlite3.connect(path)
    try:
        return int(conn.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0])
    finally:
        conn.close()


@pytest.mark.parametrize("name", ["shop.db", "a b.db", "ü%20#.db", "./shop.db", "sub/shop.db"])
def test_a_relative_path_is_seen_from_where_the_program_stands(name: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    outbox = Outbox(f"sqlite:///{name}")
    outbox.migrate()
    outbox.close()
    assert tables(tmp_path / name) > 5


def test_an_absolute_path_has_four_slashes(tmp_path: Path) -> None:
    outbox = Outbox(f"sqlite:///{tmp_path}/deep.db")
    outbox.migrate()
    outbox.close()
    assert tables(tmp_path / "deep.db") > 5


def test_a_change_of_folder_does_not_change_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon goes to / after it has started."""
    outbox = Outbox("sqlite:///shop.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    outbox.migrate()
    outbox.close()
    assert tables(tmp_path / "shop.db") > 5
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_store_in_memory_without_a_name_is_new_each_time() -> None:
    first, second = Outbox("memory://"), Outbox("memory://")
    first.migrate()
    assert second.migrate()
    first.close()
    second.close()


@pytest.mark.parametrize("name", ["shared", "a b", "x?vfs=unix", "x?mode=ro", "a#b", "a%2Fb", "../x", "ü"])
def test_a_store_in_memory_with_a_name_is_shared_by_all_that_say_it(name: str, tmp_path: Path) -> None:
    """Whatever the name holds, it stays in memory."""
    first, second, other = Outbox(f"memory://{name}"), Outbox(f"memory://{name}"), Outbox(f"memory://{name}2")
    first.migrate()
    assert second.migrate() == []
    assert other.migrate()
    for outbox in (first, second, other):
        outbox.close()
    assert os.listdir(tmp_path) == []
    assert not [each for each in os.listdir("/") if each.startswith("penstock-")]


def test_a_store_in_memory_lives_as_long_as_somebody_holds_it() -> None:
    first, second = Outbox("memory://held"), Outbox("memory://held")
    first.migrate()
    first.close()
    del first
    gc.collect()
    assert second.migrate() == []
    second.close()
    del second
    gc.collect()
    third = Outbox("memory://held")
    assert third.migrate()
    third.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@ss:w@h:5/db?x=1", "postgresql://u@h:5/db?x=1"),
        ("postgresql://u@h/db?password=p&sslpassword=q&x=1", "postgresql://u@h/db?password=…&sslpassword=…&x=1"),
        ("postgresql://h:5432/db", "postgresql://h:5432/db"),
        ("postgresql:///db?host=/a:b@c", "postgresql:///db?host=/a:b@c"),
        ("sqlite:////a:b@c.db", "sqlite:////a:b@c.db"),
        ("u:p@ss@h/db", "u@h/db"),
        ("host=h password=p dbname=d", "host=h password=… dbname=d"),
        ("password = 'p \\' q' host=h", "password = … host=h"),
        ("mysql://u:p@h/db", "mysql://u@h/db"),
        ("postgresql://u:p\nq@h/db", "postgresql://u@h/db"),
        ("postgresql://u@h/db?PASSWORD=p&pwd=q", "postgresql://u@h/db?PASSWORD=…&pwd=…"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://u:p@h:5/db?x=1", "h:5/db"),
        ("sqlite:////data/shop.db?timeout=5", "/data/shop.db"),
        ("memory://", "memory"),
    ],
)
def test_the_name_of_a_store_is_its_place_without_login_and_options(url: str, name: str) -> None:
    assert short_name(url) == name


def test_an_object_that_holds_an_address_is_refused_without_its_password() -> None:
    class PostgresDsn:
        def __str__(self) -> str:
            return "postgresql://u:secret@h/db"

    with pytest.raises(InvalidUrl, match="it is a PostgresDsn; pass it as text") as caught:
        Outbox(PostgresDsn())  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


def test_a_password_in_an_option_that_is_refused_is_not_shown() -> None:
    for url in ("sqlite:///shop.db?password=secret", "sqlite+pysqlite:///shop.db?pwd=secret"):
        with pytest.raises(InvalidUrl) as caught:
            Outbox(url)
        assert "secret" not in str(caught.value)


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path}/shop.db", Names()).close()
    assert os.listdir(tmp_path) == []
