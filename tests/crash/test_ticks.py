"""Schedules of workers that are killed: each tick once, and with catch-up of all none missed."""

from __future__ import annotations

import random
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial

import pytest

from penstock.log.contract import Position
from penstock.outbox.periodic.rows import AFTER_TICK
from penstock.wire.kafka.headers import decode_headers
from tests.crash.children import Child
from tests.crash.store import Store
from tests.crash.waiting import wait_until
from tests.services.budget import Budget

WORKERS = 3
SECOND = timedelta(seconds=1)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_tick_comes_once_and_none_is_missed_whoever_is_killed(store: Store, budget: Budget) -> None:
    """Three workers, a tick a second, and kills; once of all, then of one that has just taken a tick."""
    with ExitStack() as stack:

        def another(kill_at: str | None = None, visit: int = 1) -> Child:
            program = Child("tick", url=store.url, every=1, catch_up="all", kill_at=kill_at, visit=visit)
            return stack.enter_context(program)

        workers = [another() for _ in range(WORKERS)]
        lasting = set(workers)  # those that end only when they are killed from outside
        for turn in budget("crash.ticks"):
            rng, taken_at = random.Random(turn.seed), last_tick(store)
            wait_until(partial(has_passed, store, taken_at + 2000), "two more ticks are taken")
            if turn.number == 2:
                for each in workers:
                    each.kill()
                wait_until(another(AFTER_TICK).is_gone, "one has taken a tick and died of it")
            else:
                workers[rng.randrange(WORKERS)].kill()
            workers = [each for each in workers if not each.is_gone()]
            while len(workers) < WORKERS:
                doomed = rng.random() < 0.5 and bool(lasting & set(workers))
                workers.append(another(AFTER_TICK, rng.randint(1, 3)) if doomed else another())
                if not doomed:
                    lasting.add(workers[-1])
        taken_at = last_tick(store)
        workers.append(another())
        wait_until(partial(has_passed, store, taken_at + 2000), "those that are left go on")
        for each in workers:
            if not each.is_gone():
                each.kill()
    store.outbox.drain()
    found = ticks(store)
    assert len(found) > 2, "there were ticks"
    assert found == [found[0] + number * SECOND for number in range(len(found))]
    assert int(found[-1].timestamp() * 1000) == last_tick(store)


def has_passed(store: Store, moment_ms: int) -> bool:
    """Return whether the tick of a moment was taken, or a later one."""
    return last_tick(store) >= moment_ms


def last_tick(store: Store) -> int:
    """Return the last tick that was taken, in milliseconds; 0 if there was none."""
    rows = store.rows("SELECT coalesce(last_ms, 0) FROM penstock_periodic")
    return int(rows[0][0]) if rows else 0


def ticks(store: Store) -> list[datetime]:
    """Return the ticks of all events in the log, by time."""
    log, found = store.outbox.log, []
    topic = log.topic("events")
    for partition, (start, end) in log.all_bounds(topic).items():
        for entry in log.at(topic, [Position(partition, offset) for offset in range(start, end)]):
            headers = dict(decode_headers(entry.headers or b""))
            found.append(datetime.fromisoformat((headers["penstock-tick"] or b"").decode()))
    return sorted(found)
