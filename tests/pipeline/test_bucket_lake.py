"""Lakes in a bucket, by the rules of a lake in a folder: source and sink called as Spark calls them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from penstock import points
from penstock.errors import (
    FilesUnseen,
    InvalidOption,
    LakeTakenOver,
    PipelineFailed,
    PipelineInterrupted,
    RangesDiffer,
    StorageAway,
    StorageRefused,
)
from penstock.pipeline.failure import failure
from penstock.pipeline.lake.commit import AFTER_COMMIT, AppendFiles
from penstock.pipeline.lake.delta.log import read_log
from penstock.pipeline.lake.delta.table import LakeTable
from penstock.pipeline.lake.old_tables import drop_old
from penstock.pipeline.lake.paths import folder_of, tables_in
from penstock.pipeline.lake.sink import begin_iceberg
from penstock.pipeline.lake.state import begin_checkpoint, known_tables, reader_name, remember, reset
from penstock.pipeline.lake.storage import Location, asking, location, storage_of
from penstock.pipeline.lake.storage.bucket import BucketStorage
from penstock.pipeline.lake.tables import describe, history, vacuum
from penstock.pipeline.lake.upkeep import optimize
from penstock.pipeline.lake.upsert import Upsert
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, TYPES, LogStore
from tests.pipeline.test_continue import Driver, places
from tests.pipeline.test_erasing import ADA, BOB, Shop
from tests.pipeline.test_table import Query, all_places, ends, rows_of
from tests.services.object_store import SECRET, ObjectStore

pytestmark = pytest.mark.slow


@pytest.fixture
def to(bucket: str) -> Location:
    return location(f"{bucket}/shop/lake")


def objects(to: Location) -> dict[str, bytes]:
    """Return all objects of the lake's bucket."""
    found: dict[str, bytes] = {}
    left = [to]
    while left:
        for each in left.pop().iterdir():
            if each.is_file():
                found[str(each)] = each.read_bytes()
            else:
                left.append(each)
    return found


def test_batches_are_there_once_whatever_is_run_again(sqlite_store: LogStore, to: Location, tmp_path: Path) -> None:
    driver = Driver(sqlite_store, to, tmp_path / "one")
    sqlite_store.fill(30)
    driver.step()
    for _ in range(11):  # past a checkpoint of a table's log
        sqlite_store.fill(30, type=TYPES[0])
        driver.step()
    assert places(to) == sorted(sqlite_store.records())
    assert known_tables(to).tables == tuple(sorted(folder_of(name) for name in TYPES))
    state = read_log(to / folder_of(TYPES[0]))
    assert state is not None
    assert DeltaTable(str(to / folder_of(TYPES[0]))).version() == state.version
    assert (to / folder_of(TYPES[0]) / "_delta_log" / "_last_checkpoint").is_file()

    sqlite_store.fill(50)

    points.arm(AFTER_COMMIT, points.fail(RuntimeError("killed")))
    with pytest.raises(RuntimeError, match="killed"):
        driver.step()  # one of three tables has the batch
    sqlite_store.fill(20)
    again = Driver(sqlite_store, to, tmp_path / "two")  # the first checkpoint is lost
    again.step()
    again.step()
    assert places(to) == sorted(sqlite_store.records())

    assert sum(each.size.rows for each in describe(to)) == len(sqlite_store.records())
    assert all(each.into < each.files for each in optimize(to, file_bytes=1 << 20))
    vacuum(to, older_than_hours=0, dry_run=False)
    assert {each.operation for each in history(to, limit=100)} >= {"WRITE", "OPTIMIZE"}
    kept = {uri.rpartition("/")[2] for table in tables_in(to) for uri in DeltaTable(str(table)).file_uris()}
    data = {name.rpartition("/")[2] for name in objects(to) if name.endswith(".zstd.parquet") or "/part-" in name}
    assert data == kept
    assert places(to) == sorted(sqlite_store.records())
    assert not any(SECRET.encode() in each for each in objects(to).values())


def test_files_that_are_not_there_are_not_committed(to: Location, tmp_path: Path) -> None:
    query = Query(tmp_path / "one", to)
    query.run(ends(0), ends(10))
    number, messages = query.plan(ends(10), ends(20)), query.write(ends(10), ends(20))
    gone, cut = (to / message.files[0].name for message in messages[:2])
    gone.unlink()
    storage_of(to).replace(cut, cut.read_bytes()[:-1])
    with pytest.raises(FilesUnseen, match="2 files that tasks have written"):
        query.commit(number, messages)
    assert rows_of(to) == all_places(10)


