"""A commit that is written here is one that delta-rs would have written; what is not ours is left to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from penstock.pipeline.lake.delta.log import LogState, add_files, read_log
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
    assert log.version == table.version() == batches
    assert log.schema() == json.loads(table.schema().to_json())
    assert {name: table.transaction_version(name) for name in log.applications} == log.applications
    assert len(log.applications) == 4
    assert rows_of(to) == all_places(batches)
    assert (to / "_delta_log" / "_last_checkpoint").exists() == (batches > 10)
    earlier = read_log(to, batches - 1)
    assert earlier is not None
    named = earlier.applications.pop("penstock-topic/orders")
    assert named == log.applications["penstock-topic/orders"]
    assert set(earlier.applications.values()) == {batches - 1}


def test_both_write_the_same_but_for_their_names(
    query: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(ends(0), ends(1))  # the first one says more
    query.run(ends(1), ends(2))
    monkeypatch.setattr(LogState, "can_be_added_to", lambda self: False)
    query.run(ends(2), ends(3))
    ours, theirs = actions(to, 2), actions(to, 3)
    assert [next(iter(each)) for each in ours] == [next(iter(each)) for each in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        (kind,) = mine
        known = {name for name, each in other[kind].items() if each is not None} - {"clientVersion"}
        assert mine[kind].keys() == known, kind
    assert ours[0]["commitInfo"]["operationParameters"] == theirs[0]["commitInfo"]["operationParameters"]


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 4},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants"]},
    ],
)
def test_a_table_that_asks_more_of_its_writers_is_left_to_delta_rs(
    query: Query, to: Path, protocol: dict[str, Any]
) -> None:
    query.run(ends(0), ends(1))
    (to / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    query.run(ends(1), ends(2))
    assert actions(to, 1)[0]["commitInfo"]["engineInfo"] == "penstock"
    assert actions(to, 3)[0]["commitInfo"]["engineInfo"].startswith("delta-rs")
    assert rows_of(to) == all_places(2)


def test_a_version_is_written_once_also_when_its_file_was_cleaned_up(query: Query, to: Path) -> None:
    query.run(ends(0), ends(1))
    log = read_log(to)
    assert log is not None
    add_files(to, log, [], [("somebody", 1)], {})
    with pytest.raises(CommitFailedError):
        add_files(to, log, [], [("somebody", 2)], {})
    for n in range(1, 12):
        query.run(ends(n), ends(n + 1))
    (to / "_delta_log" / f"{2:020}.json").unlink()  # the checkpoint has it
    with pytest.raises(CommitFailedError):
        add_files(to, log, [], [("somebody", 2)], {})
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
        add_files(to, log, [], [("somebody", 2)], {})
    assert DeltaTable(to).transaction_version("somebody") is None


def test_a_log_in_a_form_that_is_not_known_is_left_to_delta_rs(query: Query, to: Path) -> None:
    for n in range(11):
        query.run(ends(n), ends(n + 1))
    last = to / "_delta_log" / "_last_checkpoint"
    last.write_text(json.dumps(json.loads(last.read_text()) | {"parts": 2}))
    assert read_log(to) is None
    last.unlink()
    assert read_log(to) is None  # what is before a checkpoint may not be there
    query.run(ends(11), ends(12))
    assert rows_of(to) == all_places(12)
