"""Workers in processes of their own: killed, stopped, joined and left under load."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.crash.children import Child
from tests.crash.diary import WORKED, breaches, read
from tests.crash.store import Store
from tests.crash.waiting import wait_until
from tests.services.budget import Budget

LEASE_SECONDS = 2.0  # of those that are stopped past it
STEADY_SECONDS = 60.0  # of those that shall keep it, though the machine holds them up
KEYS = 1000
STEP_SECONDS = 2.0


class Load:
    """Publishes in a thread of its own, a few events in each transaction."""

    def __init__(self, store: Store, *, types: Sequence[str] = ("t",), keys: int = KEYS, pause: float = 0.02) -> None:
        self._store, self._types, self._keys, self._pause = store, types, keys, pause
        self._stopping = Event()
        self.published = 0
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        rng = random.Random(1)
        with closing(self._store.connect()) as conn:
            while not self._stopping.wait(self._pause):
                self._store.begin(conn)
                some = [
                    {"type": rng.choice(self._types), "value": 1, "key": f"k-{rng.randrange(self._keys)}"}
                    for _ in range(10)
                ]
                self._store.outbox.publish_many(conn, some, topic=WORKED)
                conn.commit()
                self.published += len(some)


@contextmanager
def a_worker(
    store: Store,
    diary: Path,
    *,
    handles: Sequence[str] = ("t",),
    work_ms: float = 1.0,
    lease_seconds: float = STEADY_SECONDS,
) -> Iterator[Child]:
    """Give a worker process that has started."""
    with Child(
        "work", url=store.url, diary=str(diary), lease_seconds=lease_seconds, handles=list(handles), work_ms=work_ms
    ) as child:
        assert child.says() == {"ready": True}
        yield child


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_workers_killed_and_stopped_lose_double_and_reorder_nothing(
    postgres_store: Store, tmp_path: Path, budget: Budget
) -> None:
    disturb(postgres_store, tmp_path, budget, count=3)


@pytest.mark.slow
@pytest.mark.long  # the same with three of them is slow
@pytest.mark.timeout(900)
def test_workers_killed_and_stopped_for_long_lose_double_and_reorder_nothing(
    postgres_store: Store, tmp_path: Path, budget: Budget
) -> None:
    disturb(postgres_store, tmp_path, budget, count=4)


def disturb(postgres_store: Store, tmp_path: Path, budget: Budget, *, count: int) -> None:
    """Every two seconds one of them is killed -9, or stopped past its lease and continued."""
    diary, disturbed = tmp_path / "diary", set[int]()
    with ExitStack() as stack, Load(postgres_store) as load:

        def another() -> Child:
            return stack.enter_context(a_worker(postgres_store, diary, lease_seconds=LEASE_SECONDS))

        workers = [another() for _ in range(count)]
        wait_until(lambda: len({each.pid for each in read(diary)}) == count, "all of them take part")
        stopped: list[Child] = []
        for turn in budget("crash.workers"):
            rng = random.Random(turn.seed)
            time.sleep(STEP_SECONDS)
            for each in stopped:
                each.resume()
            stopped = []
            victim = workers.pop(rng.randrange(count))
            disturbed.add(victim.pid)
            if turn.number % 2:
                victim.kill()
                workers.append(another())
            else:
                victim.pause()
                stopped.append(victim)
                workers.append(victim)
        for each in stopped:
            each.resume()
        load.__exit__()
        wait_until(lambda: settled(postgres_store, load.published), "all is delivered and settled", seconds=90)
        for each in workers:
            if each.stop()[-1]["lapses"]:  # the machine itself held it up past its lease
                disturbed.add(each.pid)
    deliveries = read(diary)
    assert list(breaches(deliveries, disturbed)) == []
    assert len({(each.partition, each.offset) for each in deliveries}) == load.published
    assert postgres_store.rows("SELECT count(*) FROM penstock_dead") == [(0,)]


@pytest.mark.slow
def test_joining_and_leaving_under_load_repeats_nothing(postgres_store: Store, tmp_path: Path) -> None:
    """And no partition changes hands that need not."""
    diary = tmp_path / "diary"
    with ExitStack() as stack, Load(postgres_store) as load:
        for _ in range(2):
            stack.enter_context(a_worker(postgres_store, diary))
        wait_until(lambda: shares(postgres_store) == [128, 128], "two share the partitions")
        before = owners(postgres_store)
        with a_worker(postgres_store, diary) as third:
            wait_until(lambda: shares(postgres_store) == [85, 85, 86], "three share the partitions")
            assert moved(before, owners(postgres_store)) in (85, 86)
            time.sleep(1)
            before = owners(postgres_store)
            third.stop()
        wait_until(lambda: shares(postgres_store) == [128, 128], "the two share again")
        assert moved(before, owners(postgres_store)) in (85, 86)
        load.__exit__()
        wait_until(lambda: settled(postgres_store, load.published), "all is delivered and settled")
    deliveries = read(diary)
    assert list(breaches(deliveries, ())) == []
    assert len(deliveries) == load.published
    assert not any(each.redelivered for each in deliveries)


@pytest.mark.slow
def test_a_rolling_deploy_skips_nothing_that_only_the_new_version_handles(
    postgres_store: Store, tmp_path: Path
) -> None:
    """M3: the old one owns everything when the new one comes, and passes by what it has no handler for."""
    diary = tmp_path / "diary"
    with ExitStack() as stack:
        stack.enter_context(a_worker(postgres_store, diary, handles=["old"]))
        with Load(postgres_store, types=["old"]):
            wait_until(lambda: len(read(diary)) > 0, "the old one is at work")
            stack.enter_context(a_worker(postgres_store, diary, handles=["old", "new"]))
            wait_until(lambda: "new" in filters(postgres_store), "the new one has said what it handles")
            with Load(postgres_store, types=["new"]) as load:
                wait_until(lambda: load.published >= 500, "some are published")
            wait_until(lambda: count(diary, "new") == load.published, "all the new ones are handled")
        deliveries = read(diary)
    assert list(breaches(deliveries, ())) == []
    assert len({each.pid for each in deliveries if each.type == "new"}) == 1


@pytest.mark.slow
def test_an_old_version_that_comes_back_gets_nothing(postgres_store: Store, tmp_path: Path) -> None:
    """M3: a pod of the old version that is started again in the middle of a deploy."""
    diary = tmp_path / "diary"
    with ExitStack() as stack, Load(postgres_store, types=["old", "new"]) as load:
        stack.enter_context(a_worker(postgres_store, diary, handles=["old", "new"]))
        wait_until(lambda: len(read(diary)) > 0, "the new one is at work")
        with a_worker(postgres_store, diary, handles=["old"]):
            time.sleep(2)
            load.__exit__()
            wait_until(lambda: len(read(diary)) == load.published, "all are handled")
            assert len({each.pid for each in read(diary)}) == 1


@pytest.mark.slow
def test_a_record_that_kills_its_process_is_put_off_and_its_neighbours_are_not(
    postgres_store: Store, tmp_path: Path
) -> None:
    """Two deaths with all in work, one with a few, three with that record alone."""
    diary, deaths = tmp_path / "diary", 0
    with closing(postgres_store.connect()) as conn:
        before = [{"type": "t", "value": 1, "key": f"k-{n}"} for n in range(60)]
        poison = [{"type": "t", "value": "kill", "key": "k-7"}]
        postgres_store.outbox.publish_many(conn, [*before, *poison, *before], topic=WORKED)
        conn.commit()
    while True:
        with a_worker(postgres_store, diary) as worker:
            wait_until(lambda: worker.is_gone() or bool(put_off(postgres_store)), "it dies, or goes on")
            if not worker.is_gone():
                wait_until(lambda: len({d[2:4] for d in read(diary)}) == 120, "all the others are delivered")
                worker.stop()
                break
            deaths += 1
    assert deaths <= 6
    assert put_off(postgres_store) == [("k-7", "retrying", 0, "killed its worker 3 times")]
    assert postgres_store.rows("SELECT count(*) FROM penstock_dead") == [(0,)]
    held = postgres_store.rows("SELECT count(*) FROM penstock_lane_entry")
    assert held == [(2,)], "it and the record behind it wait"


def put_off(store: Store) -> list[tuple[object, ...]]:
    """Return the lanes that wait until later."""
    return store.rows("SELECT lane, state, failures, reason FROM penstock_lane WHERE due_ms > 0")


def settled(store: Store, published: int) -> bool:
    """Return whether so many are in the log, and the group has passed them all with nothing waiting."""
    logged = "SELECT coalesce(sum(next_offset), 0) FROM penstock_head h JOIN penstock_topic t ON t.id = h.topic_id"
    passed = 'SELECT coalesce(sum("offset"), 0) FROM penstock_cursor c JOIN penstock_topic t ON t.id = c.topic_id'
    one = f" WHERE t.name = '{WORKED}'"
    return store.rows(logged + one) == store.rows(passed + one) == [(published,)] and store.rows(
        "SELECT count(*) FROM penstock_lane_entry"
    ) == [(0,)]


def owners(store: Store) -> dict[int, str]:
    """Return who owns each partition."""
    return dict(store.rows("SELECT partition, owner FROM penstock_cursor WHERE owner IS NOT NULL"))


def shares(store: Store) -> list[int]:
    """Return how many partitions each owner has."""
    rows = store.rows("SELECT count(*) FROM penstock_cursor WHERE owner IS NOT NULL GROUP BY owner ORDER BY 1")
    return [row[0] for row in rows]


def moved(before: dict[int, str], after: dict[int, str]) -> int:
    """Return how many partitions have another owner."""
    return sum(before[partition] != owner for partition, owner in after.items())


def filters(store: Store) -> str:
    """Return what the handlers of the group match now."""
    rows = store.rows("SELECT filters FROM penstock_group WHERE name = 'readers'")
    return str(json.loads(rows[0][0])[:1]) if rows else ""


def count(diary: Path, type: str) -> int:
    """Return how many records of a type were delivered."""
    return len({each[2:4] for each in read(diary) if each.type == type})
