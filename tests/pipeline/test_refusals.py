"""Through the command line: what must not be gone on with is one sentence, said before Spark is up.

Nothing is written then, and no place in the log moves.
"""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import msgspec
import pytest

from penstock.errors import InvalidOption, NoColumns, NoJava
from penstock.model.event_types import EventTypes
from penstock.pipeline import session
from penstock.pipeline.lake.modes import Mode, check_lake
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.state import remember, reset
from penstock.pipeline.offsets import Range
from tests.pipeline.conftest import Command, Done
from tests.pipeline.stores import TOPIC, TYPES, LogStore
from tests.pipeline.test_continue import Driver, places


class OrderPlaced(msgspec.Struct):
    customer: str
    placed_at: dt.datetime
    at: dt.datetime


class OrderPaid(msgspec.Struct):
    at: str


class OrderShipped(msgspec.Struct):
    Timestamp_day: str


class OrderMoved(msgspec.Struct):
    key: str
    event_key: str


class Lake:
    """A lake that has read a log, and the command that would go on with it."""

    def __init__(self, store: LogStore, tmp_path: Path, penstock: Command) -> None:
        self.store, self.to, self._penstock = store, tmp_path / "lake", penstock
        store.fill(60)
        self.driver = Driver(store, self.to, self.to / "_penstock" / "checkpoint")
        self.driver.step()
        remember(self.to, (path.name for path in tables_in(self.to)))

    def run(self, url: str | None = None) -> Done:
        where = ["--url", url or self.store.url, "--topic", TOPIC, "--to", str(self.to)]
        return self._penstock("pipeline", "lake", *where, "--once")

    def files(self) -> list[Path]:
        return sorted(each for each in self.to.rglob("*") if each.name != "reader.json")

    def is_refused(self, said: str, url: str | None = None) -> None:
        before = self.files()
        done = self.run(url)
        assert done.code == 1
        assert done.err.count("\n") == 1
        assert done.err.startswith("error: ")
        assert said in done.err
        assert self.files() == before
        log = self.store.outbox.log
        assert log.holds(log.topic(TOPIC)) == {}


@pytest.fixture
def lake(sqlite_store: LogStore, tmp_path: Path, penstock: Command) -> Lake:
    return Lake(sqlite_store, tmp_path, penstock)


@pytest.mark.parametrize("command", ["lake", "replay"])
@pytest.mark.parametrize("column", ["type", "placed_at"])
def test_parts_by_the_time_of_a_column_that_has_none(
    sqlite_store: LogStore, tmp_path: Path, penstock: Command, command: str, column: str
) -> None:
    sqlite_store.fill(10)
    where = ["--url", sqlite_store.url, "--topic", TOPIC, "--to", str(tmp_path / "lake")]
    done = penstock("pipeline", command, *where, "--partition-by", f"day({column})")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: option --partition-by='day({column})': it must be year, month, day or hour of a column of "
        "timestamps: timestamp\n"
    )
    log = sqlite_store.outbox.log
    assert log.holds(log.topic(TOPIC)) == {}
    assert not (tmp_path / "lake").exists()


def test_parts_by_the_time_of_a_field_of_typed_events() -> None:
    types = EventTypes()
    types.register(OrderPlaced, "order.placed")
    types.register(OrderPaid, "order.paid")
    mode = Mode(types=types)
    for column in ("timestamp", "placed_at"):
        check_lake(mode, f"day({column})")
    for column in ("customer", "at"):
        with pytest.raises(InvalidOption, match=r"of a column of timestamps: timestamp, placed_at$"):
            check_lake(mode, f"day({column})")


def test_a_field_with_the_name_of_the_column_that_parts_make() -> None:
    types = EventTypes()
    types.register(OrderShipped, "order.shipped")
    with pytest.raises(NoColumns) as refused:
        check_lake(Mode(types=types), "day(timestamp)")
    assert str(refused.value) == (
        "OrderShipped has no columns: its field Timestamp_day has the name of the column that "
        "day(timestamp) makes in the table of order.shipped; give the field another name, or cut tables by "
        "another unit or column (--partition-by)"
    )
    check_lake(Mode(types=types), "hour(timestamp)")
    check_lake(Mode(types=types))


def test_two_fields_that_would_have_one_column() -> None:
    types = EventTypes()
    types.register(OrderMoved, "order.moved")
    with pytest.raises(NoColumns) as refused:
        check_lake(Mode(types=types))
    assert str(refused.value) == (
        "OrderMoved has no columns: its fields key and event_key would both have the column event_key, for "
        "case does not count, and a field named like a column of the record gets the prefix event_; give one "
        "of them another name"
    )


def test_a_foreign_database(lake: Lake, tmp_path: Path) -> None:
    foreign = LogStore(f"sqlite:///{tmp_path}/foreign.db")
    foreign.fill(100)
    foreign.close()
    lake.is_refused("was made from log ", foreign.url)


def test_a_restored_database(lake: Lake) -> None:
    lake.store.run('DELETE FROM penstock_log WHERE "offset" >= 3')  # as the backup has it
    lake.store.run("UPDATE penstock_head SET next_offset = 3 WHERE next_offset > 3")
    lake.store.fill(200)
    lake.is_refused("another record stands at")


