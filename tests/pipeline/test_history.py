"""A log that is not the one that was read: restored, foreign, made anew. Nothing is read or written."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.errors import AnotherLog, HistoryTakenBack
from penstock.operate.drop import restored
from penstock.operate.erase import erase
from penstock.pipeline.lake.paths import folder_of
from penstock.pipeline.lake.reconcile.figures import lake_figures
from penstock.pipeline.lake.rewind import cut_back
from penstock.pipeline.offsets import Range
from penstock.pipeline.source.stream import StreamReader
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, TYPES, LogStore
from tests.pipeline.test_continue import Driver, places


@pytest.fixture
def restored_store(sqlite_store: LogStore, tmp_path: Path) -> tuple[LogStore, Driver]:
    """Give a log that went back to a backup and has passed its old end, and a lake that read it before."""
    file = Path(sqlite_store.url.removeprefix("sqlite:///"))
    sqlite_store.fill(80)
    sqlite_store.run("SELECT 1")
    sqlite_store.close()
    shutil.copy(file, tmp_path / "backup.db")
    sqlite_store = LogStore(sqlite_store.url)
    sqlite_store.fill(80)
    driver = Driver(sqlite_store, tmp_path / "lake", tmp_path / "one")
    driver.step()
    sqlite_store.close()
    for each in tmp_path.glob("shop.db*"):
        each.unlink()
    shutil.copy(tmp_path / "backup.db", file)
    store = LogStore(sqlite_store.url)
    store.fill(300, data=b"new")  # other records at the places of the lost ones, and more
    return store, driver


def test_a_checkpoint_does_not_go_on_in_a_log_that_was_restored(restored_store: tuple[LogStore, Driver]) -> None:
    _, driver = restored_store
    with pytest.raises(HistoryTakenBack, match=r"read up to \d+, and another record stands at \d+ now"):
        driver.step()


def test_nor_does_a_new_checkpoint_go_on_behind_its_tables(
    restored_store: tuple[LogStore, Driver], tmp_path: Path
) -> None:
    store, _ = restored_store
    held = places(tmp_path / "lake")
    with pytest.raises(HistoryTakenBack, match="another record stands"):
        Driver(store, tmp_path / "lake", tmp_path / "two")
    assert places(tmp_path / "lake") == held


def test_nor_is_a_batch_repeated_that_was_planned_before(restored_store: tuple[LogStore, Driver]) -> None:
    _, driver = restored_store
    new = StreamReader(driver.reader._options)
    with pytest.raises(HistoryTakenBack):
        new.partitions({}, driver.place)


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("below", ["", folder_of(TYPES[0])])
def test_nor_are_rows_erased_in_whose_places_other_records_stand(
    restored_store: tuple[LogStore, Driver], tmp_path: Path, penstock: Command, dry_run: bool, below: str
) -> None:
    store, _ = restored_store
    held = places(tmp_path / "lake")
    store.run("UPDATE penstock_log SET owner = 'ada' WHERE \"offset\" >= 12")
    assert erase(store.outbox, "ada").logged
    how = "--dry-run" if dry_run else "--yes"
    done = penstock("pipeline", "erase", str(tmp_path / "lake" / below), "--url", store.url, how)
    assert done.code == 1
    assert f"the history of topic {TOPIC} was taken back" in done.err
    assert "another record stands at" in done.err
    assert "penstock pipeline reset --from-table" in done.err
    assert places(tmp_path / "lake") == held


def test_a_log_that_only_grew_is_gone_on_with(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(50)
    driver = Driver(sqlite_store, tmp_path / "lake", tmp_path / "one")
    driver.step()
    sqlite_store.fill(50)
    for partition, end in Range.from_json(driver.place).ends.items():
        sqlite_store.expire(partition, end)  # what was read may go
    driver.step()
    new = StreamReader(driver.reader._options)
    assert new.partitions({}, driver.place), "a repeated batch is compared, and is there"
    assert new.latestOffset(driver.place, ReadAllAvailable()) == driver.place


@pytest.mark.parametrize("kept", ["checkpoint", "tables"])
def test_a_foreign_log_is_refused(sqlite_store: LogStore, tmp_path: Path, kept: str) -> None:
    sqlite_store.fill(20)
    driver = Driver(sqlite_store, tmp_path / "lake", tmp_path / "one")
    driver.step()
    foreign = LogStore(f"sqlite:///{tmp_path}/foreign.db")
    foreign.fill(100)
    driver.reader = StreamReader(replace(driver.reader._options, url=foreign.url))
    with pytest.raises(AnotherLog, match=r"was made from log \S+, but this is log \S+"):
        _ = driver.step() if kept == "checkpoint" else Driver(foreign, tmp_path / "lake", tmp_path / "two")
    foreign.close()


def test_tables_do_not_take_a_topic_that_was_made_anew(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(20)
    Driver(sqlite_store, tmp_path / "lake", tmp_path / "one").step()
    sqlite_store.outbox.log.delete_topic(TOPIC)
    sqlite_store.outbox.log.create_topic(TOPIC, partitions=8)
    sqlite_store.fill(20)
    with pytest.raises(AnotherLog, match="deleted and made anew"):
        Driver(sqlite_store, tmp_path / "lake", tmp_path / "two")


def test_a_checkpoint_of_an_older_penstock_has_no_marks_and_is_taken(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(20)
    driver = Driver(sqlite_store, tmp_path / "lake", tmp_path / "one")
    driver.step()
    old = {name: value for name, value in driver.place.items() if name not in ("marks", "incarnation")}
    driver.place = json.loads(json.dumps(old))
    sqlite_store.fill(10)
    assert driver.step().marks


def test_tables_are_cut_back_to_where_they_agree_with_the_log_and_go_on(
    restored_store: tuple[LogStore, Driver], tmp_path: Path
) -> None:
    store, _ = restored_store
    lake, log = tmp_path / "lake", store.outbox.log
    restored(store.outbox)
    held = places(lake)
    done = cut_back(lake, log, log.topic(TOPIC))
    assert done.rows == 80, "what came after the backup"
    assert len(places(lake)) == len(held) - 80
    assert cut_back(lake, log, log.topic(TOPIC)).rows == 0
    after = Driver(store, lake, tmp_path / "two")
    assert after.step().count() == 300
    assert places(lake) == sorted(store.records())
    (figures,) = lake_figures(lake, log, TOPIC, values=True)
    assert (figures.rows, figures.changed, figures.faults) == (380, (), ())


def test_a_lake_that_lost_nothing_is_only_taken_into_the_new_incarnation(
    sqlite_store: LogStore, tmp_path: Path
) -> None:
    sqlite_store.fill(50)
    lake, log = tmp_path / "lake", sqlite_store.outbox.log
    Driver(sqlite_store, lake, tmp_path / "one").step()
    for partition, end in sqlite_store.ends().items():
        sqlite_store.expire(partition, end)  # a rebuild would lose it all
    restored(sqlite_store.outbox)
    assert cut_back(lake, log, log.topic(TOPIC)).rows == 0
    sqlite_store.fill(10)
    assert Driver(sqlite_store, lake, tmp_path / "two").step().count() == 10
    assert len(places(lake)) == 60


def test_tables_of_another_log_are_not_cut_back(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(20)
    Driver(sqlite_store, tmp_path / "lake", tmp_path / "one").step()
    foreign = LogStore(f"sqlite:///{tmp_path}/foreign.db")
    log = foreign.outbox.log
    with pytest.raises(AnotherLog):
        cut_back(tmp_path / "lake", log, log.topic(TOPIC))
    foreign.close()
