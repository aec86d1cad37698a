"""`transaction=True` under kill -9 and cut connections: what handlers write is there exactly once."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, closing, suppress
from functools import partial
from threading import Event

import pytest

from penstock import points
from penstock.errors import StoreUnreachable
from tests.crash.account import breaches, logged
from tests.crash.children import Child
from tests.crash.programs import TRADED, bookkeeper
from tests.crash.proxy import Cut, FaultProxy
from tests.crash.store import Store
from tests.crash.test_kill import settled
from tests.crash.waiting import wait_until
from tests.services.budget import Budget

TOPIC = TRADED[0]
LEASE_SECONDS = 1.0  # of the one that is stopped past it
STEADY_SECONDS = 60.0  # of the others: who is killed is seen to be dead
POINTS = ["unit.before_cursor", "unit.before_commit", "unit.after_commit", "delivery.before_commit"]
# On the cursors, which move last: what handlers have deferred is checked before.
SLOW_COMMIT = """
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER linger AFTER UPDATE ON penstock_cursor DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW."offset" > OLD."offset") EXECUTE FUNCTION linger();
"""
Place = tuple[int, int]


def effects(store: Store) -> Counter[Place]:
    """Return how often each record took effect."""
    rows = store.rows("SELECT place, at FROM effect WHERE topic = ?", TOPIC)
    return Counter((partition, offset) for partition, offset in rows)


def check(store: Store) -> None:
    """Find each settled record's effect once, and of no other record; the same of what was published."""
    for _ in range(20):  # several looks are no snapshot: a worker may be at work
        before, found, after = state(store), effects(store), state(store)
        if before == after:
            break
    cursors, waiting = before
    done = {(place, offset) for (topic, place), some in cursors.items() if topic == TOPIC for offset in some}
    assert found == Counter(dict.fromkeys(done - waiting, 1))


def state(store: Store) -> tuple[dict[tuple[str, int], set[int]], set[Place]]:
    """Return what is settled, and what waits for its retry."""
    waiting = store.rows('SELECT partition, "offset" FROM penstock_lane_entry')
    return settled(store), {(place, offset) for place, offset in waiting}


def all_kept(store: Store) -> bool:
    """Return whether every record has been handled."""
    (ends,) = store.rows(
        "SELECT coalesce(sum(h.next_offset), 0) FROM penstock_head h "
        "JOIN penstock_topic t ON t.id = h.topic_id WHERE t.name = ?",
        TOPIC,
    )
    return store.waiting() == 0 and effects(store).total() >= ends[0]


def published_once(store: Store) -> None:
    """Find for each handled record one event of its handler, per key in the order of the records."""
    sources, made = defaultdict[str | None, list[str]](list), defaultdict[str | None, list[str]](list)
    for row in logged(store):
        if row.topic == TOPIC:
            sources[row.key].append(row.id)
    places = (
        "SELECT l.key, l.value FROM penstock_log l JOIN penstock_topic t ON t.id = l.topic_id "
        """WHERE t.name = 'wide' ORDER BY l.partition, l."offset\""""
    )
    for key, value in store.rows(places):
        made[bytes(key).decode()].append(json.loads(bytes(value))["of"])
    assert made == sources


def publish(store: Store, rng: random.Random, count: int) -> None:
    """Publish versions of a few keys."""
    for _ in range(count):
        store.publish_committed(TOPIC, [f"k-{rng.randrange(6)}" for _ in range(rng.randint(1, 3))])


def test_what_handlers_write_is_there_once_whoever_is_killed_when(postgres_store: Store, budget: Budget) -> None:
    kill_and_check(postgres_store, budget)


@pytest.mark.slow
def test_kills_again_and_again_leave_each_effect_once(store: Store, budget: Budget) -> None:
    kill_and_check(store, budget)


def kill_and_check(store: Store, budget: Budget) -> None:
    """Kill a worker at one point after the other; all that is settled has its effect, once."""
    rng = random.Random(budget.base_seed)
    for turn in budget("crash.units"):
        rng = random.Random(turn.seed)
        publish(store, rng, 12)
        point = POINTS[turn.number % len(POINTS)]
        with Child(
            "keep_books",
            url=store.url,
            lease_seconds=STEADY_SECONDS,
            kill_at=point,
            visit=rng.randint(1, 4),
            stop_at=None,
        ) as child:
            wait_until(lambda: child.is_gone() or all_kept(store), f"it is killed at {point}, or has done all")
        check(store)
        if turn.number % 2:  # the third kill on one record would make it a dead letter
            handle_the_rest(store)
    handle_the_rest(store)
    store.outbox.drain()  # what handlers published is sequenced, too
    assert breaches(store, appended=made_ids(store)) == []
    published_once(store)


