"""The worker processes that the cases about delivery measure: they count truly, wait truly and leave."""

from collections.abc import Iterator
from contextlib import closing
from copy import copy
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from bench import NotMeasured, Run, Size, Variant
from bench.catalogue import catalogue
from bench.meter import ProcessMeter
from bench.result import Settings
from bench.rivals import PGQUEUER, PROCRASTINATE
from bench.run import Shared
from bench.runner import Runner
from bench.stores import EVEN, Load, sqlite
from bench.stores import filling as filling_module
from bench.stores.sqlite import SqliteEngine, SqliteStore
from bench.workers import PARKED, Team, deliver, events, team, waiting, worker_process
from bench.workers import teams as team_module
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


def test_a_tally_of_many_threads_is_exact() -> None:
    tally = Tally()

    def add_many() -> None:
        for _ in range(1_000):
            tally.add()

    threads = [Thread(target=add_many) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert tally.wait(8_000, 30) is not None
    assert tally.count() == 8_000


def test_a_tally_that_is_not_reached_says_so_and_one_that_was_returns_at_once() -> None:
    tally = Tally()
    tally.add()
    assert tally.wait(2, 0) is None
    assert tally.wait(1, 0) is not None


def test_events_come_in_chunks_with_the_keys_that_are_asked_for() -> None:
    chunks = list(events(Load(keys=1_500), 1_500, PARKED))
    assert [len(chunk) for chunk in chunks] == [1000, 500]
    keys = {event["key"] for chunk in chunks for event in chunk}
    assert len(keys) == 1_500
    assert all(key.startswith(PARKED) for key in keys)
    assert next(events(EVEN, 1))[0]["key"] == "order-0"


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


def test_rivals_have_environments_of_their_own() -> None:
    assert PGQUEUER.folder != PROCRASTINATE.folder
    assert hash(PGQUEUER) != hash(PROCRASTINATE)


def test_a_wait_in_vain_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_module, "LONGEST_SECONDS", 0.0)
    with pytest.raises(NotMeasured, match="until the moon is blue"):
        team_module.wait_for(lambda: False, "the moon is blue")


def test_a_worker_process_handles_what_comes_and_leaves(store: SqliteStore) -> None:
    with worker_process(store.url, "storm") as worker:
        worker.begin()
        here = Team(SqliteEngine(store.path.parent), store, [worker])
        here.wait_until_shared()
        here.handle(5, keys=5, prefix="order")
        assert worker.handled() == 5  # each once, though each was tried twice
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
@pytest.mark.parametrize("name", ["parking_storm", "worker_scaling", "latency"])
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
