"""Pipelines as code: what is declared beside a function holds, and the command's options win."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock.database.naming import Names
from penstock.errors import InvalidPipeline, RecordsRemoved
from penstock.gateway.exposition import exposition
from penstock.log.contract import OffsetRange
from penstock.metrics import SERIES
from penstock.pipeline import BatchId, Pipeline, pipeline
from penstock.pipeline.backfill import TopicRecords
from penstock.pipeline.lake.state import reader_name
from penstock.pipeline.offsets import Piece
from tests.kafka.served import Served
from tests.pipeline.conftest import Command
from tests.pipeline.read_back import read_back
from tests.pipeline.stores import PARTITIONS, LogStore
from tests.pipeline.worker_pipelines import noted
from tests.suites.records import a_record


def test_a_declared_pipeline_is_its_function_and_knows_its_places() -> None:
    @pipeline(source="orders", sink="./revenue", mode="upsert", key="a, b")
    def revenue(events: Any) -> Any:
        return events

    assert isinstance(revenue, Pipeline)
    assert (revenue.name, revenue.source, revenue.folder, revenue.key) == ("revenue", "orders", "./revenue", ("a", "b"))
    assert revenue(3) == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sink": "topic:"}, "names no topic"),
        ({"sink": "topic:a", "mode": "upsert"}, "a topic takes rows as they come"),
        ({"sink": "topic:a", "each_batch": True}, "a topic takes rows as they come"),
        ({"sink": "./a", "folder": "./b"}, "leave folder out"),
        ({"sink": "./a", "each_batch": True, "partition_by": "day(timestamp)"}, "it writes itself"),
        ({"sink": "./a", "each_record": True, "mode": "upsert", "key": "a"}, "it writes itself"),
        ({"sink": "./a", "each_record": True, "each_batch": True}, "batches or records"),
        ({"sink": "topic:a", "each_record": True}, "a topic takes rows as they come"),
    ],
)
def test_what_cannot_be_declared_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidPipeline, match=said):
        pipeline(**given)(lambda events: events)


def test_a_function_for_records_cannot_be_async() -> None:
    async def handle(record: Any) -> None: ...

    with pytest.raises(InvalidPipeline, match="cannot be async"):
        pipeline(each_record=True)(handle)


def test_a_pipeline_travels_by_name_and_a_nameless_one_as_it_is() -> None:
    assert pickle.loads(pickle.dumps(noted)) is noted
    nameless = pipeline(source="a", sink="./a")(len)
    found = pickle.loads(pickle.dumps(nameless))
    assert (found.name, found.source, found([1])) == ("len", "a", 1)


def test_writes_of_a_batch_have_names_of_their_own() -> None:
    first, second = (BatchId("spark/q", 3).options(name) for name in ("a", "b"))
    assert first == {"txnAppId": "spark/q/a", "txnVersion": "3"}
    assert first != second


def test_a_pipeline_without_a_folder_needs_one(sqlite_store: LogStore, penstock: Command, module: str) -> None:
    done = penstock("pipeline", "run", f"{module}:nowhere", "--url", sqlite_store.url)
    assert (done.code, "--to" in done.err) == (2, True)
    done = penstock("pipeline", "run", f"{module}:copying", "--url", sqlite_store.url, "--mode", "upsert", "--key", "a")
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


def calls_in(folder: Path) -> list[Any]:
    """Return what the function was called with, in the order of time."""
    lines = [line for file in folder.glob("calls-*") for line in file.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda call: call[-1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_records_are_handed_out_in_order_for_each_key_and_again_only_marked(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    """A process that runs the function dies of kill -9 in the middle of a batch."""
    body = {"to": str(tmp_path)}
    sqlite_store.fill(150, data=json.dumps(body).encode())
    sqlite_store.fill(1, data=json.dumps(body | {"dies": True}).encode(), key="k-3")
    sqlite_store.fill(149, data=json.dumps(body).encode())
    words = ["--url", sqlite_store.url, "--to", str(tmp_path / "handled"), "--once", "--batch-records", "100"]
    done = command("pipeline", "run", "tests.pipeline.worker_pipelines:noted", *words)
    assert done.code == 0, done.err
    assert "a Python worker was lost; retrying" in done.err
    records, calls = sqlite_store.records(), calls_in(tmp_path)
    assert {(call[1], call[2]) for call in calls} == records.keys()
    assert all(records[call[1], call[2]].id == call[3] for call in calls)
    seen, last = set[tuple[int, int]](), dict[tuple[int, bool], int]()
    for _, partition, offset, _, redelivered, _ in calls:
        assert redelivered or (partition, offset) not in seen, "a repeat is marked"
        assert offset > last.get((partition, redelivered), -1), "the records of a partition come in order"
        seen.add((partition, offset))
        last[partition, redelivered] = offset
    marked = sum(call[4] for call in calls)
    assert 0 < len(calls) - len(records) <= marked <= 100, "no more than a batch comes again"
    assert len({call[0] for call in calls}) > 30


@pytest.fixture(params=["sqlite", "kafka"])
def listed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[TopicRecords, Callable[[], object]]]:
    """Give the records of a topic, with ten or more in partition 0, and retention that takes four of them."""
    if request.param == "kafka":
        with Served(f"file://{tmp_path}/log") as served:
            served.topic("orders", 1)
            log = served.store.log
            log.append("orders", [a_record(data=b"{}") for _ in range(10)])
            yield (
                TopicRecords(f"kafka://{served.address}", Names(), "orders"),
                lambda: log.trim(log.topic("orders"), [OffsetRange(0, 0, 4)]),
            )
        return
    store: LogStore = request.getfixturevalue("sqlite_store")
    store.fill(200)
    yield TopicRecords(store.url, Names(), "orders"), lambda: store.expire(0, 4)


def test_records_that_retention_takes_after_they_were_listed_are_not_skipped_silently(
    listed: tuple[TopicRecords, Callable[[], object]], caplog: pytest.LogCaptureFixture
) -> None:
    topic, take = listed
    take()
    with pytest.raises(RecordsRemoved, match="no longer holds partition 0: 1 to before 4,"):
        list(topic.read(iter([Piece(0, 1, 8)])))
    assert [record.offset for record in topic.read(iter([Piece(0, 4, 8)]))] == [4, 5, 6, 7]
    allowed = replace(topic, fail_on_loss=False)
    assert [record.offset for record in allowed.read(iter([Piece(0, 1, 8)]))] == [4, 5, 6, 7]
    assert "no longer holds partition 0: 1 to before 4; going on without them" in caplog.text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_backfill_that_retention_overtakes_ends_with_what_it_did_not_hand_out(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    body = {"to": str(tmp_path), "takes": [PARTITIONS - 1, 2]}
    sqlite_store.fill(200, data=json.dumps(body).encode())
    wanted = {place for place in sqlite_store.records() if place[0] < PARTITIONS - 1 or place[1] >= 2}
    words = ["--url", sqlite_store.url, "--to", str(tmp_path / "handled"), "--once"]
    done = command("pipeline", "run", "tests.pipeline.worker_pipelines:overtaken", *words)
    assert done.code == 1, done.err
    assert f"no longer holds partition {PARTITIONS - 1}: 0 to before 2" in done.err
    assert "--allow-loss" in done.err
    done = command("pipeline", "run", "tests.pipeline.worker_pipelines:overtaken", *words, "--allow-loss")
    assert done.code == 0, done.err
    handed = (tmp_path / "handed").read_text().splitlines()
    assert {tuple(json.loads(line)) for line in handed} == wanted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_state_of_its_own_and_deduplication_go_on_in_the_next_run(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    for number in range(2):
        sqlite_store.fill(120, timestamp_ms=1_700_000_000_000 + number)
        sqlite_store.fill(20, data=b'"again"', timestamp_ms=1_700_000_000_000 + number)
        for name in ("counted", "deduplicated"):
            where = ["--url", sqlite_store.url, "--to", str(tmp_path / name), "--once"]
            done = command("pipeline", "run", f"tests.pipeline.worker_pipelines:{name}", *where)
            assert done.code == 0, done.err
    records = sqlite_store.records().values()
    found: dict[str, int] = {}
    for key, many in read_back(tmp_path / "counted", ["key", "many"]):
        found[key] = max(many, found.get(key, 0))
    assert found == Counter(record.key for record in records if record.key is not None)
    values = [value for (value,) in read_back(tmp_path / "deduplicated", ["value"])]
    assert sorted(values) == sorted({record.data.decode() for record in records if record.data is not None})
    for name in ("counted", "deduplicated"):
        state = tmp_path / name / "_penstock" / "checkpoint" / "state"
        assert {file.suffix for file in state.rglob("*") if file.is_file()} & {".zip", ".changelog"}, "RocksDB"
