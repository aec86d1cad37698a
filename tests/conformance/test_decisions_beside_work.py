"""What a person decides on dead letters while an owner is at work: only the keys decided on are touched.

The handlers themselves decide, in the middle of a drain: the owner has records out then, and more of the same
keys to come, that it has read and not written down. What has passed does not come again.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event, Thread

import pytest

from penstock import Record
from penstock.clock import SYSTEM
from penstock.database.database import Database
from penstock.model.retry import Fixed
from penstock.operate import dead
from penstock.operate.dead import DeadSelection, dead_letters
from penstock.operate.lanes import lanes
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.services.slow import but_the_first
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition

pytestmark = pytest.mark.usefixtures("brisk")
NEVER = Fixed(timedelta(seconds=1), max_retries=0)
EVERYTHING = DeadSelection(group="g", all=True)
KEYS = ("a", "b", "c", "d")


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


class Deciding(Seen):
    """A handler beside which a person decides: at each record it is given, `decide` is asked."""

    def __init__(self, *failing: object) -> None:
        super().__init__(*failing)
        self.passed: list[Record] = []
        self.decide: Callable[[Record], None] = lambda record: None

    def __call__(self, record: Record) -> None:
        self.decide(record)
        super().__call__(record)
        self.passed.append(record)


@pytest.mark.parametrize("act", ["requeue", "skip", "discard"])
def test_what_has_nothing_to_do_with_the_letters_is_delivered_once(
    engine: StoreEngine, database: Database, act: str
) -> None:
    in_one_partition(engine)
    seen = Deciding(1, 2)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    publish_values(engine, 1, 3, key="a")
    publish_values(engine, 2, key="b")
    engine.outbox.drain()
    seen.clear()
    seen.failing.clear()
    publish_values(engine, *range(10, 20), key="other")
    publish_values(engine, 4, key="a")
    publish_values(engine, 5, key="b")
    publish_values(engine, *range(20, 30), key="more")

    def decide(record: Record) -> None:
        if record.value == 12:
            assert getattr(dead, act)(database, EVERYTHING, clock=engine.clock).count == 2

    seen.decide = decide
    engine.outbox.drain()
    engine.outbox.drain()
    came = seen.values()
    assert sorted(value for value in came if value >= 10) == [*range(10, 30)]
    requeued = act == "requeue"
    assert [value for value in came if value in (1, 3, 4)] == ([1, 3, 4] if requeued else [3, 4])
    assert [value for value in came if value in (2, 5)] == ([2, 5] if requeued else [5])
    assert lanes(database, clock=engine.clock).items == []


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_unit_of_work_commits_though_a_person_decides_meanwhile(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Deciding(1)

    def handle(record: Record) -> None:
        assert record.tx is not None
        seen(record)

    engine.outbox.handler(None, group="g", id="g", retry=NEVER, transaction=True)(handle)
    publish_values(engine, 1, 2, key="a")
    engine.outbox.drain()
    seen.clear()
    seen.failing.clear()
    publish_values(engine, *range(10, 15), key="other")

    def decide(record: Record) -> None:
        if record.value == 12:
            assert dead.requeue(database, EVERYTHING, clock=engine.clock).count == 1

    seen.decide = decide
    engine.outbox.drain()
    assert seen.values() == [*range(10, 15), 1, 2]


@pytest.mark.parametrize("seed", but_the_first(range(6), 2))
def test_whatever_is_decided_and_when_each_record_passes_once_and_in_order(
    seed: int, engine: StoreEngine, database: Database
) -> None:
    rng = random.Random(seed)
    engine.outbox.log.create_topic("events", partitions=2)
    seen, discarded, last = Deciding(), set[int](), 0
    subscribe(engine.outbox, "g", seen, retry=NEVER)

    def decide(record: Record) -> None:
        if rng.random() < 0.3:
            seen.failing = [value for value in seen.failing if rng.random() < 0.5]
        if rng.random() < 0.4:
            key = rng.choice([*KEYS, None])
            chosen = EVERYTHING if key is None else DeadSelection(group="g", key=key)
            if rng.random() < 0.7:
                dead.requeue(database, chosen, clock=engine.clock)
                return
            found = dead_letters(database, group="g", key=key).items
            discarded.update(dead.show_by_id(database, each.id)[0].record.value for each in found)
            assert dead.discard(database, chosen, clock=engine.clock).count == len(found)

    seen.decide = decide
    for _ in range(12):
        for _ in range(rng.randint(1, 6)):
            values = range(last, last + rng.randint(1, 4))
            last = values.stop
            seen.failing += [value for value in values if rng.random() < 0.3]
            publish_values(engine, *values, key=rng.choice(KEYS))
        engine.outbox.drain()
    seen.decide = lambda record: None
    seen.failing.clear()
    dead.requeue(database, EVERYTHING, clock=engine.clock)
    engine.outbox.drain()
    passed = Counter(record.value for record in seen.passed)
    assert set(passed.values()) <= {1}
    assert set(range(last)) - discarded <= passed.keys()
    for key in KEYS:
        came = [record.value for record in seen.passed if record.key == key]
        assert came == sorted(came)
    assert (lanes(database).items, dead_letters(database).items) == ([], [])


def test_a_running_worker_delivers_the_rest_once_while_all_is_requeued(engine: StoreEngine, database: Database) -> None:
    """In real time, over several partitions and batches of letters."""
    outbox = engine.another(clock=SYSTEM)
    seen, stop, poison = Seen(*range(40)), Event(), range(40)
    subscribe(outbox, "g", seen, retry=NEVER)
    worker = Thread(target=outbox.run, kwargs={"until": stop})
    worker.start()
    try:
        for value in poison:
            publish_values(engine, value, key=f"p{value}")
        wait_until(lambda: len(dead_letters(database, limit=100).items) == 40, "all of them are dead")
        seen.clear()
        seen.failing.clear()
        for value in range(100, 400):
            publish_values(engine, value, key=f"k{value % 50}")
            if value % 8 == 0:
                dead.requeue(database, DeadSelection(group="g", key=f"p{value // 8 % 40}"))
        dead.requeue(database, EVERYTHING)
        wait_until(lambda: len({*seen.values()}) == 340, "the worker has delivered everything")
    finally:
        stop.set()
        worker.join()
    assert Counter(seen.values()) == Counter([*poison, *range(100, 400)])
    assert not any(record.redelivered for record in seen if record.value not in poison)
