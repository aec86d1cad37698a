"""Lakes whose driver was killed before a table's commit, and again after one: the first round of crash tests.

To start a driver takes ten seconds, so all lakes that the tests of a run ask for have one, and it is killed
when each of them stands at its point. Later rounds, of the long set, have a driver for each lake.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.pipeline.lake.storage import Location, location
from tests.pipeline.conftest import ROOT, WORKERS_PATH, need_java
from tests.pipeline.histories import a_history
from tests.pipeline.killing import MEETING, RECORDS_PER_BATCH, TOGETHER, WHERE, place_of
from tests.pipeline.stores import TOPIC, LogStore
from tests.services.object_store import ObjectStore

BEFORE, AFTER = "pipeline.before_table_commit", "pipeline.after_table_commit"
BATCHES = 3
KILLED_BATCH = 1
_SECONDS = 500


@dataclass(frozen=True)
class KilledLake:
    """A lake whose tables have a batch, and one of them a second; and how a command goes on with it."""

    store: LogStore
    to: Location
    more: list[str]  # what the command gets beside the places
    checkpoint: Path  # it is elsewhere only if the lake is in a bucket
    left: Path  # what the first kill left of a lake that is in a folder

    @property
    def line(self) -> list[str]:
        return [*words(self.store, self.to), *self.more]

    @property
    def folder(self) -> Path:
        """The lake, which is not in a bucket."""
        assert isinstance(self.to, Path)
        return self.to


KilledLakes = dict[str, KilledLake]


def words(store: LogStore, to: Location) -> list[str]:
    where = ["--url", store.url, "--topic", TOPIC, "--to", str(to)]
    return ["pipeline", "lake", *where, "--once", "--batch-records", str(RECORDS_PER_BATCH)]


@contextmanager
def killed(names: Iterable[str], folder: Path, object_store: ObjectStore | None, catalog: str) -> Iterator[KilledLakes]:
    """Give lakes that were killed twice. Their names say what they are: `upsert`, `bucket iceberg append`."""
    with ExitStack() as stack:
        lakes = {name: _lake(name, folder, object_store, catalog) for name in sorted(names)}
        for each in lakes.values():
            stack.enter_context(closing(each.store))
        env = object_store.environment() if object_store else {}
        _die(lakes.values(), folder / "first", BEFORE, env)
        for each in lakes.values():
            if isinstance(each.to, Path):
                shutil.copytree(each.to, each.left)
        _die(lakes.values(), folder / "second", AFTER, env)
        yield lakes


def _lake(name: str, folder: Path, object_store: ObjectStore | None, catalog: str) -> KilledLake:
    own = folder / name.replace(" ", "-")
    own.mkdir()
    store, more = LogStore(f"sqlite:///{own}/shop.db"), list[str]()
    if "upsert" in name:
        store.outbox.log.append(TOPIC, a_history(RECORDS_PER_BATCH * BATCHES, 3))
        more += ["--mode", "upsert"]
    else:
        store.fill(RECORDS_PER_BATCH * BATCHES)
    if "iceberg" in name:
        more += ["--format", "iceberg"]
    to: Location = own / "lake"
    if "bucket" in name:
        assert object_store is not None
        to = location(f"s3://{object_store.bucket()}/lake")
        more += ["--checkpoint", str(own / "checkpoint")]
        if "iceberg" in name:
            more += ["--catalog", catalog, "--namespace", own.name.replace("-", "_")]
    return KilledLake(store, to, more, own / "checkpoint", own / "left")


def _die(lakes: Iterable[KilledLake], meeting: Path, point: str, env: dict[str, str]) -> None:
    """Let one driver fill all of them, and die when each stands at the point."""
    need_java()
    meeting.mkdir()
    lines = [each.line for each in lakes]
    command = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.killing", TOGETHER, *(json.dumps(each) for each in lines)],
        env={
            **os.environ,
            **env,
            "PYTHONPATH": WORKERS_PATH,
            WHERE: f"{point} {KILLED_BATCH}",
            MEETING: f"{len(lines)} {meeting}",
        },
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with command:
        _, said = command.communicate(timeout=_SECONDS)
    assert command.returncode == -signal.SIGKILL, said.decode()[-2000:]
    assert {each.name for each in meeting.iterdir()} == {place_of(str(each.to)) for each in lakes}
