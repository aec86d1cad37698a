"""`--to s3://…` through the command, with kill -9 of the driver around a table's commit.

Nothing is lost and nothing doubled; without the look whether a table holds the batch, records are doubled.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import duckdb
import obstore
import polars
import pytest
from deltalake import DeltaTable

from penstock.pipeline import formats as sinks
from penstock.pipeline import register
from penstock.pipeline.lake.paths import folder_of, tables_in
from penstock.pipeline.lake.storage import Location, location, storage_of
from penstock.pipeline.lake.storage.bucket import BucketPath, store_of
from tests.pipeline.conftest import Command
from tests.pipeline.histories import a_history, expected
from tests.pipeline.killed_lakes import KilledLakes, words
from tests.pipeline.killing import RECORDS_PER_BATCH, UncheckedSink
from tests.pipeline.stores import TOPIC, TYPES, LogStore
from tests.pipeline.test_continue import places
from tests.pipeline.test_kill import die_at_random
from tests.services.budget import Budget
from tests.services.object_store import SECRET

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def copied(lake: Location, name: str) -> Location:
    """Copy all objects of a lake to another one of the same bucket."""
    assert isinstance(lake, BucketPath)
    store, to = store_of(lake.bucket), lake.parent / name
    for chunk in store.list(lake.key):
        for each in chunk:
            obstore.copy(store, each["path"], each["path"].replace(lake.key, to.key, 1))
    return to


def read_back(table: Location) -> list[tuple[int, int]]:
    """Return the places of a table as deltalake, Polars and DuckDB read them; all must say the same."""
    delta = DeltaTable(str(table))
    found = sorted((row["partition"], row["offset"]) for row in delta.to_pyarrow_table().to_pylist())
    assert sorted(polars.read_delta(str(table)).select("partition", "offset").rows()) == found
    with duckdb.connect() as conn:
        # Its own reader of buckets is an extension that is fetched: the rows come by Arrow.
        conn.register("rows", delta.to_pyarrow_dataset())
        assert sorted(conn.execute('SELECT "partition", "offset" FROM rows').fetchall()) == found
    return found


@pytest.mark.killed_lake("bucket append")
def test_a_killed_command_loses_and_doubles_nothing_in_a_bucket_and_without_the_check_it_does(
    killed_lakes: KilledLakes,
    spark: Any,
    command: Command,
    bucket: str,
    tmp_path: Path,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed, kills = killed_lakes["bucket append"], 0
    store = killed.store
    control = copied(killed.to, "control")  # one of three tables has the batch
    shutil.copytree(killed.checkpoint, tmp_path / "control")
    for each in budget("pipeline.bucket_kill"):
        to, checkpoint = location(f"{bucket}/{each.number}/lake"), tmp_path / f"checkpoint-{each.number}"
        if each.number == 1:
            to, checkpoint = killed.to, killed.checkpoint
            kills += 2
        more = ["--checkpoint", str(checkpoint)]
        line = [*words(store, to), *more]
        if each.number > 1:
            rng = random.Random(each.seed)
            for _ in range(rng.randint(1, 2)):
                kills += die_at_random(store, to, rng, more)
        done = command(*line)
        assert done.code == 0, done.err
        assert places(to) == sorted(store.records())
    assert kills > each.number

    with monkeypatch.context() as patch:
        patch.setattr(sinks, "DeltaSink", UncheckedSink)
        unchecked = command(*words(store, control), "--checkpoint", str(tmp_path / "control"))
    register(spark)  # other tests have the same session
    assert unchecked.code == 0, unchecked.err
    found = places(control)
    assert len(found) > len(store.records())
    assert len(set(found)) == len(store.records())

    look_after(store, to, command, line, tmp_path)


def look_after(store: LogStore, to: Location, command: Command, line: list[str], tmp_path: Path) -> None:
    """Read, join, vacuum, count, make a table again, take it over: everything is there still."""
    assert sorted(place for table in tables_in(to) for place in read_back(table)) == sorted(store.records())
    where = ["reconcile", "--url", store.url, "--topic", TOPIC, "--lake", str(to)]
    for more in (
        ["pipeline", "list", str(to)],
        ["pipeline", "show", str(to), "--json"],
        ["pipeline", "optimize", str(to)],
        ["pipeline", "vacuum", str(to), "--older-than", "0", "--yes"],
        ["pipeline", "history", str(to)],
        ["pipeline", "erase", str(to), "--url", store.url, "--yes"],
        where,
        ["pipeline", "reset", str(to), "--rebuild", "--table", TYPES[1], "--yes"],
        line,
        where,
    ):
        done = command(*more)
        assert done.code == 0, (more, done.out, done.err)
        assert SECRET not in done.out + done.err
    assert "reconciled" in done.out

    # A second driver, with a checkpoint of its own, goes on where the tables end; then the first is refused.
    store.fill(RECORDS_PER_BATCH)
    other = command(*line[:-1], str(tmp_path / "other"))
    assert other.code == 0, other.err
    refused = command(*line)
    assert refused.code == 2
    assert "or a new folder: the tables say where it goes on then" in refused.err
    assert places(to) == sorted(store.records())
    assert command(*where).code == 0

    table = DeltaTable(str(to / folder_of(TYPES[0])))
    table.delete("offset = 0 AND partition = 1 OR offset = 1")
    missing = command(*where)
    assert missing.code == 1
    assert "NOT reconciled" in missing.out
    (file, *_) = DeltaTable(str(to / folder_of(TYPES[0]))).file_uris()
    storage_of(to).remove(location(file))
    damaged = command(*where)
    assert damaged.code != 0
    assert "cannot be read: its file" in damaged.err
    assert "Traceback" not in damaged.err


def test_an_upsert_into_a_bucket_keeps_the_latest_of_each_key(
    sqlite_store: LogStore, command: Command, bucket: str, tmp_path: Path
) -> None:
    sqlite_store.outbox.log.append(TOPIC, a_history(RECORDS_PER_BATCH, 3))
    to = location(f"{bucket}/lake")
    done = command(*words(sqlite_store, to), "--checkpoint", str(tmp_path / "checkpoint"), "--mode", "upsert")
    assert done.code == 0, done.err
    found = {}
    for name, wanted in expected(sqlite_store).items():
        rows = DeltaTable(str(to / folder_of(name))).to_pyarrow_table().to_pylist()
        found[name] = {row["key"].decode(): row["value"] for row in rows if not row["deleted"]}
        assert len({row["key"] for row in rows}) == len(rows), wanted
    assert found == expected(sqlite_store)
    counted = command("reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(to))
    assert counted.code == 0, counted.out + counted.err


def test_a_replay_into_a_bucket_goes_on_with_its_range(
    sqlite_store: LogStore, command: Command, bucket: str, tmp_path: Path
) -> None:
    sqlite_store.fill(3 * RECORDS_PER_BATCH)
    to, checkpoint = location(f"{bucket}/again"), ["--checkpoint", str(tmp_path / "checkpoint")]
    words = ["pipeline", "replay", "--url", sqlite_store.url, "--topic", TOPIC, "--to", str(to), "--json"]
    words += ["--from", "3", "--until", "20", "--batch-records", "50"]
    without = command(*words)
    assert (without.code, "Missing option '--checkpoint'" in without.err) == (2, True)
    iceberg = command(*words, *checkpoint, "--format", "iceberg")
    assert (iceberg.code, "cannot keep the catalog" in iceberg.err) == (2, True)
    assert not to.exists(), "what is refused leaves nothing behind"
    done = command(*words, *checkpoint)
    assert done.code == 0, done.err
    wanted = sorted(place for place in sqlite_store.records() if 3 <= place[1] < 20)
    assert (json.loads(done.out)["rows"], places(to)) == (len(wanted), wanted)
    sqlite_store.fill(RECORDS_PER_BATCH)
    for folder in ("checkpoint", "another"):  # with a new one the tables say where it goes on
        again = command(*words, "--checkpoint", str(tmp_path / folder))
        assert json.loads(again.out)["rows"] == 0, again.err
    other = command(*[word if word != "20" else "21" for word in words], *checkpoint)
    assert (other.code, "another folder: here is a replay of topic orders" in other.err) == (2, True)
    assert places(to) == wanted


def test_a_pipeline_without_tables_is_refused_a_bucket(
    sqlite_store: LogStore, command: Command, bucket: str, tmp_path: Path
) -> None:
    """With a new checkpoint nothing would say where it goes on, and it would begin again."""
    sqlite_store.fill(RECORDS_PER_BATCH)
    words = ["--url", sqlite_store.url, "--to", f"{bucket}/handled", "--checkpoint", str(tmp_path / "kept")]
    for verb in (["run"], ["replay", "--from", "earliest"]):
        done = command("pipeline", *verb, "tests.pipeline.worker_pipelines:noted", *words)
        assert (done.code, "only its checkpoint holds its place" in done.err) == (2, True), done.err
    assert not location(f"{bucket}/handled").exists()
