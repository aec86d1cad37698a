"""The worker processes that the cases about delivery measure: they count truly, wait truly and leave."""

from collections.abc import Iterator
from contextlib import closing
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench import Run, Size, Variant
from bench.catalogue import catalogue
from bench.meter import ProcessMeter
from bench.result import Settings
from bench.run import Shared
from bench.runner import Runner
from bench.stores import filling as filling_module
from bench.stores import sqlite
from bench.stores.sqlite import SqliteEngine, SqliteStore
from bench.workers import Team, deliver, team, waiting, worker_process
from bench.workers.bells import sleeper
from bench.workers.counting import StatementCount
from bench.workers.tally import Tally
from tests.unit.bench.fakes import Journal

HISTORY = 50


@pytest.fixture(autouse=True)
def short_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling_module, "HISTORY", Size(quick=HISTORY, full=HISTORY))


@pytest.fixture
def run() -> Iterator[Run]:
    with Shared() as shared:
        yield Run(full=False, records=40, round=1, shared=shared)


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    made = SqliteEngine(tmp_path).create()
    made.outbox.log.create_topic("events")
    return made


def owners(store: SqliteStore) -> set[str | None]:
    with closing(store.connect()) as conn:
        return {row[0] for row in conn.execute("SELECT owner FROM penstock_slot")}


def test_a_tally_that_is_not_reached_says_so_and_one_that_was_returns_at_once() -> None:
    tally = Tally()
    tally.add()
    assert tally.wait(2, 0) is None
    assert tally.wait(1, 0) is not None


def test_statements_are_counted_only_within_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.Cursor, "execute", lambda cursor, query, params=None, **options: None)
    statements = StatementCount()
    cursor = object.__new__(psycopg.Cursor)
    with statements:
        psycopg.Cursor.execute(cursor, "SELECT 1")
        psycopg.Cursor.execute(cursor, "SELECT 2")
    psycopg.Cursor.execute(cursor, "SELECT 3")
    assert statements.count() == 2


def test_a_sleeper_answers_each_time_it_is_woken(store: SqliteStore) -> None:
    with sleeper(store) as thread:
        assert 0 < thread.wake() < thread.wake()
    assert not thread.thread.is_alive()


def test_a_worker_process_handles_what_comes_and_leaves(store: SqliteStore) -> None:
    with worker_process(store.url, "count") as worker:
        worker.begin()
        here = Team(SqliteEngine(store.path.parent), store, [worker])
        here.wait_until_shared()
        here.handle(5, keys=5, prefix="order")
        assert worker.handled() == 5
        assert len(owners(store) - {None}) == 1
    assert owners(store) == {None}


def test_a_round_delivers_what_it_staged_and_no_history(run: Run) -> None:
    setup = waiting(team(sqlite, "stamp"))
    for round in (1, 2):
        with setup(run) as at:
            assert at.team.handled() == (round - 1) * run.records  # nothing before the commit
            rate = deliver(run, at)
        assert rate is not None
        assert rate["handled_per_second"] > 0
    assert at.team.handled() == 2 * run.records
    assert len(at.team.workers[0].stamps()) == 2 * run.records
    assert at.team.workers[0].stamps() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["latency", "transaction"])
def test_the_cases_about_workers_run(name: str) -> None:
    case = catalogue()[name]()
    case = replace(case, records=5, variants=[_of_the_case_size(each) for each in case.variants])
    journal = Journal()
    result = Runner(Settings(rounds=1), ProcessMeter(), journal).run(case)
    assert [variant.not_measured for variant in result.variants] == [None] * len(case.variants), journal.lines
    assert all(target.value is not None for target in result.targets)


def _of_the_case_size(variant: Variant[Any]) -> Variant[Any]:
    made = copy(variant)
    made.records = None
    return made