@pytest.mark.slow
def test_workers_killed_at_any_moment_leave_each_effect_once(postgres_store: Store, budget: Budget) -> None:
    store = postgres_store
    with ExitStack() as stack:
        children = [stack.enter_context(a_worker(store)) for _ in range(2)]
        for turn in budget("crash.units"):
            rng = random.Random(turn.seed)
            publish(store, rng, 10)
            time.sleep(rng.uniform(0.05, 0.6))
            children.pop(0).kill()
            publish(store, rng, 10)
            children.append(stack.enter_context(a_worker(store)))
        wait_until(lambda: all_kept(store), "those that live have handled the rest")
        for child in children:
            child.stop()
    check(store)
    store.outbox.drain()
    published_once(store)


def test_a_commit_in_doubt_is_done_once(postgres_store: Store, budget: Budget) -> None:
    cut_and_check(postgres_store, budget)


@pytest.mark.slow
def test_commits_in_doubt_again_and_again_are_done_once(postgres_store: Store, budget: Budget) -> None:
    cut_and_check(postgres_store, budget)


def cut_and_check(postgres_store: Store, budget: Budget) -> None:
    """Cut the connection at one commit after the other; all that is settled has its effect, once."""
    with FaultProxy(postgres_store.url) as proxy, closing(Store(proxy.url)) as far:
        bookkeeper(far)
        for turn in budget("crash.units_in_doubt"):
            rng = random.Random(turn.seed)
            publish(postgres_store, rng, 6)
            cut, asked = list(Cut)[turn.number % len(Cut)], Event()
            points.arm("unit.before_commit", partial(ask, proxy, cut, asked), visit=rng.randint(1, 3))
            with suppress(StoreUnreachable):
                far.outbox.drain()
            if asked.is_set():
                assert proxy.has_cut.wait(60)
                wait_until(lambda: nobody_is_at_work(postgres_store), "the server knows what became of it")
            check(postgres_store)
            points.disarm()
        wait_until(lambda: far.outbox.drain() and all_kept(postgres_store), "the last retries have passed")
    check(postgres_store)
    published_once(postgres_store)


def test_a_commit_in_doubt_is_not_repeated_while_it_still_runs(postgres_store: Store) -> None:
    postgres_store.run(SLOW_COMMIT)
    try:
        with FaultProxy(postgres_store.url) as proxy, closing(Store(proxy.url)) as far:
            bookkeeper(far)
            postgres_store.publish_committed(TOPIC, ["k-1", "k-2"])
            points.arm("unit.before_commit", lambda: proxy.cut_at_commit(Cut.WHILE_IT_RUNS))
            with pytest.raises(StoreUnreachable):
                far.outbox.drain()  # giving the partitions back waits for the COMMIT that runs
            far.outbox.drain()
            wait_until(lambda: nobody_is_at_work(postgres_store), "the first COMMIT has ended")
            far.outbox.drain()
        check(postgres_store)
        assert all_kept(postgres_store)
    finally:
        postgres_store.run("DROP FUNCTION linger CASCADE")


@pytest.mark.slow
def test_a_unit_that_was_paused_past_its_lease_commits_nothing(postgres_store: Store) -> None:
    postgres_store.publish_committed(TOPIC, ["k-1", "k-1", "k-1"])
    with a_worker(postgres_store, stop_at="unit.before_cursor") as paused:
        paused.wait_until_stopped()
        with a_worker(postgres_store) as heir:
            wait_until(lambda: all_kept(postgres_store), "another has taken over and handled all")
            paused.resume()
            paused.stop()
            heir.stop()
    check(postgres_store)


def handle_the_rest(store: Store) -> None:
    """Let a worker that nobody kills do what is left."""
    with a_worker(store) as child:
        wait_until(lambda: all_kept(store), "a worker has handled the rest")
        child.stop()
    check(store)


def a_worker(store: Store, *, stop_at: str | None = None) -> Child:
    """Start a worker that keeps books, and wait until it runs."""
    lease_seconds = STEADY_SECONDS if stop_at is None else LEASE_SECONDS
    child = Child("keep_books", url=store.url, lease_seconds=lease_seconds, kill_at=None, visit=1, stop_at=stop_at)
    child.says()
    return child


def ask(proxy: FaultProxy, cut: Cut, asked: Event) -> None:
    """Let the next COMMIT be cut."""
    proxy.cut_at_commit(cut)
    asked.set()


def nobody_is_at_work(store: Store) -> bool:
    """Return whether no session of ours is inside a transaction."""
    (busy,) = store.rows(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'penstock' AND state <> 'idle'"
    )
    return bool(busy[0] == 0)


def made_ids(store: Store) -> list[str]:
    """Return the ids of what handlers published: no writer has promised them."""
    return [row.id for row in logged(store) if row.topic == "wide"]
