"""A pipeline is a reader with a name: it holds retention back, and moves when the tables have moved."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import pipeline_course
from penstock.errors import AnotherLog, SparkNotStarted, TableMissing
from penstock.pipeline.lake.state import reader_name, remember, reset
from penstock.pipeline.offsets import Piece
from penstock.pipeline.progress import Progress
from penstock.pipeline.query import Job
from penstock.pipeline.reader import PipelineReader
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, TYPES, LogStore
from tests.pipeline.test_continue import Driver


def a_job(store: LogStore, tmp_path: Path, starting: str = "earliest") -> Job:
    return Job(url=store.url, topic=TOPIC, to=tmp_path / "lake", starting=starting)


def held(store: LogStore) -> dict[str, dict[int, int]]:
    return store.outbox.log.holds(store.outbox.log.topic(TOPIC))


def test_it_holds_what_its_tables_do_not_have_yet(store: LogStore, tmp_path: Path) -> None:
    store.fill(100)
    reader = PipelineReader(a_job(store, tmp_path))
    assert reader.name.startswith("lake-")
    reader.begin()
    assert held(store) == {reader.name: dict.fromkeys(range(8), 0)}
    batch = Driver(store, tmp_path / "lake", tmp_path / "one").step()
    store.fill(50)
    reader.moved(batch.ends)
    assert held(store) == {reader.name: batch.ends}
    again = PipelineReader(a_job(store, tmp_path))
    again.begin()
    assert held(store) == {reader.name: batch.ends}


def test_its_name_stays_when_the_checkpoint_is_forgotten(sqlite_store: LogStore, tmp_path: Path) -> None:
    to = tmp_path / "lake"
    first = reader_name(to)
    sqlite_store.fill(10)
    Driver(sqlite_store, to, tmp_path / "one").step()
    reset(to, rebuild=True)
    assert reader_name(to) == first
    assert reader_name(tmp_path / "other" / "lake") != first


def test_a_table_that_knows_no_offsets_leaves_the_place_as_it_was(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(10)
    reader = PipelineReader(a_job(sqlite_store, tmp_path, "latest"))
    reader.moved(dict.fromkeys(range(8), 0))
    reader.begin()
    assert set(held(sqlite_store)[reader.name].values()) == {0}


def test_a_setting_frees_retention(sqlite_store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PipelineReader(a_job(sqlite_store, tmp_path)).begin()
    assert held(sqlite_store)
    monkeypatch.setenv("PENSTOCK_PIPELINE_HOLD_RETENTION", "false")
    PipelineReader(a_job(sqlite_store, tmp_path)).begin()
    assert held(sqlite_store) == {}


def test_a_role_that_may_only_read_is_told_once_and_goes_on(
    sqlite_store: LogStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sqlite_store.run("CREATE TRIGGER no BEFORE INSERT ON penstock_hold BEGIN SELECT RAISE(ABORT, 'denied'); END")
    reader = PipelineReader(a_job(sqlite_store, tmp_path))
    with caplog.at_level(logging.WARNING, "penstock.pipeline"):
        reader.begin()
        reader.begin()
    assert [record.message for record in caplog.records] == [
        f"retention does not wait for pipeline {reader.name}: denied"
    ]


def test_what_is_wrong_from_the_start_is_said_before_anything_is_held(sqlite_store: LogStore, tmp_path: Path) -> None:
    to = tmp_path / "lake"
    sqlite_store.fill(30)
    Driver(sqlite_store, to, tmp_path / "one").step()
    remember(to, TYPES[:2])
    foreign = LogStore(f"sqlite:///{tmp_path}/foreign.db")
    with pytest.raises(AnotherLog):
        PipelineReader(a_job(foreign, tmp_path)).begin()
    shutil.rmtree(to / TYPES[0])
    with pytest.raises(TableMissing):
        PipelineReader(a_job(sqlite_store, tmp_path)).begin()
    assert held(foreign) == held(sqlite_store) == {}
    foreign.close()


def test_a_start_that_failed_leaves_no_reader_behind(
    sqlite_store: LogStore, penstock: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But one that has started once, or whose tables are there, stays."""
    sqlite_store.fill(10)
    monkeypatch.setattr(pipeline_course, "session", no_spark)
    where = ["--url", sqlite_store.url, "--topic", TOPIC, "--to", str(tmp_path / "lake")]
    assert penstock("pipeline", "lake", *where).code == 1
    assert held(sqlite_store) == {}
    Driver(sqlite_store, tmp_path / "lake", tmp_path / "one").step()
    assert penstock("pipeline", "lake", *where).code == 1
    assert list(held(sqlite_store)) == [reader_name(tmp_path / "lake")]


def no_spark(*_: object, **__: object) -> Any:
    raise SparkNotStarted("it is hidden from this test", "no file")


def test_what_waits_behind_a_batch_is_asked_where_spark_does_not_say_it(store: LogStore, tmp_path: Path) -> None:
    store.fill(100)
    reader = PipelineReader(a_job(store, tmp_path))
    ends = dict.fromkeys(range(8), 2)
    assert reader.waiting(Progress(0, 16, 1.0, 1.0, None, ends)) == 84
    assert reader.waiting(Progress(0, 16, 1.0, 1.0, 7, ends)) == 7
    away = PipelineReader(Job(url="sqlite:////nowhere/shop.db", topic=TOPIC, to=tmp_path / "lake"))
    assert away.waiting(Progress(0, 16, 1.0, 1.0, None, ends)) is None


def test_what_a_batch_lacks_is_told_once_if_loss_is_allowed(
    store: LogStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.fill(100)
    reader = PipelineReader(replace(a_job(store, tmp_path), fail_on_loss=False))
    reader.begin()
    store.expire(0, 2)
    pieces = Piece(0, 0, 4), Piece(1, 0, 4)
    with caplog.at_level(logging.WARNING, "penstock.pipeline"):
        reader.tell(Progress(0, 8, 1.0, 1.0, None, pieces=pieces))
        assert caplog.records == [], "it was there when the batch was read"
        for _ in range(2):
            reader.tell(Progress(0, 6, 1.0, 1.0, None, pieces=pieces))
        store.expire(0, 3)
        reader.tell(Progress(0, 5, 1.0, 1.0, None, pieces=pieces))
    ranges = ("partition 0: 0 to before 2", "partition 0: 2 to before 3")
    assert [record.message for record in caplog.records] == [
        f"topic {TOPIC} no longer holds {each}; going on without them (failOnDataLoss=false)" for each in ranges
    ]
