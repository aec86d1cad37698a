"""A typed lake and a pipeline of one's own into a bucket, through the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.storage import Location, location
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_run_modes import counts
from tests.pipeline.test_typed_lake import PLACED, an_event

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def rows(table: Location, columns: list[str]) -> list[tuple[Any, ...]]:
    found = [row for batch in table_at(table).batches(columns) for row in batch.to_pylist()]
    return sorted((tuple(row[name] for name in columns) for row in found), key=repr)


def test_typed_delta_tables_and_the_results_of_a_query_as_an_iceberg_table(
    sqlite_store: LogStore, command: Command, bucket: str, postgres_url: str, tmp_path: Path
) -> None:
    log, lake, counted = sqlite_store.outbox.log, location(f"{bucket}/lake"), location(f"{bucket}/counted")
    where = ["--url", sqlite_store.url, "--topic", TOPIC, "--once"]

    def typed(types: str) -> None:
        named = ["--types", f"tests.pipeline.typed_shop:{types}", "--to", str(lake)]
        done = command("pipeline", "lake", *named, "--checkpoint", str(tmp_path / "lake"), *where)
        assert done.code == 0, done.err

    log.append(TOPIC, [an_event("order.placed", PLACED), an_event("order.placed", {"order_id": "no more"})])
    typed("outbox")
    fields = {"note": "new", "lines": ["a"], "customer": {"name": "n", "vip": True}, "order_id": "later"}
    log.append(TOPIC, [an_event("order.placed", PLACED | fields), an_event("order.paid", b"{", key="k-1")])
    typed("later")  # the same types with new fields: columns come to a table in a bucket
    found = rows(lake / "order.placed", ["order_id", "note", "lines", "customer"])
    assert found == [
        ("later", "new", ["a"], {"name": "n", "vip": True}),
        ("ö-1", None, None, {"name": "Zoë 😀", "vip": None}),
    ]
    assert [reason for (reason,) in rows(lake / "rejected", ["reason"])][-1] == "total: missing"
    compared = command("reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(lake))
    assert compared.code == 0, compared.out + compared.err

    words = ["tests.pipeline.test_run_modes:counted", "--to", str(counted), "--mode", "upsert", "--key", "who"]
    words += ["--format", "iceberg", "--catalog", postgres_url, "--checkpoint", str(tmp_path / "counted")]
    for many in (100, 50):  # the second run goes on with the state of the first
        sqlite_store.fill(many)
        done = command("pipeline", "run", *words, *where)
        assert done.code == 0, done.err
        assert dict(rows(counted, ["who", "many"])) == counts(sqlite_store)


def test_a_declared_pipeline_into_a_delta_table_in_a_bucket(
    sqlite_store: LogStore, command: Command, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bucket_pipelines.py").write_text(
        "from penstock.pipeline import pipeline\n\n\n"
        f'@pipeline(source="{TOPIC}", sink="{bucket}/placed", partition_by="day(timestamp)")\n'
        "def placed(events):\n"
        "    return events.where(\"type = 'order.placed'\").selectExpr('partition', 'offset', 'timestamp')\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["pipeline", "run", "bucket_pipelines:placed", "--url", sqlite_store.url, "--once"]
    bare = command(*words)
    assert bare.code == 2
    assert "Missing option '--checkpoint'" in bare.err
    for checkpoint in ("one", "two"):  # the first is lost, and the table says where it goes on
        sqlite_store.fill(30)
        done = command(*words, "--checkpoint", str(tmp_path / checkpoint))
        assert done.code == 0, done.err
        placed = [place for place, each in sqlite_store.records().items() if each.type == "order.placed"]
        assert rows(location(f"{bucket}/placed"), ["partition", "offset"]) == sorted(placed, key=repr)
    assert table_at(location(f"{bucket}/placed")).partition_columns() == ["timestamp_day"]