def test_a_deleted_table(lake: Lake) -> None:
    shutil.rmtree(lake.to / TYPES[0])
    lake.is_refused(f"has lost the table {TYPES[0]}, so nothing was written")


def test_retention_past_an_unread_place(lake: Lake) -> None:
    lake.store.fill(100)
    ends = Range.from_json(lake.driver.place).ends
    lake.store.expire(2, ends[2] + 3)
    lake.is_refused(f"no longer holds partition 2: {ends[2]} to before {ends[2] + 3}, which this query has not read")


@pytest.mark.parametrize("to", ["gs://bucket/lake", "hdfs://n/lake", "a%20b"])
def test_a_folder_that_is_none_of_this_machine(
    penstock: Command, to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = penstock("pipeline", "lake", "--url", "sqlite:///x.db", "--to", to, "--once")
    assert done.code == 2
    assert f"option --to='{to}': it must be a path" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "/lake"])
def test_a_file_where_the_folder_should_be(penstock: Command, tmp_path: Path, below: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    to = f"{tmp_path}/notes.txt{below}"
    done = penstock("pipeline", "lake", "--url", f"sqlite:///{tmp_path}/x.db", "--to", to, "--once")
    assert done.code == 2
    assert f"it must be a folder, or one to be made; {tmp_path}/notes.txt is a file" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "complete"], "append or upsert; complete is for a pipeline of your own"),
        (["--mode", "upsert", "--key", "order_id"], "key, that of the record"),
    ],
)
def test_what_no_lake_can_be_is_refused_before_anything_is_made(
    sqlite_store: LogStore, penstock: Command, tmp_path: Path, words: list[str], said: str
) -> None:
    where = ["--url", sqlite_store.url, "--topic", TOPIC, "--to", f"{tmp_path}/lake"]
    done = penstock("pipeline", "lake", *where, "--once", *words)
    assert done.code == 2
    assert said in done.err
    assert "starting Spark" not in done.err
    assert not (tmp_path / "lake").exists()


def test_a_folder_without_a_table_is_not_optimized(penstock: Command, tmp_path: Path) -> None:
    done, known = (penstock("pipeline", word, str(tmp_path)) for word in ("optimize", "history"))
    assert done == known
    assert done.code == 2
    assert "a folder with the tables of a pipeline, or one table" in done.err


def test_a_deleted_checkpoint_is_made_anew_where_the_tables_end(lake: Lake, tmp_path: Path) -> None:
    held = places(lake.to)
    reset(lake.to, rebuild=False)
    lake.store.fill(40)
    assert Driver(lake.store, lake.to, lake.to / "_penstock" / "checkpoint").step().count() == 40
    assert len(places(lake.to)) == len(held) + 40


@pytest.mark.parametrize("words", [["lake"], ["lake", "--format", "iceberg"], ["run", "builtins:len"]])
def test_a_topic_that_is_not_there_leaves_nothing_behind(
    sqlite_store: LogStore, penstock: Command, tmp_path: Path, words: list[str]
) -> None:
    where = ["--url", sqlite_store.url, "--topic", "nope", "--to", f"{tmp_path}/lake", "--once"]
    done = penstock("pipeline", *words, *where)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "nope" in done.err
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("was_there", [False, True])
def test_a_spark_that_does_not_start_leaves_no_reader_and_no_folder(
    sqlite_store: LogStore, penstock: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    def no_java() -> None:
        raise NoJava("none", 17)

    monkeypatch.setattr(session, "find_java", no_java)
    sqlite_store.fill(10)
    if was_there:
        (tmp_path / "lake").mkdir()
    where = ["--url", sqlite_store.url, "--topic", TOPIC, "--to", f"{tmp_path}/lake", "--once"]
    done = penstock("pipeline", "lake", *where)
    assert done.code != 0
    assert "found none" in done.err
    log = sqlite_store.outbox.log
    assert log.holds(log.topic(TOPIC)) == {}
    assert (tmp_path / "lake").exists() == was_there
    assert not list(tmp_path.glob("lake/*"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"events": {"9": 1}}', "option --from=9: it must be one of the partitions 0 to 7"),
        ('{"events": {"0": 999}}', "option --from=999: it must be at most "),
        ("tomorrow", "option --from='tomorrow': it must be earliest, latest, or offsets as in"),
    ],
)
@pytest.mark.parametrize("words", [["lake"], ["lake", "--format", "iceberg"]])
def test_a_place_to_begin_that_is_none_leaves_nothing_behind(
    sqlite_store: LogStore, penstock: Command, tmp_path: Path, words: list[str], given: str, said: str
) -> None:
    sqlite_store.fill(8)
    given = given.replace("events", TOPIC)
    where = ["--url", sqlite_store.url, "--topic", TOPIC, "--to", f"{tmp_path}/lake", "--once"]
    done = penstock("pipeline", *words, *where, "--from", given)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
    assert not (tmp_path / "lake").exists()