def test_of_two_drivers_one_commits_a_batch_and_the_other_is_refused(to: Location, tmp_path: Path) -> None:
    drivers, at = [Query(tmp_path / name, to) for name in ("one", "two")], 5
    drivers[0].run(ends(0), ends(at))
    for _ in range(5):
        start, ways = Barrier(2), [at + 5, at + 7]
        planned = [each.plan(ends(at), ends(until)) for each, until in zip(drivers, ways, strict=True)]
        written = [each.write(ends(at), ends(until)) for each, until in zip(drivers, ways, strict=True)]

        def commit(number: int, start: Barrier, planned: list[int], written: list[list[Any]]) -> bool:
            start.wait()
            try:
                drivers[number].commit(planned[number], written[number])
            except RangesDiffer:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            tries = [pool.submit(commit, number, start, planned, written) for number in range(2)]
        won = [each.result() for each in tries]
        assert won.count(True) == 1
        at = ways[won.index(True)]
        assert rows_of(to) == all_places(at)


@pytest.mark.parametrize("conditional", [True, False])
def test_a_commit_that_another_overtakes_is_refused_and_without_the_condition_it_takes_rows_away(
    to: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conditional: bool
) -> None:
    one, two = (Query(tmp_path / name, to) for name in ("one", "two"))
    one.run(ends(0), ends(10))
    first, files = one.plan(ends(10), ends(20)), one.write(ends(10), ends(20))
    put_new, replace = BucketStorage.put_new, BucketStorage.replace

    def overtaken(self: BucketStorage, file: Any, content: bytes) -> None:
        monkeypatch.setattr(BucketStorage, "put_new", put_new)
        one.commit(first, files)
        (put_new if conditional else replace)(self, file, content)

    monkeypatch.setattr(BucketStorage, "put_new", overtaken)
    if conditional:
        with pytest.raises(RangesDiffer):
            two.run(ends(10), ends(12))
        assert rows_of(to) == all_places(20)
    else:
        two.run(ends(10), ends(12))
        assert rows_of(to) == all_places(12), "the batch that counted is gone"


def test_names_and_lists_of_a_lake_are_written_by_one_of_many(to: Location) -> None:
    start = Barrier(4)

    def ask(number: int) -> str:
        start.wait()
        remember(to, [f"table-{number}"])
        return reader_name(to)

    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(ask, range(4)))
    assert len(names) == 1
    assert sorted(known_tables(to).tables) == [f"table-{n}" for n in range(4)]


def test_a_checkpoint_belongs_to_its_lake(to: Location, tmp_path: Path) -> None:
    def begun(name: str) -> Query:
        begin_checkpoint(to, tmp_path / name)
        return Query(tmp_path / name, to)

    first = begun("one")
    first.run(ends(0), ends(10))
    begin_checkpoint(to, tmp_path / "one")  # it starts again
    first.run(ends(10), ends(20))

    second = begun("two")  # on another machine: it goes on where the table ends
    second.run(ends(20), ends(30))
    with pytest.raises(LakeTakenOver, match="another driver writes s3://"):
        first.run(ends(20), ends(25))
    with pytest.raises(InvalidOption, match="or a new folder"):
        begin_checkpoint(to, tmp_path / "one")
    assert rows_of(to) == all_places(30)

    removed = {each.name for each in reset(to, rebuild=True).removed}
    assert removed >= {"checkpoint.json", "tables.json"}
    assert rows_of(to / "_old") == all_places(30)
    drop_old(to)
    assert [name.rpartition("/")[2] for name in objects(to)] == []
    # Or the checkpoint would go on behind all that was removed.
    with pytest.raises(InvalidOption, match="or a new folder"):
        begin_checkpoint(to, tmp_path / "two")
    begun("three").run(ends(0), ends(10))
    assert rows_of(to) == all_places(10)


def test_what_a_bucket_cannot_hold_is_refused(
    sqlite_store: LogStore, to: Location, penstock: Command, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match="cannot keep the catalog"):
        begin_iceberg(to, None, None)
    line = ["pipeline", "lake", "--url", sqlite_store.url, "--topic", TOPIC, "--once", "--to", str(to)]
    for more, said in (
        ([], "Missing option '--checkpoint': an object store cannot keep Spark's checkpoint"),
        (["--checkpoint", "s3://b/c"], "a folder on a disk"),
    ):
        done = penstock(*line, *more)
        assert done.code == 2
        assert said in done.err
    done = penstock(*line[:-1], str(tmp_path / "lake"), "--checkpoint", str(tmp_path / "c"))
    assert done.code == 2
    assert "a folder keeps its own" in done.err


