"""The heart: whatever the writers do, each committed event is in the log once, dense, in order per key."""

from __future__ import annotations

import pytest

from tests.crash.account import breaches, logged
from tests.crash.conftest import KEYS, TOPICS
from tests.crash.store import Store
from tests.crash.traffic import Traffic
from tests.crash.waiting import wait_until
from tests.services.budget import Budget


def run_traffic(store: Store, events: int, seed: int) -> Traffic:
    """Write so many events under contention, and wait until all are in the log."""
    traffic, before = Traffic(store, topics=list(TOPICS), keys=KEYS, seed=seed), deadlocks(store)
    with traffic.contention():
        traffic.write(events)
        wait_until(lambda: store.waiting() == 0, "all staged events are in the log")
    assert deadlocks(store) == before, "somebody locks in another order than the rest"
    return traffic


def deadlocks(store: Store) -> int:
    """Return how often the server has ended one of two that waited for each other."""
    if not store.on_postgres:
        return 0
    count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    return int(store.rows(count)[0][0])


def check(store: Store, traffic: Traffic, events: int) -> None:
    """Find no breach, though everything that could cause one was there."""
    assert breaches(store, appended=traffic.appended) == []
    ids = {row.id for row in logged(store)}
    assert not ids & set(traffic.rolled_back)
    assert len(ids) >= events
    assert traffic.is_contended()


def test_two_thousand_events_of_overlapping_writers_are_once_dense_and_in_order(
    postgres_store: Store, budget: Budget
) -> None:
    traffic = run_traffic(postgres_store, 2_000, seed=budget.base_seed)
    check(postgres_store, traffic, 2_000)


def test_the_same_holds_in_a_sqlite_file(sqlite_store: Store, budget: Budget) -> None:
    traffic = run_traffic(sqlite_store, 400, seed=budget.base_seed)
    check(sqlite_store, traffic, 400)


@pytest.mark.slow
def test_ten_thousand_events_of_overlapping_writers_are_once_dense_and_in_order(
    postgres_store: Store, budget: Budget
) -> None:
    written = 0
    for turn in budget("crash.commit_order"):
        traffic = run_traffic(postgres_store, 10_000, seed=turn.seed)
        written += 10_000
        check(postgres_store, traffic, written)
