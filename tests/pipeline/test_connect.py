"""By Spark Connect: the formats in a program without Java, and a server that is killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import pipeline
from tests.crash.waiting import wait_until
from tests.pipeline.conftest import ROOT, WORKERS_PATH, Command, need_java
from tests.pipeline.connect_client import COPIED
from tests.pipeline.connect_server import ConnectServer
from tests.pipeline.stores import LogStore
from tests.pipeline.test_cluster import commits
from tests.pipeline.test_continue import places

RECORDS = 3_000  # in the lake by three batches


def client(server: ConnectServer, store: LogStore, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.connect_client", server.url, store.url, str(folder)],
        env=os.environ | {"PYTHONPATH": WORKERS_PATH},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_each_record_comes_once_also_when_the_server_is_killed(sqlite_store: LogStore, tmp_path: Path) -> None:
    need_java()
    store, lake = sqlite_store, tmp_path / "lake"
    store.fill(RECORDS)
    store.outbox.log.create_topic(COPIED, partitions=2)
    with ConnectServer(tmp_path / "first") as server, client(server, store, tmp_path) as running:
        wait_until(
            lambda: running.poll() is not None or commits(lake) >= 1, "some batches are in the tables", seconds=120
        )
        assert running.poll() is None, running.communicate()
        server.kill()
        running.kill()
    assert len(places(lake)) < RECORDS
    with ConnectServer(tmp_path / "second") as server:
        with client(server, store, tmp_path) as running:
            out, err = running.communicate(timeout=300)
        assert running.returncode == 0, err
        said = json.loads(out.splitlines()[-1])
    wanted = store.records()
    assert sorted((p, o) for p, o, _ in said["read"]) == sorted(wanted)
    assert {kind for _, _, kind in said["read"]} == {each.type for each in wanted.values()}
    assert places(lake) == sorted(wanted)
    assert said["lag"] == [0]
    log = store.outbox.log
    copied = [each for p in range(2) for each in log.read(COPIED, p, 0, RECORDS * 2, max_bytes=1 << 40)]
    assert len(copied) == RECORDS == len(wanted)
    assert len({each.data for each in copied}) == len({each.data for each in wanted.values()})


def test_public_names_are_what_they_say_however_often_they_are_asked_for() -> None:
    for name in pipeline.__all__ * 2:
        assert callable(getattr(pipeline, name)), f"{name} is a module of the same name"


def test_the_command_drives_no_connect_server(penstock: Command, tmp_path: Path) -> None:
    where = ["--url", "postgresql://host/shop", "--to", str(tmp_path / "lake"), "--master", "sc://host:15002"]
    done = penstock("pipeline", "lake", *where)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "penstock.pipeline.register(spark)" in done.err
    assert not (tmp_path / "lake").exists()
