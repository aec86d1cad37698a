"""The database is away, full or read-only: one word per change of state, nothing lost, and on by itself."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.crash.account import breaches, kinds, logged
from tests.crash.conftest import KEYS, TOPICS
from tests.crash.proxy import FaultProxy
from tests.crash.store import Store, a_service, running
from tests.crash.waiting import wait_until
from tests.services import missing
from tests.services.postgres import PostgresServer, PostgresUnavailable
from tests.services.run_folder import RunFolder

FEW = KEYS[:5]


@pytest.fixture
def words(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Give what the sequencing service says."""
    caplog.set_level(logging.INFO, logger="penstock.sequencing")
    return caplog


def said(words: pytest.LogCaptureFixture) -> list[str]:
    """Return what the sequencing service has said, without what differs from run to run."""
    return [
        record.getMessage().partition(":")[0]
        for record in words.records
        if record.name == "penstock.sequencing" and record.levelno >= logging.WARNING
    ]


WAITS, GOES_ON = "sequencing waits and retries", "sequencing has recovered"


def test_a_service_says_once_that_the_server_is_away_and_once_that_it_goes_on(
    postgres_store: Store, words: pytest.LogCaptureFixture
) -> None:
    def has_said(count: int) -> bool:
        return len(said(words)) == count

    with (
        FaultProxy(postgres_store.url) as proxy,
        closing(Store(proxy.url)) as far,
        closing(far.database()) as database,
        running(a_service(database)),
    ):
        for count in (1, 3):
            postgres_store.publish_committed("three", FEW)
            wait_until(lambda: postgres_store.waiting() == 0, "the service moves")
            proxy.go_down()
            postgres_store.publish_committed("three", FEW)
            wait_until(partial(has_said, count), "the service notices")
            with pytest.raises(psycopg.OperationalError):
                far.publish_committed("three", FEW)
            proxy.come_up()
            wait_until(lambda: postgres_store.waiting() == 0, "it goes on by itself")
            wait_until(partial(has_said, count + 1), "it says that it goes on")
    assert said(words) == [WAITS, GOES_ON] * 2
    assert breaches(postgres_store) == []


@pytest.mark.slow
def test_a_server_that_stops_and_starts_again_is_waited_for(words: pytest.LogCaptureFixture) -> None:
    with a_server_of_its_own() as server:
        url = server.create_database()
        with closing(Store(url)) as store:
            store.prepare(topics=TOPICS, keys=KEYS)
            with closing(store.database()) as database, running(a_service(database)), closing(store.connect()) as conn:
                store.publish_next(conn, "three", "k-1")
                conn.commit()
                store.publish_next(conn, "three", "k-2")  # open when the server goes: rolled back
                server.stop()
                wait_until(lambda: said(words), "the service notices")
                with pytest.raises(psycopg.OperationalError):  # the driver's own error, untouched
                    store.publish_next(conn, "three", "k-3")
                with pytest.raises(psycopg.OperationalError):
                    store.connect()
                server.start()
                store.publish_committed("three", FEW)
                wait_until(lambda: store.waiting() == 0, "it goes on by itself")
                wait_until(lambda: len(said(words)) > 1, "it says so")
            assert said(words) == [WAITS, GOES_ON]
            assert breaches(store) == []
            assert len(store.rows("SELECT id FROM promised")) == 1 + len(FEW)


def test_a_full_disk_is_said_once_and_nothing_is_lost(tmp_path: Path, words: pytest.LogCaptureFixture) -> None:
    with a_small_disk(tmp_path / "disk") as disk, a_store_in(disk) as store:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(12 * 1024 * 1024))
        published = publish_until_full(store)
        with closing(store.database()) as database, running(a_service(database)):
            wait_until(lambda: said(words), "the service notices")
            ballast.unlink()
            wait_until(lambda: store.waiting() == 0, "it goes on by itself")
            wait_until(lambda: GOES_ON in said(words), "it says so")
        assert "no space left" in words.text
        assert said(words) == [WAITS, GOES_ON]
        assert len(logged(store)) == published > 0
        assert not {"lost", "twice", "gap", "waiting"} & kinds(breaches(store))


