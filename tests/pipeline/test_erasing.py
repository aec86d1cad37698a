"""An owner who is erased in the log is erased from the tables, too: no byte of them is left."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock import Outbox, Record, points
from penstock.errors import AnotherLog
from penstock.log.contract import Position
from penstock.model.retry import Fixed
from penstock.operate.dead import dead_letters
from penstock.operate.erase import erase
from penstock.operate.lanes import lanes
from penstock.pipeline.history import mark_of
from penstock.pipeline.lake import erasure
from penstock.pipeline.lake.commit import BEFORE_COMMIT, AppendFiles, TablePart, commit
from penstock.pipeline.lake.erasure import ErasedRows, erase_in_tables
from penstock.pipeline.lake.erasure_note import left_out
from penstock.pipeline.lake.iceberg.catalog import begin
from penstock.pipeline.lake.identity import ByEpoch, ByOffsets
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.state import KnownTables, Replayed, erased_places, note_replay, reader_name
from penstock.pipeline.lake.upsert import Upsert
from penstock.pipeline.offsets import Piece, Range
from tests.pipeline.conftest import Command
from tests.pipeline.test_upsert_merging import a_part

ADA, BOB = "Ada Lovelace", "Bob Example"
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("name", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("deleted", pa.bool_()),
        ("bucket", pa.int32()),
    ]
)

ReadBatch = tuple[TablePart, ByOffsets]
NEVER = Fixed(timedelta(seconds=1), max_retries=0)


def fail(record: Record) -> None:
    """Leave what is Ada's in lanes and dead letters, quoted in an error."""
    if ADA in str(record.value):
        raise ValueError(f"cannot mail {record.value}")


class Shop:
    """A store with records of two people, and a lake that holds them, in batches of ten."""

    def __init__(self, folder: Path, committing: AppendFiles, to: Any = None) -> None:
        self.url, self.to = f"sqlite:///{folder / 'shop.db'}", to or folder / "lake"
        self.outbox, self._committing, self._end = Outbox(self.url), committing, 0
        self.outbox.migrate()
        self.outbox.log.create_topic("orders", partitions=1)
        for group, retry in (("parks", Fixed(timedelta(hours=1), max_retries=3)), ("gives up", NEVER)):
            self.outbox.handler(group=group, id=group, topic="orders", retry=retry)(fail)

    def publish(self, owners: str) -> None:
        """Publish a record of each owner, and put them into the lake as one batch."""
        self.commit(self.read(owners))

    def read(self, owners: str) -> ReadBatch:
        """Publish a record of each owner, and return them as the tasks of a batch leave them."""
        names = [ADA if each == "a" else BOB for each in owners]
        with self.outbox.transaction() as conn:
            for n, name in enumerate(names):
                self.outbox.publish(
                    conn, "order", {"name": name}, key=f"{name}-{self._end + n}", topic="orders", owner=name
                )
        with suppress(ValueError):
            self.outbox.drain()
        log = self.outbox.log
        rows = [
            {
                "key": f"{name}-{self._end + n}".encode(),
                "name": name,
                "topic": "orders",
                "partition": 0,
                "offset": self._end + n,
                "deleted": False,
                "bucket": n % 3,
            }
            for n, name in enumerate(names)
        ]
        end = self._end + len(names)
        (last,) = log.at(log.topic("orders"), [Position(0, end - 1)])
        batch = Range(log.identity().id, "orders", log.topic("orders").id, {0: self._end}, {0: end})
        batch = replace(batch, incarnation=log.identity().incarnation, marks={0: mark_of(last.id)})
        self._end = end
        return a_part(self.to / "order", rows, SCHEMA), ByOffsets((batch,))

    def commit(self, batch: ReadBatch) -> None:
        """Put a batch into the lake."""
        part, identity = batch
        Lake(self.to).commit([part], identity, self._committing)

    def names(self) -> list[str]:
        found = table_at(self.to / "order").batches(["name"])
        return sorted(name for batch in found for name in batch.column("name").to_pylist())


