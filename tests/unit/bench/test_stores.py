"""The stores that the cases about the outbox work on: equal copies, true recordings."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bench import Run, Size
from bench.catalogue import catalogue
from bench.meter import ProcessMeter
from bench.result import CaseResult, Settings
from bench.run import Shared
from bench.runner import Runner
from bench.stores import EVEN, filled, sqlite
from bench.stores import filling as filling_module
from bench.stores.mover import Mover, count_logged, count_staged, tape_of_drain
from bench.stores.sqlite import SqliteEngine, SqliteStore
from tests.unit.bench.fakes import Journal

HISTORY = 300


@pytest.fixture(autouse=True)
def short_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling_module, "HISTORY", Size(quick=HISTORY, full=HISTORY))


@pytest.fixture
def run() -> Iterator[Run]:
    with Shared() as shared:
        yield Run(full=False, records=200, round=1, shared=shared)


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteEngine(tmp_path).create()


def log_of(store: SqliteStore) -> list[tuple[object, ...]]:
    with closing(store.connect()) as conn:
        return conn.execute('SELECT * FROM penstock_log ORDER BY topic_id, partition, "offset"').fetchall()


def small(name: str, engine: str) -> CaseResult:
    """Run a case's variants on one engine once, on few records."""
    case = catalogue()[name]()
    variants = [variant for variant in case.variants if variant.name.endswith(engine)]
    names = {variant.name for variant in variants}
    targets = [target for target in case.targets if names.issuperset(target.of.variants)]
    journal = Journal()
    result = Runner(Settings(rounds=1), ProcessMeter(), journal).run(
        replace(case, records=2_000, variants=variants, targets=targets)
    )
    assert [variant.not_measured for variant in result.variants] == [None] * len(variants), journal.lines
    return result


def test_a_filled_store_is_in_use_and_has_as_many_staged_as_there_are_records(run: Run) -> None:
    with filled(sqlite, EVEN)(run) as store, closing(store.connect()) as conn:
        assert (count_logged(conn), count_staged(conn)) == (HISTORY, run.records)
        assert conn.execute("SELECT DISTINCT owner, epoch FROM penstock_slot").fetchall() == [("bench", 1)]


def test_what_happens_to_one_copy_does_not_happen_to_the_next(run: Run) -> None:
    with filled(sqlite, EVEN)(run) as store, closing(Mover(store)) as mover:
        assert mover.drain() == run.records
        assert mover.poll() == 0
    with filled(sqlite, EVEN)(run) as store, closing(store.connect()) as conn:
        assert count_staged(conn) == run.records


def test_a_tape_gives_the_same_log_as_the_move_it_was_taken_from(run: Run) -> None:
    setup = filled(sqlite, EVEN)
    with setup(run) as moved:
        tape = tape_of_drain(moved)
        expected = log_of(moved)  # type: ignore[arg-type]
    with setup(run) as played:
        with closing(played.connect(autocommit=True)) as conn:
            played.play(conn, tape)
        assert log_of(played) == expected  # type: ignore[arg-type]
    assert len(expected) == HISTORY + run.records


@pytest.mark.parametrize("name", ["move", "publish_many", "memory_growth"])
def test_the_cases_run_on_sqlite(name: str) -> None:
    result = small(name, "SQLite")
    assert all(target.value is not None for target in result.targets)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["move", "publish_many", "memory_growth"])
def test_the_cases_run_on_postgresql(name: str) -> None:
    result = small(name, "PostgreSQL")
    assert all(target.value is not None for target in result.targets)
