"""Workers under faults for a while: nothing is lost, inverted, unmarked or given up, and all is drained."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.arrivals import GROUPS, KILLER, breaches, summary
from tests.faults.crew import KEYS, LEASE_SECONDS, LONG_LEASE_SECONDS, Crew, FaultStore, Traffic
from tests.services.budget import Budget, Round, level_from_environment

WORKERS = 4
DRAINED_SECONDS = 60.0
GAPS = {"fast": (2.0, 4.0), "slow": (2.0, 5.0), "long": (4.0, 20.0)}  # seconds between two faults
POISONED = "poisoned"  # the killer's key


@pytest.fixture
def sqlite_faults(tmp_path: Path) -> FaultStore:
    """Give a store of its own in a SQLite file."""
    return FaultStore(f"sqlite:///{tmp_path}/shop.db")


@pytest.fixture
def postgres_faults(postgres_url: str) -> FaultStore:
    """Give a store of its own on PostgreSQL."""
    return FaultStore(postgres_url)


@pytest.mark.slow
@pytest.mark.parametrize("run", [1, *(pytest.param(run, marks=pytest.mark.long) for run in (2, 3))])
def test_on_postgresql(run: int, postgres_faults: FaultStore, tmp_path: Path, budget: Budget) -> None:
    disturb(postgres_faults, tmp_path, budget("faults.run"), run)


@pytest.mark.slow
def test_on_sqlite(sqlite_faults: FaultStore, tmp_path: Path, budget: Budget) -> None:
    disturb(sqlite_faults, tmp_path, budget("faults.run"), 1)


def disturb(store: FaultStore, folder: Path, rounds: Iterator[Round], run: int) -> None:
    """Kill one of them, or stop one past its lease, again and again; then see that all is as promised."""
    with Traffic(store) as traffic, Crew(store, folder, WORKERS) as crew:
        for turn in rounds:
            rng = random.Random(turn.seed + run)
            crew.tend_for(rng.uniform(*GAPS[level_from_environment()]))
            rng.choice([crew.kill, crew.kill, crew.stop_past_its_lease])(rng)
        crew.tend_until_resumed()  # one that is stopped may hold SQLite's file, and traffic would wait for it
        traffic.__exit__()
        drained = crew.tend_until(lambda: store.is_drained(traffic.published), DRAINED_SECONDS)
        assert store.left() == []
        assert drained, "not all was drained in time"
        # One that was killed last is not replaced yet, and one that has just begun hears nothing yet.
        assert set(crew.stop()) <= {0, -signal.SIGTERM, -signal.SIGKILL}
        print(f"{crew.deaths} deaths; {summary(crew.arrivals())}")
        assert breaches(crew.arrivals(), store.places(), GROUPS) == []
    effects = store.rows("SELECT place, at FROM effect")
    assert len(effects) == len(set(effects)) == traffic.published


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_nothing_changes_hands_because_the_time_of_day_is_set(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Forward past every lease and back again, for all processes of a machine, beside traffic."""
    store: FaultStore = request.getfixturevalue(f"{kind}_faults")
    with Traffic(store) as traffic, Crew(store, tmp_path, 2, has_clock=True) as crew:
        assert crew.tend_until(lambda: None not in {owner for _, _, owner, _ in store.owners()}, 60)
        crew.tend_for(2 * LEASE_SECONDS)  # until shares have settled
        before = store.owners()
        for ahead in (4, 7200, -7200, 0):
            crew.set_clock(ahead)
            crew.tend_for(1.5 * LEASE_SECONDS)
        traffic.__exit__()
        crew.set_clock(7201)  # a retry that was put off while the clock was ahead is due by that clock
        assert crew.tend_until(lambda: store.is_drained(traffic.published), DRAINED_SECONDS), store.left()
        assert store.owners() == before
        assert breaches(crew.arrivals(), store.places(), GROUPS) == []
        assert [each for each in crew.arrivals() if each.redelivered and each.group != "retried"] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_records_that_an_idle_owner_hands_out_after_its_loss_come_again_marked(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It learns of its heir late; records come meanwhile, and the heir had seen the end of the log before."""
    store: FaultStore = request.getfixturevalue(f"{kind}_faults")
    keys = [f"k-{number}" for number in range(KEYS)]
    published = store.publish(*keys)
    with Crew(store, tmp_path, 2, lease_seconds=LONG_LEASE_SECONDS) as crew:
        assert crew.tend_until(lambda: len(owners_of(store) - {None}) == 2, 60)
        assert crew.tend_until(lambda: store.is_drained(published), DRAINED_SECONDS), store.left()
        stale, before = crew.pid(0), store.owners()
        holds = [crew.hold(0, "membership")]
        assert crew.tend_until(holds[0].with_suffix(".membership.held").exists, 60), crew.said()
        store.end_lease(stale)
        assert crew.tend_until(lambda: len(owners_of(store)) == 1, 60)
        published += store.publish(key_of_one_before(crew, before, owners_of(store)))
        assert crew.tend_until(lambda: store.is_drained(published), DRAINED_SECONDS), store.left()
        places = store.places()
        holds.append(crew.hold(1, "handlers"))
        published += store.publish(*keys[:40])
        assert crew.tend_until(lambda: was_given(crew, stale, places), DRAINED_SECONDS), crew.said()
        for each in holds:
            each.unlink()
        assert crew.tend_until(lambda: store.is_drained(published), DRAINED_SECONDS), store.left()
        print(f"{was_given(crew, stale, places)} by the stale owner; {summary(crew.arrivals())}")
        assert breaches(crew.arrivals(), store.places(), GROUPS) == []


def owners_of(store: FaultStore) -> set[object]:
    """Return the owners of the partitions of all groups; None: one has no owner yet."""
    return {owner for _, _, owner, _ in store.owners()}


def key_of_one_before(crew: Crew, before: list[tuple[object, ...]], heir: set[object]) -> str:
    """Return a key whose partition the heir had before in most groups: the stale owner does not see it."""
    had = Counter(partition for _, partition, owner, _ in before if owner in heir)
    return max(crew.arrivals(), key=lambda each: had[each.partition]).key


def was_given(crew: Crew, pid: int, before: set[tuple[int, int]]) -> int:
    """Return how often a process was given a record that came later than these."""
    return sum(each.pid == pid and each.place not in before for each in crew.arrivals())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def test_a_record_that_kills_is_set_aside_and_nobody_else_is(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Its key waits in that group; all the others, and the other groups, go on."""
    store: FaultStore = request.getfixturevalue(f"{kind}_faults")
    poisoned = [{"type": type, "value": 1, "key": POISONED} for type in (KILLER, "t")]
    with Traffic(store) as traffic, Crew(store, tmp_path, 2) as crew:
        traffic.add(*poisoned)
        assert crew.tend_until(lambda: reasons(store), 120), store.left()
        traffic.__exit__()
        rest = len(poisoned)
        assert crew.tend_until(lambda: store.is_drained(traffic.published, rest), DRAINED_SECONDS), store.left()
        held, places, arrivals = store.waiting(), store.places(), crew.arrivals()
        assert crew.deaths >= 3
    assert breaches(arrivals, places - held, ["plain"]) == []
    assert breaches(arrivals, places, set(GROUPS) - {"plain"}) == []
    assert {each.key for each in arrivals if each.place in held} == {POISONED}
    assert len(reasons(store)) == 1
    assert store.rows("SELECT reason FROM penstock_dead") == []


def reasons(store: FaultStore) -> list[str]:
    """Return why lanes wait that were set aside for what they did to a process."""
    rows = store.rows("SELECT reason FROM penstock_lane WHERE reason LIKE '%killed its worker%'")
    return [reason for (reason,) in rows]
