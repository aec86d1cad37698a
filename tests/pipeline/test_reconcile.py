"""From the log to the lake: the numbers agree, and one row less anywhere turns them red with the range."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from penstock.cli import group
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_continue import Driver


@pytest.fixture
def lake(store: LogStore, tmp_path: Path) -> Path:
    """Give a lake that holds the whole log."""
    store.fill(200)
    Driver(store, tmp_path / "lake", tmp_path / "checkpoint").step()
    return tmp_path / "lake"


def run(store: LogStore, lake: Path, *words: str) -> Any:
    return CliRunner().invoke(
        group,
        ["reconcile", "--url", store.url, "--topic", TOPIC, "--lake", str(lake), *words],
        catch_exceptions=False,
    )


def test_a_whole_lake_agrees_with_its_log(store: LogStore, lake: Path) -> None:
    done = run(store, lake)
    assert (done.exit_code, done.output) == (0, "reconciled: logged=200 table=200\n")
    found = json.loads(run(store, lake, "--json").output)
    assert found["agrees"]


def test_a_deleted_row_of_a_table_turns_it_red_with_the_range(store: LogStore, lake: Path) -> None:
    place = 'partition = 3 AND "offset" = 2'
    for table in lake.iterdir():
        if table.name != "_penstock":
            DeltaTable(table).delete(place)
    done = run(store, lake)
    assert done.exit_code == 1
    assert "table: partition 3, 2 to before 3, is not in the tables" in done.output
    assert done.output.endswith("NOT reconciled: logged=200 table=199\n")


def test_a_deleted_row_of_the_log_turns_it_red_with_the_range(store: LogStore, lake: Path) -> None:
    store.run('DELETE FROM penstock_log WHERE partition = 3 AND "offset" = 2')
    done = run(store, lake)
    assert done.exit_code == 1
    assert "logged: partition 3, 2 to before 3, is not in the log" in done.output


def test_a_lake_that_is_behind_does_not_agree_yet(store: LogStore, lake: Path) -> None:
    store.fill(10)
    done = run(store, lake)
    assert done.exit_code == 1
    assert "NOT reconciled: logged=210 table=200" in done.output
