"""`--mode upsert` through the command: the latest row of each key, also after kills, growth and replays."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from penstock import Record
from penstock.pipeline import formats
from penstock.testing.records import a_record
from tests.pipeline.conftest import Command
from tests.pipeline.killing import RECORDS_PER_BATCH, AppendingSink
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_kill import AFTER, BEFORE, die, die_at_random
from tests.pipeline.test_kill import words as append_words
from tests.services.budget import Budget

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
TYPES = ("order", "item")


def words(store: LogStore, to: Path) -> list[str]:
    return [*append_words(store, to), "--mode", "upsert", "--key", "key"]


def a_history(many: int, seed: int, first: int = 0) -> list[Record]:
    """Return changes of some keys, some of which are deleted, perhaps to come again."""
    rng = random.Random(seed)
    return [
        a_record(
            key=f"k-{rng.randint(0, 30)}",
            type=rng.choice(TYPES),
            data=None if rng.random() < 0.2 else json.dumps({"n": n}).encode(),
        )
        for n in range(first, first + many)
    ]


def expected(store: LogStore) -> dict[str, dict[str, bytes]]:
    """Return the latest value of each key by type, computed in the plainest way from the log."""
    last: dict[tuple[str, str], tuple[int, int, bytes | None]] = {}
    for (partition, offset), record in store.records().items():
        if record.key is None:
            continue  # it is rejected
        where = (record.type or "", record.key)
        last[where] = max(
            last.get(where, (-1, -1, None)), (partition, offset, record.data), key=lambda each: each[:2]
        )
    found: dict[str, dict[str, bytes]] = {name: {} for name in TYPES}
    for (type_name, key), (_, _, data) in last.items():
        if data is not None and type_name in found:
            found[type_name][key] = data
    return found


def live(to: Path) -> dict[str, dict[str, bytes]]:
    """Return what the tables hold without tombstones, as deltalake, DuckDB and Polars all say."""
    found = {}
    for name in TYPES:
        table = DeltaTable(str(to / name)).to_pyarrow_table()
        by_deltalake = [
            (row["key"].decode(), row["value"]) for row in table.to_pylist() if not row["deleted"]
        ]
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


def test_a_killed_upsert_loses_nothing_and_revives_nothing_and_without_the_merge_it_does(
    sqlite_store: LogStore,
    spark: Any,
    command: Command,
    tmp_path: Path,
    budget: Budget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sqlite_store.outbox.log.append(TOPIC, a_history(RECORDS_PER_BATCH * 3, 3))
    more, kills = ["--mode", "upsert"], 0
    for each in budget("pipeline.upsert_kill"):
        to = tmp_path / str(each.number) / "lake"
        if each.number == 1:
            die(sqlite_store, to, BEFORE, 1, more)
            die(sqlite_store, to, AFTER, 1, more)
            kills += 2
            shutil.copytree(to, tmp_path / "control")
        else:
            rng = random.Random(each.seed)
            for _ in range(rng.randint(1, 2)):
                kills += die_at_random(sqlite_store, to, rng, more)
        done = command(*words(sqlite_store, to))
        assert done.code == 0, done.err
        assert live(to) == expected(sqlite_store)
    assert kills > each.number

    with monkeypatch.context() as patch:
        patch.setattr(formats, "DeltaSink", AppendingSink)  # files are added, nothing is merged
        done = command(*words(sqlite_store, tmp_path / "control"))
    formats.register(spark)
    assert done.code == 0, done.err
    rows = [
        row
        for name in TYPES
        for row in DeltaTable(str(tmp_path / "control" / name)).to_pyarrow_table().to_pylist()
    ]
    assert len({(row["type"], row["key"]) for row in rows}) < len(rows)
