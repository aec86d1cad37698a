"""A statement touches the tables of its own room; nobody but the log names the log's table."""

from pathlib import Path

import pytest

from tests.architecture.source import ROOT, assert_none, plant
from tests.architecture.sql_tables import EXCEPTIONS, OWNERS, breaches, names_of_the_log

HEAD = "-- name: x\n-- Walks the primary key.\n"
PLANTED = {
    "a join with the log": ("delivery", "SELECT 1 FROM penstock_cursor c JOIN penstock_log l ON true;"),
    "a write to another room": ("operate", "DELETE FROM penstock_lane;"),
    "a lock on another room's rows": ("operate", "SELECT 1 FROM penstock_cursor FOR UPDATE;"),
    "a read of a room that is not among those below": ("operate", "SELECT 1 FROM penstock_kafka_group;"),
    "a read by a room that may not": ("delivery", "SELECT 1 FROM penstock_staged;"),
    "a table that nobody owns": ("log", "SELECT 1 FROM penstock_nobody;"),
    "a room that owns nothing": ("pipeline", "SELECT 1 FROM penstock_head;"),
}


def test_every_statement_touches_only_what_its_room_owns() -> None:
    assert_none(breaches(ROOT))


def test_nobody_but_the_log_names_its_table() -> None:
    assert_none(names_of_the_log(ROOT))


def test_a_table_has_one_owner() -> None:
    owned = [table for tables in OWNERS.values() for table in tables]
    assert len(owned) == len(set(owned))


def test_every_table_of_the_schema_has_an_owner() -> None:
    scripts = ROOT.joinpath("database", "postgres", "migrations").glob("*.sql")
    lines = [line for each in scripts for line in each.read_text("utf-8").splitlines()]
    made = {line.split()[2] for line in lines if line.startswith("CREATE TABLE ")}
    assert made == {f"penstock_{table}" for tables in OWNERS.values() for table in tables}


def test_exceptions_are_few_and_say_why() -> None:
    assert len(EXCEPTIONS) <= 16
    assert all(reason for _, reason in EXCEPTIONS.values())


@pytest.mark.parametrize("case", PLANTED, ids=str)
def test_a_planted_breach_is_found(case: str, tmp_path: Path) -> None:
    room, statement = PLANTED[case]
    plant(tmp_path, f"{room}/sql/postgres.sql", HEAD + statement)
    (found,) = breaches(tmp_path)
    assert "which other rooms own" in found


def test_operations_may_read_the_tables_of_the_rooms_below(tmp_path: Path) -> None:
    read = "SELECT 1 FROM penstock_lane CROSS JOIN penstock_staged;"
    plant(tmp_path, "operate/sql/common.sql", HEAD + read)
    assert list(breaches(tmp_path)) == []


@pytest.mark.parametrize("file", ["operate/x.py", "pipeline/sql/common.sql"])
def test_a_planted_name_of_the_log_is_found(file: str, tmp_path: Path) -> None:
    plant(tmp_path, file, "SELECT 1 FROM penstock_log")
    plant(tmp_path, "log/sql/common.sql", "SELECT 1 FROM penstock_log")
    assert list(names_of_the_log(tmp_path)) == [f"{file} names penstock_log"]
