"""`--format iceberg` through the command, with kill -9 of the driver around a table's commit.

Nothing is lost, doubled or revived; without the look whether a table holds the batch records are doubled, and
without the merge keys are there twice.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline import formats as sinks
from penstock.pipeline import register
from penstock.pipeline.lake.paths import tables_in
from tests.pipeline.conftest import Command
from tests.pipeline.histories import TYPES, expected
from tests.pipeline.killed_lakes import KilledLake, KilledLakes, words
from tests.pipeline.killing import AppendingIcebergSink, UncheckedIcebergSink
from tests.pipeline.stores import TOPIC, LogStore, row_of
from tests.pipeline.test_iceberg import loaded, read_back
from tests.pipeline.test_kill import die_at_random
from tests.services.budget import Budget

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def places(to: Path) -> list[tuple[int, int]]:
    return sorted(place for table in tables_in(to) for place in read_back(table, ["partition", "offset"]))


def rows(to: Path) -> list[dict[str, Any]]:
    return [row for table in tables_in(to) for row in loaded(table).scan().to_arrow().to_pylist()]


def live(to: Path) -> dict[str, dict[str, bytes]]:
    """Return the latest value of each key by type, as three readers say."""
    found: dict[str, dict[str, bytes]] = {}
    for name in TYPES:
        read = read_back(to / name, ["key", "value", "deleted"])
        assert len({key for key, _, _ in read}) == len(read), "a key is there twice"
        found[name] = {key.decode(): value for key, value, deleted in read if not deleted}
    return found


def check_rows(store: LogStore, to: Path) -> None:
    """Compare every row with the log, column by column."""
    assert places(to) == sorted(store.records())
    found = {(row["partition"], row["offset"]): row for row in rows(to)}
    for place, record in store.records().items():
        wanted = row_of(record)
        wanted["headers"] = [dict(each) for each in wanted["headers"]]
        row = found[place]
        assert {**row, "timestamp": int(row["timestamp"].timestamp() * 1000)} == wanted


def place(killed: KilledLake, folder: Path, number: int, seed: int) -> tuple[Path, int]:
    """Return the lake of a round and how often its driver was killed; after the first round, at random."""
    if number == 1:
        return killed.folder, 2
    rng, to = random.Random(seed), folder / str(number) / "lake"
    return to, sum(die_at_random(killed.store, to, rng, killed.more) for _ in range(rng.randint(1, 2)))


def without(
    sink: type, to: Path, spark: Any, command: Command, line: list[str], monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """Return what a lake that was cut short holds after a run by another sink; then it is as it was."""
    shutil.copytree(to, to.with_name("saved"))
    with monkeypatch.context() as patch:
        patch.setattr(sinks, "IcebergSink", sink)
        done = command(*line)
    register(spark)
    assert done.code == 0, done.err
    found = rows(to)
    shutil.rmtree(to)
    to.with_name("saved").rename(to)
    return found


@pytest.mark.killed_lake("iceberg append")
def test_a_killed_command_loses_and_doubles_nothing_in_iceberg_tables(
    killed_lakes: KilledLakes,
    spark: Any,
    command: Command,
    tmp_path: Path,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed, kills = killed_lakes["iceberg append"], 0
    store = killed.store
    for each in budget("pipeline.iceberg_kill"):
        to, many = place(killed, tmp_path, each.number, each.seed)
        line = [*words(store, to), *killed.more]
        kills += many
        if each.number == 1:
            doubled = without(UncheckedIcebergSink, to, spark, command, line, monkeypatch)
            assert len(doubled) > len(store.records())
        done = command(*line)
        assert done.code == 0, done.err
        check_rows(store, to)
    assert kills > each.number

    look_after(store, to, command, line)


def look_after(store: LogStore, to: Path, command: Command, line: list[str]) -> None:
    """Join, vacuum, count, make a table again: everything is there still."""
    where = ["--url", store.url, "--topic", TOPIC, "--lake", str(to)]
    for more in (
        ["pipeline", "optimize", str(to)],
        ["pipeline", "vacuum", str(to), "--older-than", "0", "--yes"],
        ["pipeline", "history", str(to)],
        ["reconcile", *where],
        ["pipeline", "reset", str(to), "--rebuild", "--table", "order.paid", "--yes"],
        line,
        ["reconcile", *where],
    ):
        done = command(*more)
        assert done.code == 0, (more, done.out, done.err)
    check_rows(store, to)
    refused = command(*line[: line.index("--format")])
    assert refused.code == 2
    assert "iceberg, as the tables in" in refused.err


@pytest.mark.killed_lake("iceberg upsert")
def test_a_killed_upsert_loses_and_revives_nothing_in_iceberg_tables(
    killed_lakes: KilledLakes,
    spark: Any,
    command: Command,
    tmp_path: Path,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed, kills = killed_lakes["iceberg upsert"], 0
    store = killed.store
    for each in budget("pipeline.iceberg_kill"):
        to, many = place(killed, tmp_path, each.number, each.seed)
        line = [*words(store, to), *killed.more]
        kills += many
        if each.number == 1:
            twice = without(AppendingIcebergSink, to, spark, command, line, monkeypatch)
            assert len({(row["type"], row["key"]) for row in twice}) < len(twice)
        done = command(*line)
        assert done.code == 0, done.err
        assert live(to) == expected(store)
    assert kills > each.number
    counted = command("reconcile", "--url", store.url, "--topic", TOPIC, "--lake", str(to))
    assert counted.code == 0, counted.out + counted.err
