"""A filled log on each engine, and one Spark session for the whole process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli import main
from penstock.errors import NoJava
from penstock.pipeline.session import find_java
from tests.pipeline.shared_classes import SHORT_LIVED, share_classes
from tests.pipeline.stores import LogStore
from tests.services import missing
from tests.services.object_store import ObjectStore, ObjectStoreUnavailable

if TYPE_CHECKING:
    from tests.pipeline.killed_lakes import KilledLakes

ROOT = Path(__file__).resolve().parents[2]
WORKERS_PATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)


MODULE = """
import json
from pathlib import Path

from penstock.pipeline import pipeline

FOLDER = Path(__file__).parent


@pipeline(source="orders", sink=str(FOLDER / "plain"))
def plain(events):
    return events.selectExpr("type", "partition", "offset")


@pipeline(source="orders", sink="topic:copies", folder=str(FOLDER / "copying"))
def copying(events):
    return events.selectExpr("key", "concat(partition, '/', offset) AS value")


@pipeline(source="orders", sink=str(FOLDER / "pushed"), each_batch=True)
def pushing(batch, identity):
    rows = batch.selectExpr("key", "concat(partition, '/', offset) AS value")
    url = json.loads((FOLDER / "url.json").read_text())
    for _ in range(2):  # as if it had been run again
        writer = rows.write.format("penstock").mode("append").options(url=url, topic="pushed")
        writer.options(**identity.options("pushed")).save()


@pipeline(source="orders")
def nowhere(events):
    return events
"""


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


@pytest.fixture(scope="session")
def started_object_store() -> Iterator[ObjectStore | None]:
    """Give the process's one S3, if it can be had."""
    try:
        with ObjectStore() as server:
            yield server
    except ObjectStoreUnavailable:
        yield None


@pytest.fixture(scope="session")
def object_store(started_object_store: ObjectStore | None) -> ObjectStore:
    """Give the process's one S3."""
    return started_object_store or missing("an S3 server", "pip install 'moto[s3]' flask flask-cors")


@pytest.fixture
def bucket(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the address of an empty bucket, which the environment of this process leads to."""
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{object_store.bucket()}"


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
def spark(started_object_store: ObjectStore | None) -> Iterator[Any]:
    """Give the process's one Spark session, on two cores; its workers find the process's S3."""
    from penstock.pipeline.session import spark_session

    need_java()
    if started_object_store is not None:
        os.environ.update(started_object_store.environment())
    os.environ["PYTHONPATH"] = WORKERS_PATH  # Spark's workers import the sinks of this folder
    session = spark_session("tests", master="local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def killed_lakes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, started_object_store: ObjectStore | None
) -> Iterator[KilledLakes]:
    """Give the lakes that tests of this run name by their mark `killed_lake`, after kills of their driver."""
    from tests.pipeline.killed_lakes import killed

    marks = (mark for item in request.session.items for mark in item.iter_markers("killed_lake"))
    names, catalog = {mark.args[0] for mark in marks}, ""
    if started_object_store is None:
        names = {name for name in names if "bucket" not in name}
    if any("bucket iceberg" in name for name in names):
        catalog = request.getfixturevalue("postgres_server").create_database()
    with killed(names, tmp_path_factory.mktemp("killed"), started_object_store, catalog) as lakes:
        yield lakes


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a module with pipelines, in the folder where the command runs."""
    (tmp_path / "shop_pipelines.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield "shop_pipelines"
    sys.modules.pop("shop_pipelines", None)