def test_a_file_that_cannot_be_written_is_said_once_and_nothing_is_lost(
    tmp_path: Path, words: pytest.LogCaptureFixture
) -> None:
    with a_small_disk(tmp_path / "disk") as disk, a_store_in(disk) as store:
        store.publish_committed("three", FEW)
        with (
            a_read_only_view(disk, tmp_path / "view") as (view, make_writable),
            closing(Store(f"sqlite:///{view}/shop.db")) as seen,
            closing(seen.database()) as database,
            running(a_service(database)),
        ):
            wait_until(lambda: said(words), "the service notices")
            make_writable()
            wait_until(lambda: store.waiting() == 0, "it goes on by itself")
            wait_until(lambda: GOES_ON in said(words), "it says so")
        assert "cannot be written" in words.text
        assert said(words) == [WAITS, GOES_ON]
        assert breaches(store) == []


def test_a_database_that_was_read_only_is_written_as_soon_as_it_can_be(
    postgres_url: str, words: pytest.LogCaptureFixture
) -> None:
    with closing(Store(postgres_url)) as store:
        store.prepare(topics=TOPICS, keys=KEYS)
        store.publish_committed("three", FEW)
        make_read_only(store, "on")
        with closing(store.database()) as database, running(a_service(database)):
            wait_until(lambda: said(words), "the service notices")
            make_read_only(store, "off")
            wait_until(lambda: store.waiting() == 0, "it goes on by itself")
            wait_until(lambda: GOES_ON in said(words), "it says so")
        assert "cannot be written" in words.text
        assert said(words) == [WAITS, GOES_ON]
        assert breaches(store) == []


@contextmanager
def a_server_of_its_own() -> Iterator[PostgresServer]:
    """Start a server that this test may stop."""
    with RunFolder() as folder:
        server = PostgresServer(folder.path)
        try:
            server.start()
        except PostgresUnavailable as error:
            missing("PostgreSQL", str(error))
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def a_store_in(folder: Path) -> Iterator[Store]:
    """Prepare a store in a folder."""
    with closing(Store(f"sqlite:///{folder}/shop.db")) as store:
        store.prepare(topics=TOPICS, keys=KEYS)
        yield store


@contextmanager
def a_small_disk(place: Path) -> Iterator[Path]:
    """Mount a file system of 16 MB."""
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place))
    try:
        yield place
    finally:
        unmount(place)


@contextmanager
def a_read_only_view(folder: Path, place: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Show a folder at another place where it cannot be written, until it is made writable."""
    place.mkdir()
    mount("--bind", str(folder), str(place))
    try:
        mount("-o", "remount,bind,ro", str(place))
        yield place, lambda: mount("-o", "remount,bind,rw", str(place))
    finally:
        unmount(place)


def make_read_only(store: Store, word: str) -> None:
    """Let sessions that begin from now on be read-only, or no longer."""
    ((name,),) = store.rows("SELECT current_database()")
    with psycopg.connect(store.url, autocommit=True) as conn:
        conn.execute("SET default_transaction_read_only = off")
        conn.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {word}')


def mount(*arguments: str) -> None:
    """Mount something; skip the test where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small or read-only file system")
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")


def unmount(place: Path) -> None:
    """Take a file system away again, also when somebody still looks at it."""
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def publish_until_full(store: Store) -> int:
    """Publish until the driver says, in its own words, that the disk is full; return how many committed."""
    published, refusal = 0, None
    with closing(store.connect()) as conn:
        while refusal is None:
            try:
                store.begin(conn)
                store.outbox.publish(conn, "filled", {"fill": "x" * 20_000}, key="k-1", topic="three")
                conn.commit()
                published += 1
            except sqlite3.OperationalError as error:
                refusal = error
    assert refusal.sqlite_errorname == "SQLITE_FULL"
    return published
