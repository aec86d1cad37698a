"""kill -9 of the driver around a table's commit, through the command: nothing lost, nothing doubled.

Without the look whether a table holds the batch, records are doubled.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from penstock.pipeline import formats as sinks
from penstock.pipeline import register
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.storage import Location
from penstock.pipeline.lake.tables import vacuum
from tests.crash.waiting import wait_until
from tests.pipeline.conftest import ROOT, WORKERS_PATH, Command, need_java
from tests.pipeline.killed_lakes import KilledLakes, words
from tests.pipeline.killing import WHERE, UncheckedSink
from tests.pipeline.stores import LogStore
from tests.pipeline.test_continue import places
from tests.services.budget import Budget

BEFORE_MARK, AFTER_MARK = "pipeline.before_mark", "pipeline.after_mark"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def begin(store: LogStore, to: Location, where: str = "", more: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start the command as a process of its own, to be killed at a point of a batch."""
    need_java()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.killing", *words(store, to), *more, "--master", "local[2]"],
        env=os.environ | {"PYTHONPATH": WORKERS_PATH, WHERE: where},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def die(store: LogStore, to: Location, point: str, batch: int, more: Sequence[str] = ()) -> None:
    with begin(store, to, f"{point} {batch}", more) as command:
        _, said = command.communicate(timeout=300)
    assert command.returncode == -signal.SIGKILL, said.decode()[-2000:]


def die_at_random(store: LogStore, to: Location, rng: random.Random, more: Sequence[str] = ()) -> bool:
    """Kill the command, with all its processes, some time after it has begun to write.

    Return whether it was killed: it may have come to the end before.
    """
    with begin(store, to, more=more) as command:
        wait_until(lambda: tables_in(to) or command.poll() is not None, "it writes", seconds=300)
        with suppress(subprocess.TimeoutExpired):
            command.wait(rng.uniform(0, 3))
        killed = command.poll() is None
        if killed:
            root = psutil.Process(command.pid)
            for process in [*root.children(recursive=True), root]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        command.communicate()
    return killed


def check_whole(store: LogStore, to: Path) -> None:
    """Find every record once; then remove what the kills left, and find the same."""
    assert places(to) == sorted(store.records())
    for file in to.glob("*/*.parquet"):
        os.utime(file, (1_000, 1_000))
    vacuum(to, older_than_hours=1, dry_run=False)
    kept = {Path(uri).name for table in tables_in(to) for uri in DeltaTable(table).file_uris()}
    assert {file.name for file in to.glob("*/*.parquet")} == kept
    assert places(to) == sorted(store.records())


@pytest.mark.killed_lake("append")
def test_a_killed_command_loses_and_doubles_nothing_and_without_the_check_it_does(
    killed_lakes: KilledLakes,
    spark: Any,
    command: Command,
    tmp_path: Path,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed = killed_lakes["append"]
    store, kills = killed.store, 0
    assert len(list(killed.left.glob("*/*.parquet"))) > sum(
        len(DeltaTable(table).file_uris()) for table in tables_in(killed.left)
    )
    shutil.copytree(killed.folder, tmp_path / "control")  # one of three tables has the batch
    for each in budget("pipeline.kill"):
        to = killed.folder if each.number == 1 else tmp_path / str(each.number) / "lake"
        if each.number == 1:
            kills += 2
        elif each.number == 2:
            for point in (BEFORE_MARK, AFTER_MARK):
                die(store, to, point, 1 + (point == AFTER_MARK))
                kills += 1
        else:
            rng = random.Random(each.seed)
            for _ in range(rng.randint(1, 2)):
                kills += die_at_random(store, to, rng)
        done = command(*words(store, to))
        assert done.code == 0, done.err
        check_whole(store, to)
    assert kills > each.number

    with monkeypatch.context() as patch:
        patch.setattr(sinks, "DeltaSink", UncheckedSink)
        # A checkpoint belongs to no folder: the batch that was cut short comes again.
        unchecked = command(*words(store, tmp_path / "control"))
    register(spark)  # other tests have the same session
    assert unchecked.code == 0, unchecked.err
    found = places(tmp_path / "control")
    assert len(found) > len(store.records())
    assert len(set(found)) == len(store.records())
