"""`--mode upsert` through the command: the latest row of each key, also after kills, growth and replays."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from penstock.pipeline import formats as sinks
from penstock.pipeline import register
from tests.pipeline.conftest import Command
from tests.pipeline.histories import TYPES, a_history, expected
from tests.pipeline.killed_lakes import KilledLakes
from tests.pipeline.killed_lakes import words as append_words
from tests.pipeline.killing import AppendingSink
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_kill import die_at_random
from tests.services.budget import Budget
from tests.suites.records import a_record

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def words(store: LogStore, to: Path) -> list[str]:
    return [*append_words(store, to), "--mode", "upsert", "--key", "key"]


def live(to: Path) -> dict[str, dict[str, bytes]]:
    """Return what the tables hold without tombstones, as deltalake, DuckDB and Polars all say."""
    found = {}
    for name in TYPES:
        table = DeltaTable(str(to / name)).to_pyarrow_table()
        by_deltalake = [(row["key"].decode(), row["value"]) for row in table.to_pylist() if not row["deleted"]]
        by_duckdb = duckdb.from_arrow(table).filter("NOT deleted").select("key", "value").fetchall()
        frame = polars.read_delta(str(to / name)).filter(~polars.col("deleted"))
        assert sorted(by_deltalake) == sorted((key.decode(), value) for key, value in by_duckdb)
        assert sorted(by_deltalake) == sorted(
            (key.decode(), value) for key, value in frame.select("key", "value").rows()
        )
        assert len(dict(by_deltalake)) == len(by_deltalake), "a key is there twice"
        found[name] = dict(by_deltalake)
    return found


def test_the_tables_hold_the_latest_row_of_each_key_after_every_run_also_when_the_topic_grows(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    log, to = sqlite_store.outbox.log, tmp_path / "lake"
    log.append(TOPIC, a_history(250, 1))
    log.append(TOPIC, [a_record(key=None, type="order", data=b"{}")])
    log.append(TOPIC, [a_record(key="k", type="", data=data) for data in (b"1", b"2")])
    done = command(*words(sqlite_store, to))
    assert done.code == 0, done.err
    assert live(to) == expected(sqlite_store)
    (keyless,) = DeltaTable(str(to / "rejected")).to_pyarrow_table().to_pylist()
    assert keyless["reason"] == "the record has no key, so it cannot be upserted"
    (untyped,) = DeltaTable(str(to / TOPIC)).to_pyarrow_table().to_pylist()
    assert untyped["value"] == b"2"

    grown = command("topics", "grow", TOPIC, "--partitions", "16", "--url", sqlite_store.url)
    assert grown.code == 0, grown.err
    log.append(TOPIC, a_history(250, 2, 1_000))
    done = command(*words(sqlite_store, to))
    assert done.code == 0, done.err
    assert live(to) == expected(sqlite_store)
    counted = command("reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(to))
    assert counted.code == 0, counted.out + counted.err
    assert " superseded=" in counted.out


@pytest.mark.killed_lake("upsert")
def test_a_killed_upsert_loses_nothing_and_revives_nothing_and_without_the_merge_it_does(
    killed_lakes: KilledLakes,
    spark: Any,
    command: Command,
    tmp_path: Path,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed = killed_lakes["upsert"]
    store, more, kills = killed.store, killed.more, 0
    shutil.copytree(killed.folder, tmp_path / "control")
    for each in budget("pipeline.upsert_kill"):
        to = killed.folder
        if each.number == 1:
            kills += 2
        else:
            to = tmp_path / str(each.number) / "lake"
            rng = random.Random(each.seed)
            for _ in range(rng.randint(1, 2)):
                kills += die_at_random(store, to, rng, more)
        done = command(*words(store, to))
        assert done.code == 0, done.err
        assert live(to) == expected(store)
    assert kills > each.number

    with monkeypatch.context() as patch:
        patch.setattr(sinks, "DeltaSink", AppendingSink)  # files are added, nothing is merged
        done = command(*words(store, tmp_path / "control"))
    register(spark)
    assert done.code == 0, done.err
    rows = [
        row for name in TYPES for row in DeltaTable(str(tmp_path / "control" / name)).to_pyarrow_table().to_pylist()
    ]
    assert len({(row["type"], row["key"]) for row in rows}) < len(rows)