def test_a_commit_whose_answer_is_lost_counts_once(
    to: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(tmp_path / "one", to)
    query.run(ends(0), ends(10))
    put_new = BucketStorage.put_new

    def twice(self: BucketStorage, file: Any, content: bytes) -> None:
        put_new(self, file, content)
        put_new(self, file, content)  # as a client asks again that has heard nothing

    monkeypatch.setattr(BucketStorage, "put_new", twice)
    query.run(ends(10), ends(20))
    assert rows_of(to) == all_places(20)


def test_a_store_without_the_condition_is_refused(
    to: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BucketStorage, "put_new", BucketStorage.replace)
    with pytest.raises(InvalidOption, match="honours If-None-Match"):
        begin_checkpoint(to, tmp_path / "one")
    assert objects(to) == {}


def test_a_store_that_is_away_interrupts_a_pipeline_and_one_that_refuses_ends_it() -> None:
    away = failure(f"x\npenstock.errors.StorageAway: {StorageAway('shop')}\nat org.apache.spark")
    assert isinstance(away, PipelineInterrupted)
    assert "cannot be reached" in str(away)
    refused = failure(f"x\npenstock.errors.StorageRefused: {StorageRefused('shop')}\nat org.apache.spark")
    assert isinstance(refused, PipelineFailed)


def test_a_store_that_goes_away_while_a_table_is_read_is_no_damage(
    sqlite_store: LogStore,
    to: Location,
    penstock: Command,
    object_store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sqlite_store.fill(30)
    Driver(sqlite_store, to, tmp_path / "one").step()
    looked_at = LakeTable._looked_at

    def then_away(self: LakeTable, names: Sequence[str]) -> tuple[int, bool]:
        found = looked_at(self, names)
        away.enter_context(object_store.out_of_order(r"GET .*\.parquet"))
        return found

    monkeypatch.setattr(LakeTable, "_looked_at", then_away)
    where = ["reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(to)]
    with ExitStack() as away:
        done = penstock(*where)
    assert done.code == 3
    assert "cannot be reached: it does not answer; check AWS_ENDPOINT_URL" in done.err
    assert "rebuild the table" not in done.err
    assert SECRET not in done.out + done.err


def test_the_content_of_a_damaged_file_is_told_and_not_what_the_store_says(
    sqlite_store: LogStore, to: Location, penstock: Command, tmp_path: Path
) -> None:
    sqlite_store.fill(30)
    Driver(sqlite_store, to, tmp_path / "one").step()
    (uri, *_) = DeltaTable(str(to / folder_of(TYPES[0]))).file_uris()
    storage_of(to).replace(location(uri), b"no parquet")
    done = penstock("reconcile", "--url", sqlite_store.url, "--topic", TOPIC, "--lake", str(to))
    assert done.code == 1
    assert "cannot be read" in done.err
    assert "rebuild the table" in done.err


def test_a_checkpoint_that_cannot_be_made_is_told_without_what_the_store_says(
    to: Location, tmp_path: Path, object_store: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(tmp_path / "one", to)
    with object_store.out_of_order(r"(PUT|POST) .*checkpoint"):
        for n in range(12):
            query.run(ends(n), ends(n + 1))
    assert rows_of(to) == all_places(12)
    (said,) = [each for each in caplog.messages if "has no checkpoint" in each]
    assert "cannot be reached: it does not answer" in said
    assert SECRET not in caplog.text


@pytest.mark.parametrize("committing", [AppendFiles(), Upsert(("key",), (1,))], ids=["append", "upsert"])
def test_a_commit_that_fails_because_the_store_is_away_interrupts_the_pipeline(
    to: Location, tmp_path: Path, object_store: ObjectStore, committing: AppendFiles
) -> None:
    """Also where it makes its mark and its table."""
    shop = Shop(tmp_path, committing, to)
    for owners in ("ab", "ba"):  # the first batch of a lake makes its mark and table, the next finds them
        batch = shop.read(owners)
        with (
            object_store.out_of_order(r"(PUT|POST) .*_delta_log/\d+\.json"),
            pytest.raises(StorageAway) as away,
            asking(to),  # as the sink does
        ):
            shop.commit(batch)
        assert SECRET not in str(away.value)
        assert isinstance(failure(f"penstock.errors.StorageAway: {away.value}"), PipelineInterrupted)
        shop.commit(batch)
    shop.outbox.close()
    assert shop.names() == [ADA, ADA, BOB, BOB]


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        ("Transaction failed: Generic S3 error: Error performing PUT http://…: 503 Service Unavailable", True),
        ("Failed to commit transaction: error sending request for url", True),
        ("Failed to commit transaction: 0", False),
        ("Commit failed: a concurrent transactions added new data.\nHelp: rerun the query", False),
    ],
)
def test_of_failed_commits_those_of_an_outage_interrupt_the_pipeline(said: str, passes: bool) -> None:
    """Delta's library may call both a failed commit: that another was faster, and that nobody answered."""
    with pytest.raises(StorageAway if passes else CommitFailedError) as raised, asking(location("s3://shop/lake")):
        raise CommitFailedError(said)
    name = f"{type(raised.value).__module__}.{type(raised.value).__qualname__}"
    found = failure(f"An exception was thrown\n{name}: {raised.value}\nat org.apache.spark")
    assert isinstance(found, PipelineInterrupted) == passes
    assert "performing" not in str(found)


def test_a_compaction_that_the_store_interrupts_is_told_as_that(
    to: Location, tmp_path: Path, object_store: ObjectStore, penstock: Command
) -> None:
    query = Query(tmp_path / "one", to)
    for n in range(3):
        query.run(ends(n), ends(n + 1))
    with object_store.out_of_order(r"(PUT|POST) .*_delta_log/\d+\.json"):
        done = penstock("pipeline", "optimize", str(to))
    assert done.code == 3
    assert "cannot be reached: it does not answer" in done.err
    assert SECRET not in done.out + done.err
    assert rows_of(to) == all_places(3)
