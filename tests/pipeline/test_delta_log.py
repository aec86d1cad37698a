"""The commits that are written here, whoever has read the log; a log of another form is read by delta-rs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from penstock.errors import TableAsksMore
from penstock.pipeline.lake.delta.log import read_log, write_commit
from penstock.pipeline.lake.delta.table import LakeTable
from penstock.pipeline.lake.storage.local import LocalStorage
from tests.pipeline.test_table import Query, all_places, ends, rows_of


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def query(tmp_path: Path, to: Path) -> Query:
    return Query(tmp_path / "checkpoint", to)


def actions(to: Path, version: int) -> list[dict[str, Any]]:
    lines = (to / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("batches", [3, 25])  # 25: with checkpoints of the table
def test_the_log_says_what_delta_rs_says(query: Query, to: Path, batches: int) -> None:
    for n in range(batches):
        query.run(ends(n), ends(n + 1))
    table, log = DeltaTable(to), read_log(to)
    assert log is not None
    assert log.applications is not None
    assert log.version == table.version() == batches
    assert json.loads(log.metadata.schemaString) == json.loads(table.schema().to_json())
    assert {name: table.transaction_version(name) for name in log.applications} == log.applications
    assert len(log.applications) == 4
    assert rows_of(to) == all_places(batches)
    assert (to / "_delta_log" / "_last_checkpoint").exists() == (batches > 10)
    earlier = read_log(to, batches - 1)
    assert earlier is not None
    assert earlier.applications is not None
    named = earlier.applications.pop("penstock-topic/orders")
    assert named == log.applications["penstock-topic/orders"]
    assert set(earlier.applications.values()) == {batches - 1}


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 4},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants"]},
    ],
)
def test_a_table_that_asks_more_of_its_writers_gets_the_same_commits(
    query: Query, to: Path, protocol: dict[str, Any]
) -> None:
    query.run(ends(0), ends(1))
    (to / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    query.run(ends(1), ends(2))
    kinds = [[next(iter(each)) for each in actions(to, version)] for version in (1, 3)]
    assert [each for each in kinds[0] if each != "metaData"][:2] == kinds[1][:2] == ["commitInfo", "add"]
    assert actions(to, 3)[0]["commitInfo"]["engineInfo"] == "penstock"
    assert rows_of(to) == all_places(2)
    assert DeltaTable(to).transaction_version("penstock/log/1/0") == 2


def test_a_table_with_a_feature_that_is_not_known_is_refused(query: Query, to: Path) -> None:
    query.run(ends(0), ends(1))
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}
    (to / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    table = LakeTable(to)
    with pytest.raises(TableAsksMore, match="inCommitTimestamp"):
        table.replace((), ())
    with pytest.raises(TableAsksMore, match="inCommitTimestamp"):
        query.run(ends(1), ends(2))


def test_files_are_removed_by_their_paths_in_the_log(to: Path) -> None:
    """Other engines write the values of partitions into paths, and encode them twice."""
    rows = pa.table({"part": ["2026-11-16T02", "a b:c%/x", None], "n": [1, 2, 3]})
    write_deltalake(to, rows, partition_by=["part"])
    table = LakeTable(to)
    gone = [each.name for each in table.files() if each.part["part"] != "2026-11-16T02"]
    table.replace((), gone)
    assert DeltaTable(to).to_pyarrow_table().column("n").to_pylist() == [1]
    with pytest.raises(CommitFailedError):
        LakeTable(to).replace((), gone)


def test_no_rows_are_removed_from_a_table_that_is_append_only(to: Path) -> None:
    write_deltalake(to, pa.table({"n": [1]}), configuration={"delta.appendOnly": "true"})
    table = LakeTable(to)
    with pytest.raises(TableAsksMore, match="appendOnly"):
        table.replace((), sorted(table.file_names()))


def test_a_version_is_written_once_also_when_its_file_was_cleaned_up(query: Query, to: Path) -> None:
    query.run(ends(0), ends(1))
    log = read_log(to)
    assert log is not None
    write_commit(to, log, [], [("somebody", 1)], {})
    with pytest.raises(CommitFailedError):
        write_commit(to, log, [], [("somebody", 2)], {})
    for n in range(1, 12):
        query.run(ends(n), ends(n + 1))
    (to / "_delta_log" / f"{2:020}.json").unlink()  # the checkpoint has it
    with pytest.raises(CommitFailedError):
        write_commit(to, log, [], [("somebody", 2)], {})
    assert DeltaTable(to).transaction_version("somebody") == 1
    assert not list((to / "_delta_log").glob("*.tmp"))


def test_a_commit_whose_name_was_passed_while_it_waited_is_refused(
    query: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others commit, and the past goes with their files: its name is free again, where no reader looks."""
    query.run(ends(0), ends(1))
    log = read_log(to)
    assert log is not None
    put = LocalStorage.put_new

    def late(storage: LocalStorage, file: Path, content: bytes) -> None:
        monkeypatch.undo()
        for n in range(1, 12):
            query.run(ends(n), ends(n + 1))
        file.unlink()
        put(storage, file, content)

    monkeypatch.setattr(LocalStorage, "put_new", late)
    with pytest.raises(CommitFailedError):
        write_commit(to, log, [], [("somebody", 2)], {})
    assert DeltaTable(to).transaction_version("somebody") is None


def test_a_log_in_a_form_that_is_not_known_is_read_by_delta_rs(query: Query, to: Path) -> None:
    for n in range(11):
        query.run(ends(n), ends(n + 1))
    last = to / "_delta_log" / "_last_checkpoint"
    last.write_text(json.dumps(json.loads(last.read_text()) | {"parts": 2}))
    assert read_log(to) is None
    query.run(ends(11), ends(12))
    last.unlink()
    assert read_log(to) is None  # what is before a checkpoint may not be there
    query.run(ends(12), ends(13))
    assert rows_of(to) == all_places(13)
    assert actions(to, 13)[0]["commitInfo"]["engineInfo"] == "penstock"
