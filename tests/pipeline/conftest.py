"""A filled log on each engine, and one Spark session for the whole process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import main
from penstock.errors import NoJava
from penstock.pipeline.java import find_java
from tests.pipeline.shared_classes import SHORT_LIVED, share_classes
from tests.pipeline.stores import LogStore
from tests.services import missing

ROOT = Path(__file__).resolve().parents[2]
WORKERS_PATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)


def need_java() -> None:
    """Skip at home, fail in CI, when there is no Java for Spark; else have it start fast."""
    try:
        find_java()
    except NoJava as error:
        missing("Java", str(error))
    share_classes()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[LogStore]:
    """Give a log in an SQLite file."""
    store = LogStore(f"sqlite:///{tmp_path}/shop.db")
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[LogStore]:
    """Give a log on one engine after the other."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_store")
        return
    store = LogStore(request.getfixturevalue("postgres_url"))
    yield store
    store.close()


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def penstock(capsys: pytest.CaptureFixture[str]) -> Command:
    """Give the command line, run in this process as a user runs it."""

    def run(*words: str) -> Done:
        with pytest.raises(SystemExit) as left:
            main(list(words))
        said = capsys.readouterr()
        return Done(left.value.code if isinstance(left.value.code, int) else 0, said.out, said.err)

    return run


@pytest.fixture
def command(spark: Any, penstock: Command) -> Command:
    """Give the command line with the process's Spark session, which it finds running and leaves so."""
    return penstock


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Give the process's one Spark session, on two cores."""
    from penstock.pipeline.session import spark_session

    need_java()
    os.environ["PYTHONPATH"] = WORKERS_PATH  # Spark's workers import the sinks of this folder
    session = spark_session("tests", master="local[2]")
    yield session
    session.stop()
