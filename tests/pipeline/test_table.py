"""The sink's rules, its writer called as Spark calls it: a batch is in the table once, or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from penstock import points
from penstock.errors import FilesUnseen, InvalidOption, RangesDiffer, StateWithoutPast, TableDamaged, TableDiffers
from penstock.pipeline.lake.commit import AFTER_COMMIT
from penstock.pipeline.lake.delta.table import LakeTable
from penstock.pipeline.lake.identity import by_application
from penstock.pipeline.lake.paths import folder_of, tables_in
from penstock.pipeline.lake.sink import DeltaSink
from penstock.pipeline.lake.storage import Location
from penstock.pipeline.lake.tables import describe, vacuum
from penstock.pipeline.offsets import Range

SCHEMA = StructType(
    [StructField("type", StringType()), StructField("partition", IntegerType()), StructField("offset", LongType())]
)
ARROW = pa.schema([("type", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
PARTITIONS = 3
Ends = dict[int, int]


class Query:
    """A streaming query as the sink sees it: a checkpoint that Spark wrote, tasks, and commits."""

    def __init__(self, folder: Path, to: Location, **options: str) -> None:
        self.folder = folder
        self.options = {"path": str(to), "checkpointLocation": str(folder), **options}
        (folder / "offsets").mkdir(parents=True, exist_ok=True)
        (folder / "metadata").write_text(json.dumps({"id": folder.name}))
        self.batches = len(list((folder / "offsets").iterdir()))
        self.source = "log", "orders", 1  # the log's id, the topic, and the topic's own id

    def keeps_state(self) -> Query:
        (self.folder / "state").mkdir()
        return self

    def plan(self, starts: Ends, ends: Ends) -> int:
        """Write the next batch into the checkpoint, as Spark does before it runs."""
        number, self.batches = self.batches, self.batches + 1
        offset = json.dumps(Range(*self.source, starts, ends).to_json())
        (self.folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offset}\n")
        return number

    def write(self, starts: Ends, ends: Ends, types: Sequence[str] = ("a",)) -> list[Any]:
        """Run the tasks of a batch, one for each partition."""
        writer = DeltaSink(self.options).streamWriter(SCHEMA, False)
        messages = []
        for partition, end in ends.items():
            rows = [
                {"type": types[n % len(types)], "partition": partition, "offset": n}
                for n in range(starts[partition], end)
            ]
            messages.append(writer.write(iter(pa.Table.from_pylist(rows, ARROW).to_batches())))
        return messages

    def commit(self, number: int, messages: list[Any]) -> None:
        DeltaSink(self.options).streamWriter(SCHEMA, False).commit(messages, number)

    def run(self, starts: Ends, ends: Ends, types: Sequence[str] = ("a",)) -> None:
        number = self.plan(starts, ends)
        self.commit(number, self.write(starts, ends, types))


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "my lake é"


@pytest.fixture
def query(tmp_path: Path, to: Path) -> Query:
    return Query(tmp_path / "one", to)


def ends(n: int) -> Ends:
    return dict.fromkeys(range(PARTITIONS), n)


def rows_of(path: Location) -> list[tuple[int, int]]:
    found = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted((row["partition"], row["offset"]) for row in found)


def all_places(n: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(n)]


def data_files(path: Path) -> set[str]:
    return {file.name for file in path.glob("*.parquet")}


def test_batches_that_follow_each_other_are_all_in_the_table(query: Query, to: Path) -> None:
    for n in range(0, 50, 10):
        query.run(ends(n), ends(n + 10))
    assert rows_of(to) == all_places(50)
    assert describe(to)[0].sources[0].ends == ends(50)


def test_a_batch_that_is_there_is_not_written_again(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    before = data_files(to)
    query.commit(0, query.write(ends(0), ends(10)))
    assert rows_of(to) == all_places(10)
    assert data_files(to) == before, "the files of the second try were left behind"


def test_without_the_check_the_same_crash_doubles(query: Query, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    query.run(ends(0), ends(10))
    monkeypatch.setattr("penstock.pipeline.lake.identity.ByOffsets.is_in", lambda self, table: False)
    query.commit(0, query.write(ends(0), ends(10)))
    assert len(rows_of(to)) == 2 * len(all_places(10))


def test_a_new_checkpoint_that_begins_elsewhere_is_refused_with_the_ranges(
    query: Query, to: Path, tmp_path: Path
) -> None:
    query.run(ends(0), ends(10))
    other = Query(tmp_path / "two", to)
    with pytest.raises(RangesDiffer, match=r"orders\[0\] is there up to 10, the batch brings 0 to before 15"):
        other.run(ends(0), ends(15))
    with pytest.raises(RangesDiffer, match="12 to before 15"):
        other.run(ends(12), ends(15))
    assert rows_of(to) == all_places(10)


def test_a_new_checkpoint_that_begins_where_the_table_ends_goes_on(query: Query, to: Path, tmp_path: Path) -> None:
    query.run(ends(0), ends(10))
    Query(tmp_path / "two", to).run(ends(10), ends(15))
    assert rows_of(to) == all_places(15)


def test_a_zombie_driver_is_refused_after_its_successor_has_committed(query: Query, to: Path, tmp_path: Path) -> None:
    query.run(ends(0), ends(10))
    zombie_files = query.write(ends(10), ends(18))
    number = query.plan(ends(10), ends(18))
    Query(tmp_path / "successor", to).run(ends(10), ends(14))
    with pytest.raises(RangesDiffer):
        query.commit(number, zombie_files)
    assert rows_of(to) == all_places(14)


def test_a_zombie_that_passed_the_check_is_refused_by_the_table(
    query: Query, to: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor commits between its look at the table and its commit."""
    query.run(ends(0), ends(10))
    successor = Query(tmp_path / "successor", to)
    reach = points.reach

    def overtaken(point: Any) -> None:
        monkeypatch.setattr(points, "reach", reach)
        successor.run(ends(10), ends(14))

    monkeypatch.setattr(points, "reach", overtaken)
    with pytest.raises(RangesDiffer):
        query.run(ends(10), ends(18))
    assert rows_of(to) == all_places(14)


