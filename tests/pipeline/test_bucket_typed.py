"""Typed lakes and pipelines of one's own into a bucket, through the command: Delta and Iceberg tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.kinds import kind_of, table_at
from penstock.pipeline.storage import Location, location
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_run_modes import counts
from tests.pipeline.test_typed_lake import PLACED, an_event

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def rows(table: Location, columns: list[str]) -> list[tuple[Any, ...]]:
    found = [row for batch in table_at(table).batches(columns) for row in batch.to_pylist()]
    return sorted((tuple(row[name] for name in columns) for row in found), key=repr)


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_typed_tables_and_a_pipeline_of_ones_own_go_to_a_bucket(
    sqlite_store: LogStore,
    command: Command,
    bucket: str,
    tmp_path: Path,
    format_: str,
    request: pytest.FixtureRequest,
) -> None:
    log, lake, counted = sqlite_store.outbox.log, location(f"{bucket}/lake"), location(f"{bucket}/counted")
    more = ["--url", sqlite_store.url, "--topic", TOPIC, "--once", "--format", format_]
    if format_ == "iceberg":
        more += ["--catalog", request.getfixturevalue("postgres_url")]

    def typed(types: str) -> None:
        named = ["--types", f"tests.pipeline.typed_shop:{types}", "--to", str(lake)]
        done = command("pipeline", "lake", *named, "--checkpoint", str(tmp_path / "lake"), *more)
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
    counted_all = command("reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(lake))
    assert counted_all.code == 0, counted_all.out + counted_all.err

    for folder, many in (("first", 100), ("first", 50)):  # state goes on with its own checkpoint
        sqlite_store.fill(many)
        words = [
            "tests.pipeline.test_run_modes:counted",
            "--to",
            str(counted),
            "--mode",
            "upsert",
            "--key",
            "who",
        ]
        done = command("pipeline", "run", *words, "--checkpoint", str(tmp_path / folder), *more)
        assert done.code == 0, done.err
        assert dict(rows(counted, ["who", "many"])) == counts(sqlite_store)
    assert kind_of(counted).__name__ == ("IcebergTable" if format_ == "iceberg" else "LakeTable")
