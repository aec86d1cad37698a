"""`--format iceberg --to s3://…` through the command, with kill -9 of the driver around a table's commit.

Nothing is lost, doubled or revived; without the look whether a table holds the batch records are doubled, and
without the merge keys are there twice. The catalog is in PostgreSQL. The same is shown of Iceberg tables in a
folder and of Delta tables in a bucket, so these are of the long set.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline import formats as sinks
from penstock.pipeline import register
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.storage import Location, location
from tests.pipeline.conftest import Command
from tests.pipeline.histories import TYPES, a_history, expected
from tests.pipeline.killed_lakes import KilledLake, KilledLakes, words
from tests.pipeline.killing import RECORDS_PER_BATCH, AppendingIcebergSink, UncheckedIcebergSink
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.stores import TYPES as STORE_TYPES
from tests.pipeline.test_bucket_iceberg import read_back
from tests.pipeline.test_kill import die_at_random
from tests.services.budget import Budget
from tests.services.object_store import SECRET, ObjectStore

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.filterwarnings("ignore::ResourceWarning")]


class Killed:
    """A lake that a command fills and is killed at: in the first round before and after a commit."""

    def __init__(self, lake: KilledLake, catalog: str, folder: Path) -> None:
        self._lake, self._catalog, self._folder = lake, catalog, folder
        self._mode = ["--mode", "upsert"] if "upsert" in lake.more else []
        self.kills = 0

    def round(self, bucket: str, number: int, seed: int) -> None:
        if number == 1:
            self.to, self.checkpoint, self.line = self._lake.to, self._lake.checkpoint, self._lake.line
            self.kills += 2
            return
        self.to = location(f"{bucket}/{number}/lake")
        self.checkpoint = self._folder / f"checkpoint-{number}"
        options = ["--checkpoint", str(self.checkpoint), "--format", "iceberg", "--catalog", self._catalog]
        options += ["--namespace", f"lake_{number}", *self._mode]
        self.line = [*words(self._lake.store, self.to), *options]
        rng = random.Random(seed)
        for _ in range(rng.randint(1, 2)):
            self.kills += die_at_random(self._lake.store, self.to, rng, options)

    def other_sink(self, sink: type, spark: Any, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run the command with a sink that has lost something."""
        with monkeypatch.context() as patch:
            patch.setattr(sinks, "IcebergSink", sink)
            done = command(*self.line)
        register(spark)  # other tests have the same session
        assert done.code == 0, done.err


def rows(to: Location, columns: list[str]) -> list[dict[str, Any]]:
    found = (batch for table in tables_in(to) for batch in table_at(table).batches(columns))
    return [row for batch in found for row in batch.to_pylist()]


def places(to: Location, store: ObjectStore) -> list[tuple[int, int]]:
    return sorted(place for table in tables_in(to) for place in read_back(table, ["partition", "offset"], store))


@pytest.mark.killed_lake("bucket iceberg append")
def test_a_killed_command_loses_and_doubles_nothing_in_iceberg_tables_of_a_bucket(
    killed_lakes: KilledLakes,
    spark: Any,
    command: Command,
    bucket: str,
    object_store: ObjectStore,
    postgres_url: str,
    tmp_path: Path,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = killed_lakes["bucket iceberg append"]
    store, killed = lake.store, Killed(lake, postgres_url, tmp_path)
    for each in budget("pipeline.bucket_iceberg_kill"):
        killed.round(bucket, each.number, each.seed)
        done = command(*killed.line)
        assert done.code == 0, done.err
        assert places(killed.to, object_store) == sorted(store.records())
    assert killed.kills > each.number

    look_after(store, killed, command)
    assert places(killed.to, object_store) == sorted(store.records())

    # As after a crash before Spark knew of its last batch: it comes again.
    commits = killed.checkpoint / "commits"
    last = max((file.name for file in commits.iterdir() if file.name.isdigit()), key=int)
    (commits / last).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    killed.other_sink(UncheckedIcebergSink, spark, command, monkeypatch)
    assert len(rows(killed.to, ["offset"])) > len(store.records())


def look_after(store: LogStore, killed: Killed, command: Command) -> None:
    """Join, vacuum, count, erase, make a table again: everything is there still."""
    to = str(killed.to)
    where = ["reconcile", "--url", store.url, "--topic", TOPIC, "--lake", to]
    for more in (
        ["pipeline", "list", to],
        ["pipeline", "show", to, "--json"],
        ["pipeline", "optimize", to],
        ["pipeline", "vacuum", to, "--older-than", "0", "--yes"],
        ["pipeline", "history", to],
        ["pipeline", "erase", to, "--url", store.url, "--yes"],
        ["pipeline", "reset", to, "--rebuild", "--table", STORE_TYPES[1], "--yes"],
        killed.line,
        where,
    ):
        done = command(*more)
        assert done.code == 0, (more, done.out, done.err)
        assert SECRET not in done.out + done.err
    assert "reconciled" in done.out


@pytest.mark.killed_lake("bucket iceberg upsert")
def test_a_killed_upsert_loses_and_revives_nothing_in_iceberg_tables_of_a_bucket(
    killed_lakes: KilledLakes,
    spark: Any,
    command: Command,
    bucket: str,
    object_store: ObjectStore,
    postgres_url: str,
    tmp_path: Path,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = killed_lakes["bucket iceberg upsert"]
    store, killed = lake.store, Killed(lake, postgres_url, tmp_path)
    for each in budget("pipeline.bucket_iceberg_kill"):
        killed.round(bucket, each.number, each.seed)
        done = command(*killed.line)
        assert done.code == 0, done.err
        found: dict[str, dict[str, bytes]] = {}
        for name in TYPES:
            read = read_back(killed.to / name, ["key", "value", "deleted"], object_store)
            assert len({key for key, _, _ in read}) == len(read), "a key is there twice"
            found[name] = {key.decode(): value for key, value, deleted in read if not deleted}
        assert found == expected(store)
    assert killed.kills > each.number
    counted = command("reconcile", "--url", store.url, "--topic", TOPIC, "--lake", str(killed.to))
    assert counted.code == 0, counted.out + counted.err

    store.outbox.log.append(TOPIC, a_history(RECORDS_PER_BATCH, 4))
    killed.other_sink(AppendingIcebergSink, spark, command, monkeypatch)
    twice = rows(killed.to, ["type", "key"])
    assert len({(row["type"], row["key"]) for row in twice}) < len(twice)