def test_another_commit_in_between_does_no_harm(query: Query, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query.run(ends(0), ends(10))
    reach = points.reach

    def optimized(point: Any) -> None:
        monkeypatch.setattr(points, "reach", reach)
        DeltaTable(to).optimize.compact()

    monkeypatch.setattr(points, "reach", optimized)
    query.run(ends(10), ends(14))
    assert rows_of(to) == all_places(14)


def test_a_batch_without_rows_moves_the_end_of_the_table(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    query.commit(query.plan(ends(10), ends(20)), [])
    query.run(ends(20), ends(25))
    assert len(rows_of(to)) == PARTITIONS * 15
    assert describe(to)[0].sources[0].ends == ends(25)


def test_only_partitions_that_moved_are_compared(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    query.run(ends(10), ends(10) | {1: 12})
    query.run(ends(10) | {1: 12}, ends(12))
    assert rows_of(to) == all_places(12)


def test_partitions_that_came_later_begin_at_0_in_a_table_that_knows_the_topic(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    grown = dict.fromkeys(range(2 * PARTITIONS), 0) | ends(10)
    number = query.plan(grown, grown | {3: 4})
    for _ in range(2):
        query.commit(number, query.write(grown, grown | {3: 4}))
    query.run(grown | {3: 4}, grown | {0: 12, 3: 6, 5: 1})
    assert rows_of(to) == sorted([*all_places(10), (0, 10), (0, 11), *((3, n) for n in range(6)), (5, 0)])
    with pytest.raises(RangesDiffer, match=r"orders\[4\] is there up to 0, the batch brings 2 to before 3"):
        query.run(grown | {0: 12, 3: 6, 4: 2}, grown | {0: 12, 3: 6, 4: 3})


def test_a_source_without_news_in_a_batch_is_not_compared(query: Query, to: Path) -> None:
    """Spark repeats the last offset of a source that gave nothing."""
    query.run(ends(0), ends(10))
    same = (query.folder / "offsets" / "0").read_text()
    (query.folder / "offsets" / "1").write_text(same)
    query.commit(1, [])
    assert rows_of(to) == all_places(10)


@pytest.mark.parametrize("condition", ["type = 'a'", "partition = 1", '"offset" >= 8', "type IS NOT NULL"])
def test_a_reader_that_filters_by_any_column_finds_its_rows(query: Query, to: Path, condition: str) -> None:
    """Readers leave out files by their statistics: wrong ones would hide rows."""
    query.run(ends(0), ends(10), ["a", "b"])
    with duckdb.connect() as conn:
        conn.register("lazily", DeltaTable(to).to_pyarrow_dataset())
        conn.register("wholly", DeltaTable(to).to_pyarrow_table())
        counts = [
            conn.execute(f"SELECT count(*) FROM {each} WHERE {condition}").fetchone() for each in ("lazily", "wholly")
        ]
    assert counts[0] == counts[1] != (0,)


def test_of_two_sources_only_the_one_with_news_is_compared(query: Query, to: Path) -> None:
    one = Range("log", "orders", 1, ends(0), ends(5))
    two = replace(one, topic="refunds", topic_id=2)
    for number, batch in enumerate([(one, two), (one.next(ends(7)), two), (one.next(ends(7)), two.next(ends(6)))]):
        lines = "\n".join(json.dumps(each.to_json()) for each in batch)
        (query.folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{lines}\n")
        query.commit(number, [])
    assert [source.ends[0] for source in describe(to)[0].sources] == [7, 6]
    table = LakeTable(to)
    assert [table.version_of(f"penstock/log/{topic}/0") for topic in (1, 2)] == [7, 6]


def test_commits_do_not_become_dearer_with_age(query: Query, to: Path) -> None:
    for n in range(25):
        query.run(ends(n), ends(n + 1))
    assert list((to / "_delta_log").glob("*.checkpoint.parquet")), "a reader would walk all commits"
    assert rows_of(to) == all_places(25)


def test_a_query_with_state_is_known_by_its_epochs(query: Query, to: Path) -> None:
    query.keeps_state()
    query.run(ends(0), ends(10))
    query.run(ends(10), ends(20))
    query.commit(1, query.write(ends(10), ends(20)))
    assert rows_of(to) == all_places(20)


def test_a_query_with_state_and_a_new_checkpoint_is_refused_with_the_remedy(
    query: Query, to: Path, tmp_path: Path
) -> None:
    query.keeps_state().run(ends(0), ends(10))
    with pytest.raises(StateWithoutPast, match="pipeline reset --rebuild"):
        Query(tmp_path / "two", to).keeps_state().run(ends(0), ends(10))
    assert rows_of(to) == all_places(10)


def test_a_stateless_query_does_not_become_stateful_on_the_same_table(query: Query, to: Path, tmp_path: Path) -> None:
    query.run(ends(0), ends(10))
    with pytest.raises(StateWithoutPast):
        Query(tmp_path / "two", to).keeps_state().run(ends(10), ends(20))


def test_other_columns_are_refused(query: Query, to: Path, tmp_path: Path) -> None:
    DeltaTable.create(to, pa.schema([("a", pa.int64())]))
    with pytest.raises(TableDiffers, match="a long"):
        query.run(ends(0), ends(10))


def test_a_path_that_readers_would_not_find_is_refused(query: Query) -> None:
    with pytest.raises(InvalidOption, match="without %"):
        DeltaSink(query.options | {"path": "a%20b"}).streamWriter(SCHEMA, False)
    with pytest.raises(InvalidOption, match="executors see"):
        DeltaSink(query.options | {"path": "gs://bucket/x"}).streamWriter(SCHEMA, False)


def test_overwriting_is_refused(query: Query) -> None:
    with pytest.raises(InvalidOption, match="reset --rebuild"):
        DeltaSink(query.options).streamWriter(SCHEMA, True)


def test_a_batch_write_is_known_by_its_application_and_version(to: Path) -> None:
    options = {"path": str(to), "txnAppId": "nightly", "txnVersion": "7"}
    for _ in range(2):
        writer = DeltaSink(options).writer(SCHEMA, False)
        rows = pa.Table.from_pylist([{"type": "a", "partition": 0, "offset": 0}], ARROW)
        writer.commit([writer.write(iter(rows.to_batches()))])
    assert rows_of(to) == [(0, 0)]
    with pytest.raises(InvalidOption, match="txnAppId"):
        DeltaSink({"path": str(to)}).writer(SCHEMA, False)


@pytest.mark.parametrize("version", [None, "", "one", "-1", "1.5", "²", "٣", str(1 << 63), "9" * 5_000])
def test_a_batch_write_without_a_usable_number_is_refused(version: str | None) -> None:
    with pytest.raises(InvalidOption, match="txnVersion"):
        by_application("nightly", version)


def test_a_failed_task_leaves_no_file(query: Query, to: Path) -> None:
    def broken() -> Any:
        yield from pa.Table.from_pylist([{"type": "a", "partition": 0, "offset": 0}], ARROW).to_batches()
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError):
        DeltaSink(query.options).streamWriter(SCHEMA, False).write(broken())
    assert data_files(to) == set()


def test_an_aborted_batch_leaves_no_file(query: Query, to: Path) -> None:
    messages = query.write(ends(0), ends(10))
    assert data_files(to)
    DeltaSink(query.options).streamWriter(SCHEMA, False).abort([*messages, None], 0)
    assert data_files(to) == set()


# A lake: one table for each type.


@pytest.fixture
def lake(tmp_path: Path, to: Path) -> Query:
    return Query(tmp_path / "lake query", to, tableBy="type")


def lake_rows(to: Path) -> list[tuple[int, int]]:
    return sorted(place for table in tables_in(to) for place in rows_of(table))


def test_a_lake_has_a_table_for_each_type(lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(10), ["a", "b/c"])
    assert [path.name for path in tables_in(to)] == ["a", "b~2Fc"]
    assert lake_rows(to) == all_places(10)


def test_all_tables_of_a_lake_move_together(lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(10), ["a", "b"])
    lake.run(ends(10), ends(20), ["c"])
    assert {state.name: state.sources[0].ends for state in describe(to)} == dict.fromkeys("abc", ends(20))


def killed_between_tables(lake: Query, monkeypatch: pytest.MonkeyPatch, number: int, messages: Any) -> None:
    """Commit a batch, and end after the first of its tables has it."""

    def fail(point: Any) -> None:
        if point == AFTER_COMMIT:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(points, "reach", fail)
        with pytest.raises(KeyboardInterrupt):
            lake.commit(number, messages)


def test_a_crash_between_two_tables_is_made_good_by_the_same_batch(
    lake: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.run(ends(0), ends(10), ["a", "b"])
    number, messages = lake.plan(ends(10), ends(20)), lake.write(ends(10), ends(20), ["a", "b"])
    killed_between_tables(lake, monkeypatch, number, messages)
    assert {state.sources[0].ends[0] for state in describe(to)} == {10, 20}
    lake.commit(number, lake.write(ends(10), ends(20), ["a", "b"]))
    assert lake_rows(to) == all_places(20)


def test_a_table_that_began_with_some_partitions_moves_with_all(lake: Query, to: Path) -> None:
    """Partition 0 had nothing in the table's first batch, and still is known to it."""
    lake.run(ends(0), {0: 0, 1: 5, 2: 5}, ["a"])
    lake.run({0: 0, 1: 5, 2: 5}, {0: 4, 1: 5, 2: 5}, ["b"])
    assert {state.name: state.sources[0].ends for state in describe(to)} == {name: {0: 4, 1: 5, 2: 5} for name in "ab"}


def test_a_table_of_others_in_the_folder_is_left_alone(lake: Query, to: Path) -> None:
    foreign = to / "theirs"
    DeltaTable.create(foreign, pa.schema([("a", pa.int64())]))
    lake.run(ends(0), ends(10), ["a"])
    lake.run(ends(10), ends(20), ["a"])
    assert DeltaTable(foreign).version() == 0


def test_a_query_with_state_cannot_fill_a_lake(lake: Query) -> None:
    lake.keeps_state()
    with pytest.raises(InvalidOption, match="tableBy"):
        lake.run(ends(0), ends(10))


@pytest.mark.parametrize("name", ["order.placed", "a/b", "..", "_x", "ünï cødé", "a%2Fb", "~", "x" * 255, "é" * 255])
def test_any_type_has_a_folder_of_its_own(name: str, lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(2), [name])
    (found,) = tables_in(to)
    assert found.parent == to
    assert found.name[0] not in "._"
    assert rows_of(found) == all_places(2)
    assert folder_of(name) != folder_of(name + "x")
    # As a user opens it, by a plain path.
    assert DeltaTable(found).version() >= 0


# Care of the tables.


def test_a_folder_may_have_a_name_that_urls_encode(tmp_path: Path) -> None:
    """delta-rs gives the addresses of files as parts of a URL."""
    to = tmp_path / "my lake ü"
    query = Query(tmp_path / "one", to)
    query.run(ends(0), ends(10))
    assert sum(batch.num_rows for batch in LakeTable(to).batches(["offset"])) == len(all_places(10))
    for file in data_files(to):
        (to / file).unlink()
    with pytest.raises(TableDamaged, match="is not there"):
        list(LakeTable(to).batches(["offset"]))


def test_vacuum_removes_orphans_of_a_safe_age_and_nothing_else(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    query.write(ends(10), ends(20))  # killed before the commit
    orphans = data_files(to) - {Path(uri).name for uri in DeltaTable(to).file_uris()}
    assert len(orphans) == PARTITIONS
    assert vacuum(to, older_than_hours=24, dry_run=False)[0].files == ()
    for file in data_files(to):
        os.utime(to / file, (1_000, 1_000))
    assert set(vacuum(to, older_than_hours=24, dry_run=True)[0].files) == orphans
    assert set(vacuum(to, older_than_hours=24, dry_run=False)[0].files) == orphans
    assert not orphans & data_files(to)
    assert rows_of(to) == all_places(10)
    query.run(ends(10), ends(20))
    assert rows_of(to) == all_places(20)


def test_comments_and_properties_of_another_engine_do_not_stop_the_sink(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    DeltaTable(to).alter.set_column_metadata("type", {"comment": "what happened"})
    DeltaTable(to).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    query.run(ends(10), ends(20))
    assert rows_of(to) == all_places(20)
    assert '"what happened"' in DeltaTable(to).schema().to_json()


def test_other_columns_are_shown_without_those_that_agree(query: Query, to: Path) -> None:
    DeltaTable.create(to, pa.schema([*list(ARROW)[:2], ("offset", pa.string()), ("note", pa.string())]))
    with pytest.raises(TableDiffers, match="the table has offset string, note string, the batch has offset long;"):
        query.run(ends(0), ends(10))


def test_files_that_the_driver_does_not_see_are_not_committed(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    number = query.plan(ends(10), ends(20))
    gone, short, *others = query.write(ends(10), ends(20))
    (to / gone.files[0].name).unlink()
    (to / short.files[0].name).write_bytes(b"PAR1")
    with pytest.raises(FilesUnseen, match="2 files that tasks have written"):
        query.commit(number, [gone, short, *others])
    assert rows_of(to) == all_places(10)
    assert describe(to)[0].sources[0].ends == ends(10)


def test_no_table_of_a_lake_has_a_batch_of_which_one_file_is_not_seen(lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(10), ["a", "b"])
    number = lake.plan(ends(10), ends(20))
    messages = lake.write(ends(10), ends(20), ["a", "b"])
    unseen = next(each for message in messages for each in message.files if each.table.endswith("b"))
    (to / "b" / unseen.name).unlink()
    with pytest.raises(FilesUnseen, match=r"table .*b: the driver does not see 1 files"):
        lake.commit(number, messages)
    assert [each.sources[0].ends for each in describe(to)] == [ends(10), ends(10)]


def test_vacuum_finds_files_of_a_table_that_never_came_to_be(lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(10), ["a"])
    lake.write(ends(10), ends(20), ["never"])
    for file in (to / "never").iterdir():
        os.utime(file, (1_000, 1_000))
    done = {each.table: each.files for each in vacuum(to, older_than_hours=1, dry_run=False)}
    assert len(done["never"]) == PARTITIONS
    assert not list((to / "never").iterdir())


def test_a_table_tells_its_size(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    (state,) = describe(to)
    assert (state.size.rows, state.size.files) == (30, 3)
    assert state.size.bytes == sum(file.stat().st_size for file in to.glob("*.parquet"))
    assert LakeTable(to).sources()[0].topic == "orders"


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="tables of a pipeline"):
        describe(tmp_path)


def test_a_checkpoint_that_is_not_there_is_refused(query: Query) -> None:
    messages = query.write(ends(0), ends(1))
    with pytest.raises(InvalidOption, match="batch 3"):
        query.commit(3, messages)


def test_the_range_of_one_source_of_two_counts_for_itself(query: Query, to: Path) -> None:
    """A union of two topics: both must be there, or neither."""
    one = Range("log", "orders", 1, ends(0), ends(5))
    two = replace(one, topic="refunds", topic_id=2)
    lines = "\n".join(json.dumps(each.to_json()) for each in (one, two))
    (query.folder / "offsets" / "0").write_text(f"v1\n{{}}\n{lines}\n")
    query.commit(0, query.write(ends(0), ends(5)))
    query.commit(0, query.write(ends(0), ends(5)))
    assert rows_of(to) == all_places(5)
    assert [source.topic for source in describe(to)[0].sources] == ["orders", "refunds"]
    (query.folder / "offsets" / "1").write_text(
        "v1\n{}\n" + "\n".join(json.dumps(each.to_json()) for each in (replace(one, starts=ends(0), ends=ends(9)), two))
    )
    with pytest.raises(RangesDiffer):
        query.commit(1, [])
