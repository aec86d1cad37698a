"""A lake through the command line, from its first batch over what may happen to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from penstock.errors import StorageAway
from penstock.pipeline.lake import upkeep
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.storage import Location
from penstock.pipeline.lake.tables import history
from tests.crash.proxy import FaultProxy
from tests.pipeline.conftest import Command, need_java
from tests.pipeline.stores import TOPIC, TYPES, LogStore
from tests.pipeline.test_command import a_command
from tests.pipeline.test_continue import places

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_a_lake_goes_on_after_a_lost_table_a_rebuild_and_a_lost_checkpoint(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    to = tmp_path / "lake"
    where = ["--url", sqlite_store.url, "--topic", TOPIC]
    words = ["pipeline", "lake", *where, "--to", str(to), "--once", "--batch-records", "100"]
    sqlite_store.fill(150)
    assert command(*words).out == "done: 150 rows in 2 batches\n"

    shutil.rmtree(to / TYPES[1])
    sqlite_store.fill(60)
    assert command(*words).code == 1
    tables = ["--table", TYPES[0], "--table", TYPES[1]]
    assert command("pipeline", "reset", str(to), "--rebuild", *tables, "--yes").code == 0
    old = table_at(to / TYPES[0]).size().rows
    done = command(*words)
    assert (done.code, done.out) == (0, "done: 60 rows in 1 batches\n"), done.err
    assert f"table {TYPES[0]}: 0 of {old} rows cannot be made again from the log\n" in done.err
    for name in TYPES[:2]:
        assert f"rebuilt table {name} from the log" in done.err
    assert places(to) == sorted(sqlite_store.records())
    assert table_at(to / f"_old.{TYPES[0]}").size().rows == old

    shutil.rmtree(to / "_penstock" / "checkpoint")
    sqlite_store.fill(40)
    assert command(*words).out == "done: 40 rows in 1 batches\n"
    assert places(to) == sorted(sqlite_store.records())
    assert command("reconcile", *where, "--lake", str(to)).out == "reconciled: logged=250 table=250\n"
    sqlite_store.fill(5)
    (reader,) = json.loads(command("groups", "list", "--url", sqlite_store.url, "--json").out)["groups"]
    assert (reader["kind"], reader["lag"], reader["topics"]) == ("pipeline", 5, [TOPIC])


def test_upkeep_that_fails_after_a_good_run_is_told_and_does_not_fail_it(
    sqlite_store: LogStore,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def away(path: Location) -> list[Location]:
        raise StorageAway("shop")

    to = tmp_path / "lake"
    sqlite_store.fill(30)
    monkeypatch.setattr(upkeep, "tables_in", away)
    done = command("pipeline", "lake", "--url", sqlite_store.url, "--topic", TOPIC, "--to", str(to), "--once")
    assert (done.code, done.out) == (0, "done: 30 rows in 1 batches\n"), done.err
    assert f"upkeep of lake {to} is put off: the object store of bucket 'shop' cannot" in caplog.text
    assert f"or do it now: penstock pipeline optimize {to}" in caplog.text
    assert places(to) == sorted(sqlite_store.records())


def only_an_old_java(folder: Path) -> dict[str, str]:
    """Return the environment of a machine whose own Java is too old, so that the one from pip is taken."""
    folder.mkdir()
    (folder / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    (folder / "java").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "JAVA_HOME": ""}


@pytest.mark.spark
def test_a_streaming_lake_waits_for_its_database_and_on_sigterm_leaves_with_zero(
    postgres_url: str, tmp_path: Path
) -> None:
    """On the Java from pip, with a task for each core of the master: one start of Spark shows all."""
    store = LogStore(postgres_url)
    store.fill(6_000)  # few are not worth a second task
    to = tmp_path / "lake"
    with FaultProxy(postgres_url) as proxy:
        words = ["lake", "--url", proxy.url, "--topic", TOPIC, "--to", str(to), "--master", "local[3]"]
        with a_command(*words, env=only_an_old_java(tmp_path / "bin")) as command:
            assert command.stderr is not None
            told = [command.stderr.readline() for _ in range(2)]
            assert told[1].startswith("batch 0: 6,000 rows, ")
            proxy.go_down()
            said = command.stderr.readline()
            assert said.startswith("the pipeline was interrupted: the store ")
            assert said.endswith("; retrying for at most 600 s\n")
            store.fill(50)
            proxy.come_up()
            assert command.stderr.readline().startswith("batch 1: 50 rows, ")
            command.send_signal(signal.SIGTERM)
            out, rest = command.communicate(timeout=300)
    assert command.returncode == 0, rest
    assert out == "stopped: 6,050 rows in 2 batches\n"
    assert "Exception" not in rest
    assert "\tat " not in rest
    assert places(to) == sorted(store.records())
    written = [each.files_added for each in history(to, limit=9) if each.rows and each.rows > 1_000]
    assert written == [3, 3, 3]
    store.close()


@pytest.mark.spark
def test_workers_without_penstock_are_one_sentence(sqlite_store: LogStore, tmp_path: Path) -> None:
    need_java()
    sqlite_store.fill(10)
    python = tmp_path / "python"
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    # Without `site`, what is installed in place is not found.
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    words = ["lake", "--url", sqlite_store.url, "--topic", TOPIC, "--to", str(tmp_path / "lake"), "--once"]
    conf = ["--master", "local[2]", "--conf", f"spark.pyspark.python={python}"]
    with a_command(*words, *conf, env={"PYTHONPATH": ""}) as command:
        _, said = command.communicate(timeout=300)
    assert command.returncode == 1
    assert said.splitlines()[-1].startswith(
        "error: the pipeline stopped: the Python of Spark's workers has no Penstock"
    )
