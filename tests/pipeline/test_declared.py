"""Pipelines as code: what is declared beside a function holds, and the command's options win."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock.errors import InvalidPipeline
from penstock.gateway.exposition import exposition
from penstock.metrics import SERIES
from penstock.pipeline import BatchId, Pipeline, pipeline
from penstock.pipeline.lake_state import reader_name
from tests.pipeline.conftest import Command
from tests.pipeline.stores import LogStore

MODULE = """
import json
from pathlib import Path

from penstock.pipeline import pipeline

FOLDER = Path(__file__).parent


@pipeline(source="orders", sink=str(FOLDER / "plain"))
def plain(events):
    return events.selectExpr("type", "partition", "offset")


@pipeline(source="orders", sink="topic:copies", folder=str(FOLDER / "copying"))
def copying(events):
    return events.selectExpr("key", "concat(partition, '/', offset) AS value")


@pipeline(source="orders", sink=str(FOLDER / "pushed"), each_batch=True)
def pushing(batch, identity):
    rows = batch.selectExpr("key", "concat(partition, '/', offset) AS value")
    url = json.loads((FOLDER / "url.json").read_text())
    for _ in range(2):  # as if it had been run again
        writer = rows.write.format("penstock").mode("append").options(url=url, topic="pushed")
        writer.options(**identity.options("pushed")).save()


@pipeline(source="orders")
def nowhere(events):
    return events
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a module with pipelines, in the folder where the command runs."""
    (tmp_path / "shop_pipelines.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield "shop_pipelines"
    sys.modules.pop("shop_pipelines", None)


def test_a_declared_pipeline_is_its_function_and_knows_its_places() -> None:
    @pipeline(source="orders", sink="./revenue", mode="upsert", key="a, b")
    def revenue(events: Any) -> Any:
        return events

    assert isinstance(revenue, Pipeline)
    assert (revenue.name, revenue.source, revenue.folder, revenue.key) == (
        "revenue",
        "orders",
        "./revenue",
        ("a", "b"),
    )
    assert revenue(3) == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sink": "topic:"}, "names no topic"),
        ({"sink": "topic:a", "mode": "upsert"}, "a topic takes rows as they come"),
        ({"sink": "topic:a", "each_batch": True}, "a topic takes rows as they come"),
        ({"sink": "./a", "folder": "./b"}, "leave folder out"),
        ({"sink": "./a", "each_batch": True, "partition_by": "day(timestamp)"}, "it writes itself"),
    ],
)
def test_what_cannot_be_declared_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidPipeline, match=said):
        pipeline(**given)(lambda events: events)


def test_writes_of_a_batch_have_names_of_their_own() -> None:
    first, second = (BatchId("spark/q", 3).options(name) for name in ("a", "b"))
    assert first == {"txnAppId": "spark/q/a", "txnVersion": "3"}
    assert first != second


def test_a_pipeline_without_a_folder_needs_one(
    sqlite_store: LogStore, penstock: Command, module: str
) -> None:
    done = penstock("pipeline", "run", f"{module}:nowhere", "--url", sqlite_store.url)
    assert (done.code, "--to" in done.err) == (2, True)
    done = penstock(
        "pipeline", "run", f"{module}:copying", "--url", sqlite_store.url, "--mode", "upsert", "--key", "a"
    )
    assert (done.code, "--mode is for a pipeline into a table" in done.err) == (2, True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_declared_pipelines_run_by_their_names(
    sqlite_store: LogStore, command: Command, module: str, tmp_path: Path
) -> None:
    """Into a table, into a topic, and batch by batch, each record once."""
    store, log = sqlite_store, sqlite_store.outbox.log
    store.fill(250)
    (tmp_path / "url.json").write_text(json.dumps(store.url))
    wanted = sorted(f"{partition}/{offset}" for partition, offset in store.records())
    words = ["--url", store.url, "--once", "--batch-records", "100"]
    done = command("pipeline", "run", f"{module}:plain", *words, "--http", "127.0.0.1:0")
    assert done.out == "done: 250 rows in 3 batches\n", done.err
    assert "http listening on 127.0.0.1:" in done.err
    name = reader_name(tmp_path / "plain")
    counted = 'penstock_pipeline_records_total{pipeline="' + name + '"} 250'
    assert counted in exposition(SERIES)
    assert len(DeltaTable(tmp_path / "plain").to_pyarrow_table()) == 250
    for name, topic in (("copying", "copies"), ("pushing", "pushed")):
        log.create_topic(topic, partitions=4)
        done = command("pipeline", "run", f"{module}:{name}", *words)
        assert done.code == 0, done.err
        found = [each.data for p in range(4) for each in log.read(topic, p, 0, 10_000)]
        assert sorted((each or b"").decode() for each in found) == wanted