@pytest.fixture(params=["delta", "iceberg"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "iceberg":
        begin(tmp_path / "lake", None, None)
    return tmp_path


@pytest.fixture(params=["append", "upsert"])
def shop(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shop]:
    shop = Shop(folder, AppendFiles() if request.param == "append" else Upsert(("key",), (1,)))
    yield shop
    shop.outbox.close()


def everything(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield all bytes below a folder, as they are and, where they are compressed, as they were before."""
    for file in folder.rglob("*"):
        if file.is_file():
            yield file, file.read_bytes()
            if file.suffix == ".parquet":
                said = pq.ParquetFile(file)
                yield file, repr((said.read().to_pylist(), said.metadata.to_dict())).encode()
            elif file.suffix == ".avro":
                with file.open("rb") as source:
                    yield file, repr(list(fastavro.reader(source))).encode()


def traces(folder: Path, text: str) -> set[str]:
    found = (file for file, content in everything(folder) if text.encode() in content)
    return {file.relative_to(folder).as_posix() for file in found}


def erased(shop: Shop, owner: str, *, older_than_hours: int = 0) -> list[ErasedRows]:
    erase(shop.outbox, owner)
    return erase_in_tables(shop.to, shop.outbox.log, older_than_hours=older_than_hours)


def rebuilt(shop: Shop) -> None:
    """Let SQLite forget its free pages, as the page on erasing says."""
    with closing(sqlite3.connect(shop.url.removeprefix("sqlite:///"))) as conn:
        conn.execute("VACUUM")
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_no_byte_of_an_erased_owner_is_left_in_log_and_tables(shop: Shop, folder: Path) -> None:
    for owners in ("abab", "bbbb", "aaaa", "ab"):
        shop.publish(owners)
    left = a_part(folder / "lake" / "order", [{"name": ADA}], SCHEMA)  # by a crash: no table points to it
    assert len(lanes(shop.outbox).items) + len(dead_letters(shop.outbox).items) >= 7
    assert {"shop.db"} < traces(folder, ADA) or "shop.db-wal" in traces(folder, ADA)
    assert any(name.startswith("lake/") for name in traces(folder, ADA))
    (done,) = erased(shop, ADA)
    rebuilt(shop)
    assert done.rows == 7
    assert traces(folder, ADA) == set()
    assert not (folder / "lake" / "order" / left.files[0].name).exists()
    assert shop.names() == [BOB] * 7
    assert traces(folder, BOB) != set()
    shop.publish("b")  # it goes on where it was
    assert shop.names() == [BOB] * 8


def test_a_batch_that_was_read_before_and_is_committed_after_leaves_the_rows_out(shop: Shop) -> None:
    shop.publish("ab")
    batch = shop.read("aba")
    assert erased(shop, ADA, older_than_hours=1)[0].rows == 1
    shop.commit(batch)
    assert shop.names() == [BOB, BOB]
    assert traces(shop.to, ADA) == set()
    shop.publish("ab")  # what comes later is hers again
    assert shop.names() == [ADA, BOB, BOB, BOB]


def test_a_batch_leaves_rows_out_that_were_erased_in_its_table_alone(shop: Shop) -> None:
    """The table ends before the lake: the last batches had no rows for it."""
    shop.publish("ab")
    _, identity = shop.read("b")
    Lake(shop.to).commit([], identity, AppendFiles())
    batch = shop.read("aba")
    erase(shop.outbox, ADA)
    erase_in_tables(shop.to / "order", shop.outbox.log, older_than_hours=1)
    shop.commit(batch)
    assert ADA not in shop.names()


def test_a_table_that_is_being_made_again_leaves_rows_out_wherever_it_begins(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.publish("abba")
    again = KnownTables(("order",), again=("order",))
    monkeypatch.setattr(erasure, "known_tables", lambda root: again)
    erased(shop, ADA, older_than_hours=1)
    [noted] = erased_places(shop.to / "order")
    assert (noted.begins, noted.places) == ({}, (Piece(0, 0, 1), Piece(0, 3, 4)))


def test_a_commit_that_is_overtaken_by_the_erasing_looks_again(shop: Shop) -> None:
    """Also where the erasing finds no row in the table, and has nothing to commit but that it was there."""
    shop.publish("bb")
    batch = shop.read("aab")
    done = list[ErasedRows]()
    points.arm(BEFORE_COMMIT, lambda: done.extend(erased(shop, ADA, older_than_hours=1)))
    shop.commit(batch)
    assert [each.rows for each in done] == [0]
    assert shop.names() == [BOB] * 3
    assert traces(shop.to, ADA) == set()


def test_the_first_batch_of_a_lake_leaves_the_rows_out_too(shop: Shop) -> None:
    log = shop.outbox.log
    batch = shop.read("aab")
    log.hold(reader_name(shop.to), log.topic("orders"), {0: 0})  # as a pipeline does when it starts
    erased(shop, ADA, older_than_hours=1)
    shop.commit(batch)
    assert shop.names() == [BOB]
    assert traces(shop.to, ADA) == set()


def erased_by_command(shop: Shop, owner: str, penstock: Command) -> None:
    """Erase an owner as a user does, in the log and then in the tables."""
    erase(shop.outbox, owner)
    done = penstock("pipeline", "erase", str(shop.to), "--url", shop.url, "--yes")
    assert done.code == 0, done.err


def test_the_first_batch_of_a_replay_leaves_the_rows_out_too(shop: Shop, penstock: Command) -> None:
    """Nobody holds retention for a replay: its folder alone says which topic it is of."""
    batch = shop.read("aab")
    (range_,) = batch[1].ranges
    note_replay(shop.to, Replayed("lake", ("earliest", "latest"), range_.to_json()))
    erased_by_command(shop, ADA, penstock)
    shop.commit(batch)
    assert shop.names() == [BOB]
    assert traces(shop.to, ADA) == set()


def test_a_replay_of_another_log_is_not_erased_by_this_one(shop: Shop, penstock: Command) -> None:
    (range_,) = shop.read("a")[1].ranges
    other = replace(range_, log_id="another").to_json()
    note_replay(shop.to, Replayed("lake", ("earliest", "latest"), other))
    done = penstock("pipeline", "erase", str(shop.to), "--url", shop.url, "--yes")
    assert (done.code, "was made from log another" in done.err) == (1, True)


@pytest.mark.parametrize("point", [None, BEFORE_COMMIT])
def test_the_first_batch_of_a_pipeline_that_holds_nothing_leaves_the_rows_out_too(
    shop: Shop, penstock: Command, point: str | None
) -> None:
    """Also when its table is there and has nothing yet, and is not the only topic of the log."""
    shop.outbox.log.create_topic("visits", partitions=1)
    batch = shop.read("aab")
    reader_name(shop.to)
    if point is None:
        erased_by_command(shop, ADA, penstock)
    else:
        points.arm(point, lambda: erased_by_command(shop, ADA, penstock))
    shop.commit(batch)
    assert shop.names() == [BOB]
    assert traces(shop.to, ADA) == set()


@pytest.mark.parametrize("holds", [True, False])
def test_a_lake_whose_mark_has_no_table_yet_is_not_of_another_log(shop: Shop, penstock: Command, holds: bool) -> None:
    """The mark knows the topic before the first table is made."""
    log, batch = shop.outbox.log, shop.read("aab")
    part, identity = batch
    if holds:
        log.hold(reader_name(shop.to), log.topic("orders"), {0: 0})
    Lake(shop.to)._marked(identity)
    assert Lake(shop.to).sources()
    erased_by_command(shop, ADA, penstock)
    shop.commit((part, identity))
    assert shop.names() == [BOB]
    assert traces(shop.to, ADA) == set()


@pytest.mark.parametrize("shop", ["append"], indirect=True)
def test_what_is_noted_is_for_one_batch_and_one_history(shop: Shop) -> None:
    """A backup that is restored gives these places to other records."""
    shop.publish("ab")
    (part, identity), log = shop.read("aab"), shop.outbox.log
    erased(shop, ADA, older_than_hours=1)
    (batch,) = identity.ranges
    for other in (
        replace(batch, incarnation=log.identity().incarnation + 1),
        replace(batch, log_id="another"),
        replace(batch, starts={0: 1}),
    ):
        assert left_out(shop.to / "order", part.files, ByOffsets((other,))) == part.files
    assert left_out(shop.to / "order", part.files, identity) != part.files


def test_erasing_leaves_a_table_knowing_its_topics(folder: Path) -> None:
    """A pipeline into one table has no mark: what its table says is all there is."""
    shop = Shop(folder, AppendFiles())
    part, identity = shop.read("ab")
    commit(part, identity, AppendFiles())
    before = table_at(shop.to / "order").sources()
    erased(shop, ADA)
    shop.outbox.close()
    assert before
    assert table_at(shop.to / "order").sources() == before


def test_a_table_that_does_not_know_its_records_is_told(folder: Path) -> None:
    """As that of a query that keeps state, though it has the columns."""
    shop = Shop(folder, AppendFiles())
    part, _ = shop.read("ab")
    commit(part, ByEpoch("query", 0), AppendFiles())
    (done,) = erased(shop, ADA)
    shop.outbox.close()
    assert (done.rows, done.unplaced is not None) == (0, True)
    assert "does not know which records it holds" in str(done.unplaced)


def test_a_run_that_was_cut_short_before_the_past_went_is_finished_by_the_next(
    shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.publish("ab")
    erase(shop.outbox, ADA)
    kind = type(table_at(shop.to / "order"))
    with monkeypatch.context() as patch:
        patch.setattr(kind, "purge", lambda self, hours: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            erase_in_tables(shop.to, shop.outbox.log, older_than_hours=0)
    assert traces(shop.to, ADA) != set()
    (done,) = erase_in_tables(shop.to, shop.outbox.log, older_than_hours=0)
    assert done.rows == 0
    assert traces(shop.to, ADA) == set()


def test_a_batch_that_comes_while_the_past_goes_is_no_failure(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.publish("ab")
    erase(shop.outbox, ADA)
    kind = type(table_at(shop.to / "order"))
    purge = kind.purge

    def overtaken(self: Any, older_than_hours: int) -> list[str]:
        self.size()  # it is looked at
        monkeypatch.undo()
        shop.publish("b")
        return purge(self, older_than_hours)

    monkeypatch.setattr(kind, "purge", overtaken)
    erase_in_tables(shop.to, shop.outbox.log, older_than_hours=0)
    assert shop.names() == [BOB, BOB]
    assert traces(shop.to, ADA) == set()


@pytest.mark.parametrize("shop", ["append"], indirect=True)
def test_a_run_that_fails_after_its_commit_takes_nothing_from_the_table(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.publish("ab")
    erase(shop.outbox, ADA)
    kind = type(table_at(shop.to / "order"))

    def failing(self: Any) -> None:
        raise OSError(5, "the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "_forget", failing)
        with pytest.raises(OSError, match="the disk is gone"):
            erase_in_tables(shop.to, shop.outbox.log, older_than_hours=0)
    assert shop.names() == [BOB]


def test_a_dry_run_counts_and_files_of_a_batch_under_way_stay(shop: Shop) -> None:
    shop.publish("aab")
    erase(shop.outbox, ADA)
    young = shop.to / "order" / "part-under-way.zstd.parquet"
    young.write_bytes(b"")
    (dry,) = erase_in_tables(shop.to, shop.outbox.log, dry_run=True)
    assert (dry.rows, shop.names()) == (2, [ADA, ADA, BOB])
    erase_in_tables(shop.to, shop.outbox.log)
    assert shop.names() == [BOB]
    assert young.exists()
    os.utime(young, (1_000, 1_000))
    erase_in_tables(shop.to, shop.outbox.log)
    assert not young.exists()


def test_files_count_once_as_removed_and_are_named_below_the_lake(shop: Shop, penstock: Command) -> None:
    shop.publish("ab")
    shop.publish("ba")
    before = data_files(shop.to)
    (done,) = erased(shop, ADA)
    assert done.files == len(before - data_files(shop.to)) > 0
    how = "pipeline", "vacuum", str(shop.to), "--older-than", "0"
    assert penstock(*how, "--dry-run").out.splitlines()[-1] == "0 files would go"
    assert penstock(*how, "--yes").out.splitlines()[-1] == "0 files removed"
    shop.publish("b")
    penstock("pipeline", "optimize", str(shop.to))
    before = data_files(shop.to)
    *foreseen, _ = penstock(*how, "--dry-run").out.splitlines()
    *named, said = penstock(*how, "--yes").out.splitlines()
    gone = before - data_files(shop.to)
    assert {name for name in named if name.endswith(".parquet")} == gone
    assert gone <= {*foreseen}
    assert said == f"{len(named)} files removed"


def data_files(lake: Path) -> set[str]:
    return {each.relative_to(lake).as_posix() for each in lake.glob("order/**/part-*.parquet")}


@pytest.mark.parametrize("folder", ["delta"], indirect=True)
def test_rows_in_files_that_another_engine_wrote_are_erased(shop: Shop) -> None:
    """delta-rs notes types in its files that Arrow can neither compare nor filter."""
    shop.publish("ababbbb")
    table = DeltaTable(str(shop.to / "order"))
    table.delete('"offset" = 3')
    assert pa.string_view() in {pq.read_schema(file).field("topic").type for file in table.file_uris()}
    erase(shop.outbox, ADA)
    (dry,) = erase_in_tables(shop.to, shop.outbox.log, dry_run=True)
    assert (dry.rows, shop.names()) == (2, [ADA] * 2 + [BOB] * 4)
    (done,) = erase_in_tables(shop.to, shop.outbox.log, older_than_hours=0)
    assert (done.rows, shop.names()) == (2, [BOB] * 4)
    assert traces(shop.to, ADA) == set()
    files = [shop.to / "order" / name for name in table_at(shop.to / "order").file_names()]
    assert {pq.read_schema(file).field("topic").type for file in files} == {pa.string()}
    shop.publish("b")
    assert shop.names() == [BOB] * 5


def test_rows_of_another_topic_in_the_same_place_stay(folder: Path, penstock: Command) -> None:
    outbox, to, topics = Outbox(f"sqlite:///{folder / 'shop.db'}"), folder / "lake", ("orders", "visits")
    outbox.migrate()
    for topic in topics:
        outbox.log.create_topic(topic, partitions=1)
        outbox.handler(group=topic, id=topic, topic=topic)(lambda record: None)
    with outbox.transaction() as conn:
        for topic in topics:
            outbox.publish(conn, "t", {}, key="k", topic=topic, owner=ADA if topic == "orders" else BOB)
    outbox.drain()
    log = outbox.log
    ranges = [Range(log.identity().id, each, log.topic(each).id, {0: 0}, {0: 1}) for each in topics]
    row = {"key": b"k", "name": BOB, "topic": "visits", "partition": 0, "offset": 0, "deleted": False}
    named = pa.schema([each for each in SCHEMA if each.name != "bucket"])
    unnamed = pa.schema([each for each in named if each.name != "topic"])
    parts = [a_part(to / "named", [row], named), a_part(to / "unnamed", [row], unnamed)]
    Lake(to).commit(parts, ByOffsets(tuple(ranges)), AppendFiles())
    erase(outbox, ADA)
    told, untold = erase_in_tables(to, log, older_than_hours=0)
    outbox.close()
    said = penstock("pipeline", "erase", str(to), "--url", f"sqlite:///{folder / 'shop.db'}", "--yes")
    assert (said.code, "unnamed: nothing is erased: it has no column topic" in said.err) == (1, True)
    assert (told.rows, untold.rows) == (0, 0)
    assert [table_at(to / name).size().rows for name in ("named", "unnamed")] == [1, 1]
    assert told.unplaced is None
    assert untold.unplaced is not None
    assert "has no column topic" in untold.unplaced


def test_rows_of_a_topic_that_feeds_the_tables_no_more_go_too(folder: Path) -> None:
    shop = Shop(folder, AppendFiles())
    shop.publish("ab")
    log = shop.outbox.log
    log.create_topic("visits", partitions=1)
    with shop.outbox.transaction() as conn:
        shop.outbox.publish(conn, "t", {}, key="k", topic="visits", owner=BOB)
    shop.outbox.drain()
    row = {"key": b"k", "name": BOB, "topic": "visits", "partition": 0, "offset": 0, "deleted": False}
    visits = Range(log.identity().id, "visits", log.topic("visits").id, {0: 0}, {0: 1})
    part = a_part(shop.to / "order", [row | {"bucket": 0}], SCHEMA)
    Lake(shop.to).commit([part], ByOffsets((visits,)), AppendFiles())
    (done,) = erased(shop, ADA)
    shop.outbox.close()
    assert (done.rows, shop.names()) == (1, [BOB, BOB])


def test_another_log_is_refused(shop: Shop, tmp_path: Path) -> None:
    shop.publish("ab")
    other = Outbox(f"sqlite:///{tmp_path / 'other.db'}")
    other.migrate()
    with pytest.raises(AnotherLog):
        erase_in_tables(shop.to, other.log)
    other.close()


def test_erase_names_the_job_and_the_job_erases(shop: Shop, penstock: Command) -> None:
    shop.publish("aab")
    shop.outbox.log.hold("lake-abc", shop.outbox.log.topic("orders"), {0: 3})
    said: Any = penstock("erase", ADA, "--url", shop.url, "--yes")
    assert "pipeline lake-abc may have them in its tables" in said.out
    assert "penstock pipeline erase FOLDER" in said.out
    done = penstock("pipeline", "erase", str(shop.to), "--url", shop.url, "--yes", "--json")
    assert done.code == 0, done.err
    (table,) = json.loads(done.out)
    assert (table["table"], table["rows"]) == ("order", 2)
    assert shop.names() == [BOB]
