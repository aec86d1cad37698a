"""`lanes="partition"`, on every engine: a partition is worked in strict sequence, whatever its keys."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Lock
from time import sleep
from typing import Any

import pytest

from penstock import Cancel, Fixed, Outbox, Record, Snooze
from penstock.clock import SYSTEM
from penstock.database.database import Database
from penstock.errors import InvalidHandler
from penstock.operate import dead
from penstock.operate.dead import DeadSelection
from penstock.operate.lanes import LaneState, lanes
from penstock.operate.why import Code, QuestionKind, why
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, subscribe
from tests.suites.outbox_suite import OrderDeclined, in_one_partition
from tests.suites.records import a_record
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")
SECOND = timedelta(seconds=1)
RETRY = Fixed(SECOND, max_retries=1)
NEVER = Fixed(SECOND, max_retries=0)
ALL = DeadSelection(group="g", all=True)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


def publish(engine: StoreEngine, *values: int, type: str = "t") -> None:
    """Publish values, each under a key of its own."""
    with engine.connect() as conn:
        for value in values:
            engine.outbox.publish(conn, type, value, key=f"k{value}")
        conn.commit()


def in_sequence(outbox: Outbox, handler: Callable[[Record], Any], **options: Any) -> None:
    """Register a handler of the group `g`."""
    subscribe(outbox, "g", handler, lanes="partition", **{"retry": RETRY} | options)


def later(engine: StoreEngine, outbox: Outbox | None = None) -> None:
    """Let the next retry be due, and deliver."""
    engine.clock.advance(SECOND)
    (outbox or engine.outbox).drain()


def test_a_failed_record_lets_the_whole_partition_wait(engine: StoreEngine) -> None:
    in_one_partition(engine)
    seen = Seen(2)
    in_sequence(engine.outbox, seen)
    publish(engine, 1, 2, 3)
    engine.outbox.drain()
    assert seen.values() == [1, 2]
    publish(engine, 4)
    engine.outbox.drain()
    assert seen.values() == [1, 2]

    seen.failing.clear()
    later(engine)
    assert seen.values() == [1, 2, 2, 3, 4]
    assert [record.attempt for record in seen] == [1, 1, 2, 1, 1]
    assert engine.count("lane") == engine.count("lane_entry") == 0


def test_other_partitions_go_on(engine: StoreEngine) -> None:
    engine.outbox.log.create_topic("events", partitions=4)
    seen = Seen()
    in_sequence(engine.outbox, seen)
    publish(engine, *range(40))
    engine.outbox.drain()
    partitions = {record.value: record.partition for record in seen}
    seen.clear()
    seen.failing = [0]
    publish(engine, *range(40))
    engine.outbox.drain()
    assert {value for value in seen.values() if partitions[value] == partitions[0]} == {0}
    assert len(seen) == 1 + sum(place != partitions[0] for place in partitions.values())


def test_while_it_waits_no_more_of_it_is_written_down(engine: StoreEngine) -> None:
    in_one_partition(engine)
    seen = Seen(0)
    in_sequence(engine.outbox, seen)
    publish(engine, *range(20))
    engine.outbox.drain()
    written = engine.count("lane_entry")
    publish(engine, *range(20, 400))
    engine.outbox.drain()
    assert engine.count("lane_entry") == written <= 100

    seen.failing.clear()
    later(engine)
    assert [record.offset for record in seen] == [0, *range(400)]
    assert engine.count("lane_entry") == 0


@pytest.mark.parametrize("act", ["requeue", "discard"])
def test_a_dead_letter_holds_the_partition_until_a_person_decides(
    engine: StoreEngine, database: Database, act: str
) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    in_sequence(engine.outbox, seen, retry=NEVER)
    publish(engine, 1, 2)
    engine.outbox.drain()
    publish(engine, 3)
    engine.outbox.drain()
    assert seen.values() == [1]
    (held,) = lanes(database, clock=engine.clock).items
    assert (held.key, held.whole, held.state, held.waiting) == ("", True, LaneState.HELD, 1)

    seen.failing.clear()
    getattr(dead, act)(database, ALL, clock=engine.clock)
    engine.outbox.drain()
    assert seen.values() == ([1, 1, 2, 3] if act == "requeue" else [1, 2, 3])
    assert engine.count("lane") == engine.count("dead") == 0


def test_the_last_record_of_all_holds_what_comes_after_it(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    in_sequence(engine.outbox, seen, retry=NEVER)
    publish(engine, 1)
    engine.outbox.drain()
    publish(engine, 2)
    engine.outbox.drain()
    assert seen.values() == [1]
    dead.discard(database, ALL, clock=engine.clock)
    engine.outbox.drain()
    assert seen.values() == [1, 2]


def test_what_is_released_or_cancelled_lets_it_go_on(engine: StoreEngine) -> None:
    in_one_partition(engine)
    seen = list[int]()

    def handle(record: Record) -> Cancel | None:
        seen.append(record.value)
        if record.value == 1:
            raise OrderDeclined
        return Cancel("not needed") if record.value == 2 else None

    in_sequence(engine.outbox, handle, retry=NEVER, on_exhausted="release")
    publish(engine, 1, 2, 3)
    engine.outbox.drain()
    assert (seen, engine.count("dead"), engine.count("lane")) == ([1, 2, 3], 2, 0)


def test_a_record_retried_alone_lets_it_go_on(engine: StoreEngine) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    in_sequence(engine.outbox, seen, on_failure="alone")
    publish(engine, 1, 2, 3)
    engine.outbox.drain()
    seen.failing.clear()
    later(engine)
    assert seen.values() == [1, 2, 3, 1]


def test_records_without_a_key_keep_their_order_too(engine: StoreEngine) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    in_sequence(engine.outbox, seen)
    with engine.connect() as conn:
        for value in range(4):
            engine.outbox.publish(conn, "t", value)
        conn.commit()
    engine.outbox.drain()
    assert seen.values() == [0, 1]
    seen.failing.clear()
    later(engine)
    assert seen.values() == [0, 1, 1, 2, 3]


def test_a_batch_has_one_record_of_each_partition(engine: StoreEngine) -> None:
    engine.outbox.log.create_topic("events", partitions=2)
    batches = list[list[Record]]()
    engine.outbox.handler(group="g", id="g", lanes="partition", batch=10)(batches.append)
    publish(engine, *range(20))
    engine.outbox.drain()
    assert all(len({record.partition for record in each}) == len(each) for each in batches)
    for place in (0, 1):
        mine = [record.offset or 0 for each in batches for record in each if record.partition == place]
        assert mine == sorted(mine)
    assert sum(map(len, batches)) == 20


def test_with_a_transaction_a_failure_stops_the_partition(engine: StoreEngine) -> None:
    in_one_partition(engine)
    seen = Seen(2)
    in_sequence(engine.outbox, seen, transaction=True)
    publish(engine, 1, 2, 3)
    engine.outbox.drain()
    assert 3 not in seen.values()
    seen.failing.clear()
    seen.clear()
    later(engine)
    assert seen.values() == [2, 3]


def test_types_that_nobody_handles_are_passed_in_between(engine: StoreEngine) -> None:
    in_one_partition(engine)
    seen = Seen(3)
    in_sequence(engine.outbox, seen, match="t")
    for value in range(6):
        publish(engine, value, type="t" if value % 2 else "other")
    engine.outbox.drain()
    assert seen.values() == [1, 3]
    seen.failing.clear()
    later(engine)
    assert seen.values() == [1, 3, 3, 5]


def test_what_comes_late_is_one_lane_as_well(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    in_sequence(engine.outbox, Seen(), match="t")
    for value in range(6):
        publish(engine, value, type="t" if value % 2 else "other")
    engine.outbox.drain()
    new, seen = engine.another(), Seen(2)
    in_sequence(new, Seen(), match="t")
    in_sequence(new, seen, match="other", id="other")
    new.drain()
    assert (seen.values(), seen[0].late) == ([0, 2], True)
    (late,) = lanes(database, clock=engine.clock).items
    assert (late.whole, late.late, late.key) == (True, True, "")
    seen.failing.clear()
    later(engine, new)
    assert seen.values() == [0, 2, 2, 4]


def test_another_worker_goes_on_where_the_partition_waits(engine: StoreEngine) -> None:
    in_one_partition(engine)
    in_sequence(engine.outbox, Seen(1))
    publish(engine, 0, 1, 2)
    engine.outbox.drain()
    publish(engine, 3)
    other, seen = engine.another(), Seen()
    in_sequence(other, seen)
    other.drain()
    assert seen.values() == []
    later(engine, other)
    assert seen.values() == [1, 2, 3]


def test_keys_that_wait_come_before_the_sequence_that_begins(engine: StoreEngine) -> None:
    in_one_partition(engine)
    before = Seen(1, 3)
    subscribe(engine.outbox, "g", before, retry=Fixed(SECOND, max_retries=5))
    publish(engine, 1, 2, 3)
    engine.outbox.drain()
    assert before.values() == [1, 2, 3]
    publish(engine, 4, 5)
    new, seen = engine.another(), Seen(3)
    in_sequence(new, seen, retry=Fixed(SECOND, max_retries=5))
    new.drain()
    assert seen.values() == []
    later(engine, new)
    assert sorted(seen.values()) == [1, 3]
    seen.failing.clear()
    later(engine, new)
    assert seen.values()[2:] == [3, 4, 5]


def test_a_partition_that_waits_comes_before_the_keys_that_begin(engine: StoreEngine) -> None:
    in_one_partition(engine)
    in_sequence(engine.outbox, Seen(1))
    publish(engine, 1, 2)
    engine.outbox.drain()
    publish(engine, 3)
    new, seen = engine.another(), Seen()
    subscribe(new, "g", seen, retry=RETRY)
    new.drain()
    assert seen.values() == []
    later(engine, new)
    assert seen.values() == [1, 2, 3]
    assert engine.count("lane") == 0


def test_the_handlers_of_a_group_agree(engine: StoreEngine) -> None:
    engine.outbox.handler("a", group="g", id="a", lanes="partition")(Seen())
    with pytest.raises(InvalidHandler, match="disagree on lanes: 'partition' and 'key'"):
        engine.outbox.handler("b", group="g", id="b")(Seen())
    with pytest.raises(InvalidHandler, match="lanes='topic' must be one of 'key', 'partition'"):
        engine.outbox.handler(group="h", lanes="topic")  # type: ignore[arg-type]


def test_an_empty_key_has_a_lane_of_its_own(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=RETRY)
    records = [a_record(key, str(value).encode()) for value, key in enumerate(["a", "", "a", ""])]
    engine.outbox.log.append("events", records)
    engine.outbox.drain()
    assert sorted(seen.values()) == [0, 1, 2]
    (waiting,) = lanes(database, clock=engine.clock).items
    assert (waiting.key, waiting.whole) == ("", False)
    later(engine)
    assert seen.values().count(2) == 1


def test_why_names_the_partition(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    in_sequence(engine.outbox, Seen(1), retry=Fixed(60 * SECOND, max_retries=1))
    publish(engine, 1, 2)
    engine.outbox.drain()
    publish(engine, 3)
    engine.outbox.drain()
    for key, behind in (("k2", True), ("k3", True), ("k1", False)):
        (answer,) = why(database, key, kind=QuestionKind.KEY, clock=engine.clock)
        assert answer.code is (Code.BEHIND if behind else Code.PARKED)
        assert ("behind events/0/0 of the same partition" in answer.sentence) is behind
    (answer,) = why(database, "g", kind=QuestionKind.GROUP, clock=engine.clock)
    assert answer.code is Code.PARKED
    assert "1 partition waits to be tried again" in answer.sentence

    engine.clock.advance(60 * SECOND)
    engine.outbox.drain()
    (answer,) = why(database, "k3", kind=QuestionKind.KEY, clock=engine.clock)
    assert answer.code is Code.BEHIND
    assert "holds the partition" in answer.sentence
    (answer,) = why(database, "k1", kind=QuestionKind.KEY, clock=engine.clock)
    assert answer.code is Code.HELD
    assert "later records of its partition wait" in answer.sentence
    (answer,) = why(database, "g", kind=QuestionKind.GROUP, clock=engine.clock)
    assert answer.code is Code.HELD
    assert "1 partition is held by dead letters" in answer.sentence


@pytest.mark.parametrize("seed", range(4))
def test_at_random_a_partition_is_settled_in_its_order(engine: StoreEngine, seed: int) -> None:
    """By workers that come and go, with failures, pauses and records that are given up."""
    rng = random.Random(seed)
    engine.outbox.log.create_topic("events", partitions=3)
    ends = defaultdict[int, list[int]](list)
    plans = {value: [rng.choice("fs") for _ in range(rng.choice((0, 0, 0, 1, 2)))] for value in range(150)}
    given_up = {value for value in plans if rng.random() < 0.05}

    def handle(record: Record) -> Any:
        plan = plans[record.value]
        if plan:
            if plan.pop() == "s":
                return Snooze(timedelta(milliseconds=500))
            raise OrderDeclined
        ends[record.partition or 0].append(record.offset or 0)
        return Cancel("not needed") if record.value in given_up else None

    published = 0
    while published < len(plans) or engine.count("lane") or sum(map(len, ends.values())) < published:
        outbox = engine.another()
        in_sequence(outbox, handle, retry=Fixed(SECOND, max_retries=5), transaction=rng.random() < 0.3)
        for _ in range(rng.randrange(1, 4)):
            count = rng.randrange(20)
            publish(engine, *range(published, min(len(plans), published + count)))
            published = min(len(plans), published + count)
            outbox.drain()
            engine.clock.advance(timedelta(milliseconds=rng.choice((0, 300, 1000))))
    for place, offsets in ends.items():
        assert list(dict.fromkeys(offsets)) == list(range(engine.outbox.log.bounds("events", place)[1]))
    assert engine.count("lane_entry") == 0


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_worker_calls_one_record_of_a_partition_at_a_time(engine: StoreEngine, is_async: bool) -> None:
    outbox = engine.another(SYSTEM)
    outbox.log.create_topic("events", partitions=4)
    ends, out, worst, lock = defaultdict[int, list[int]](list), Counter[int](), Counter[int](), Lock()
    failing = set(range(0, 300, 37))

    def begin(record: Record) -> None:
        place = record.partition or 0
        with lock:
            out[place] += 1
            worst[place] = max(worst[place], out[place])
            fails = record.value in failing
            failing.discard(record.value)
        sleep(0)  # another thread may run here
        with lock:
            if not fails:
                ends[place].append(record.offset or 0)
            out[place] -= 1
        if fails:
            raise OrderDeclined

    async def abegin(record: Record) -> None:
        begin(record)

    soon = Fixed(timedelta(milliseconds=20), max_retries=2)
    in_sequence(outbox, abegin if is_async else begin, retry=soon)
    publish(engine, *range(150))
    with working(outbox):
        publish(engine, *range(150, 300))
        wait_until(lambda: sum(map(len, ends.values())) >= 300, "all records are handled")
    assert all(offsets == list(range(len(offsets))) for offsets in ends.values())
    assert sum(map(len, ends.values())) == 300
    assert set(worst.values()) == {1}
