"""Topics that grow, on every engine: the order of every key stays, whatever waits and whoever is at work."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from threading import Event, Lock, Thread

import pytest

from penstock import Outbox, Record
from penstock.clock import SYSTEM
from penstock.errors import InvalidGrowth, InvalidPartitions, SchemaTooNew, UnknownTopic
from penstock.log.contract import Growth, OffsetRange
from penstock.membership.member import ClusterSettings, Member
from penstock.model.partition import key_hash
from penstock.model.retry import Fixed
from penstock.operate import dead, topics
from penstock.operate.audit import audit
from penstock.operate.groups import pause, resume
from penstock.operate.lanes import LaneState, lanes
from penstock.operate.reset import reset
from penstock.operate.why import Code, why
from penstock.testing.outbox import drain_until_idle
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists, sql_log_only  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.services.slow import but_the_first
from tests.suites.handling_suite import Seen, subscribe
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")
KEYS = [f"k-{number}" for number in range(24)]
ALL = dead.DeadSelection(group="g", all=True)
ONCE = Fixed(timedelta(seconds=1), max_retries=0)
LATER = Fixed(timedelta(seconds=10), max_retries=3)
one_is_fast = pytest.mark.parametrize("kind", but_the_first(["postgres", "sqlite", "lists"]), indirect=True)


class Writer:
    """Publishes numbers that rise in each key."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox, self.published = outbox, Counter[str]()

    def publish(self, keys: Iterable[str] = KEYS, *, times: int = 1) -> None:
        """Publish one more event of each key, or some, in one transaction."""
        with self._outbox.transaction() as conn:
            for key in [*keys] * times:
                self._outbox.publish(conn, "t", self.published[key], key=key)
                self.published[key] += 1


def moved_key(before: int, after: int) -> str:
    """Return a key that a growth takes to another partition."""
    return next(key for key in KEYS if key_hash(key) % before != key_hash(key) % after)


def in_order(seen: Iterable[Record]) -> dict[str, list[int]]:
    """Return the values that each key came with, in the order they came."""
    found = defaultdict[str, list[int]](list)
    for record in seen:
        assert record.key is not None
        found[record.key].append(record.value)
    return found


def all_of(published: Counter[str]) -> dict[str, list[int]]:
    """Return what each key must come with."""
    return {key: list(range(count)) for key, count in published.items() if count}


@pytest.fixture
def writer(engine: StoreEngine) -> Writer:
    """Give a writer, and a topic of four partitions to write to."""
    engine.outbox.log.create_topic("events", partitions=4)
    return Writer(engine.outbox)


def grow(engine: StoreEngine, partitions: int) -> None:
    topics.grow(engine.outbox, "events", partitions, clock=engine.clock)


# --- the growth itself -------------------------------------------------------------------------


def test_a_topic_grows_and_what_is_appended_later_goes_by_the_new_map(engine: StoreEngine, writer: Writer) -> None:
    writer.publish()
    engine.outbox.drain()
    log = engine.outbox.log
    ends = log.ends(log.topic("events"))
    shown = topics.grow(engine.outbox, "events", 8, clock=engine.clock, actor="ann")
    assert (shown.partitions, log.topic("events").generation) == (8, 1)
    assert log.growths(log.topic("events")) == [Growth(tuple(ends.get(each, 0) for each in range(4)))]
    writer.publish()
    engine.outbox.drain()
    for number in range(8):
        for record in log.read("events", number):
            assert record.key is not None
            assert number == key_hash(record.key) % (8 if record.value else 4)
    (entry, *_) = audit(engine.outbox).items
    assert (entry.actor, entry.action) == ("ann", "topic grow")
    assert entry.subject == {"topic": "events", "partitions": 8, "before": 4}


@pytest.mark.parametrize("wanted", but_the_first([6, 3, 2, 1, 9]))
def test_a_count_that_is_no_multiple_is_refused_with_the_remedy(
    engine: StoreEngine, writer: Writer, wanted: int
) -> None:
    remedy = f"has 4 partitions and cannot have {wanted}: it grows only to a multiple, such as 8 or 16, and never"
    with pytest.raises(InvalidGrowth, match=remedy):
        grow(engine, wanted)
    assert engine.outbox.log.topic("events").partitions == 4
    assert engine.count("generation") == 0


@one_is_fast
def test_other_counts_and_topics_are_refused(engine: StoreEngine, writer: Writer) -> None:
    with pytest.raises(InvalidPartitions):
        grow(engine, 10_004)
    with pytest.raises(UnknownTopic):
        topics.grow(engine.outbox, "other", 8)


def test_growing_to_the_count_it_has_changes_nothing(engine: StoreEngine, writer: Writer) -> None:
    subscribe(engine.outbox, "g", Seen())
    writer.publish()
    engine.outbox.drain()
    for _ in range(2):
        grow(engine, 8)
    log = engine.outbox.log
    assert len(log.growths(log.topic("events"))) == 1
    assert engine.count("cursor") == 8
    assert [each.action for each in audit(engine.outbox).items].count("topic grow") == 1


@one_is_fast
def test_a_deleted_topic_takes_its_growths_with_it(engine: StoreEngine, writer: Writer) -> None:
    grow(engine, 8)
    topics.delete(engine.outbox, "events")
    made = engine.outbox.log.create_topic("events", partitions=4)
    assert engine.outbox.log.growths(made) == []
    assert made.generation == 0


def test_code_that_cannot_grow_topics_may_no_longer_use_the_tables(engine: StoreEngine, writer: Writer) -> None:
    """It would deliver the new partitions at once."""

    def said() -> str:
        with engine.connect() as conn:
            found = conn.execute("SELECT value FROM penstock_meta WHERE name = 'usable_from'").fetchone()[0]
            conn.rollback()
        return str(found)

    engine._change("UPDATE penstock_meta SET value = '7' WHERE name = 'usable_from'")
    grow(engine, 8)
    assert said() == "9"
    engine._change("UPDATE penstock_meta SET value = '10' WHERE name = 'usable_from'")
    grow(engine, 16)
    assert said() == "10"
    engine._change("UPDATE penstock_meta SET value = '7' WHERE name = 'usable_from'")


@one_is_fast
def test_a_growth_waits_until_every_member_has_had_a_heartbeat(engine: StoreEngine, writer: Writer) -> None:
    member = Member(engine.outbox.store.database, ClusterSettings.load(), engine.clock)
    member.join()
    done = Event()

    def run() -> None:
        grow(engine, 8)
        done.set()

    thread = Thread(target=run)
    thread.start()
    assert not done.wait(0.5)
    assert engine.outbox.log.topic("events").partitions == 4
    engine.clock.advance(timedelta(seconds=1))
    member.heartbeat()
    thread.join(60)
    assert done.is_set()
    assert engine.outbox.log.topic("events").partitions == 8


@one_is_fast
def test_a_worker_of_the_release_before_leaves_before_the_topic_grows(
    engine: StoreEngine, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows no barriers: of the new partitions it must get nothing.

    And it writes nothing any more, so the results that waited for others come again, and say so.
    """
    engine._change("UPDATE penstock_meta SET value = '7' WHERE name = 'usable_from'")
    monkeypatch.setenv("PENSTOCK_CLUSTER_LEASE_TTL", "2")
    old, seen = engine.another(SYSTEM), Seen()
    subscribe(old, "g", seen)
    writer.publish()
    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as before:
        before.setattr("penstock.database.migrations.known_version", lambda database: 8)
        running = pool.submit(old.run)
        wait_until(lambda: len(seen) == len(KEYS), "it is at work")
        topics.grow(engine.outbox, "events", 8)
        writer.publish()
        with pytest.raises(SchemaTooNew, match="can be used from version 9 on, but this Penstock knows 8"):
            running.result(60)
    assert {record.partition for record in seen} == set(range(4))
    new = engine.another(SYSTEM)
    subscribe(new, "g", seen)
    with working(new):
        wait_until(lambda: len({record.id for record in seen}) == 2 * len(KEYS), "the other goes on")
    firsts = {record.id: record for record in reversed(seen)}
    assert all(record.redelivered for record in seen if record is not firsts[record.id])
    assert in_order([record for record in seen if record is firsts[record.id]]) == all_of(writer.published)


# --- order, with a backlog ---------------------------------------------------------------------


@pytest.mark.parametrize("growths", but_the_first([(8, 64), (8,), (12, 24)]), ids=str)
@pytest.mark.parametrize("transaction", [False, True], ids=["each", "units"])
def test_every_key_keeps_its_order_over_a_backlog(
    engine: StoreEngine, writer: Writer, growths: tuple[int, ...], transaction: bool
) -> None:
    if transaction and not engine.outbox.store.is_one:
        pytest.skip("units need a log in the database")
    seen = Seen()
    for count in (*growths, None):
        writer.publish(times=4)
        engine.another().drain()  # has no handlers: only the log grows
        if count is not None:
            grow(engine, count)
    subscribe(engine.outbox, "g", seen, transaction=transaction)
    engine.outbox.drain()
    assert in_order(seen) == all_of(writer.published)


def test_a_group_that_was_there_begins_new_partitions_at_their_start(engine: StoreEngine, writer: Writer) -> None:
    """Also one that began at the latest record, and one whose workers come again only later."""
    early, latest = Seen(), Seen()
    subscribe(engine.outbox, "early", early)
    subscribe(engine.outbox, "latest", latest, start="latest")
    engine.outbox.drain()
    writer.publish(times=4)
    engine.another().drain()
    grow(engine, 8)
    writer.publish()
    program = engine.another()
    subscribe(program, "early", early)
    subscribe(program, "latest", latest, start="latest")
    program.drain()
    assert in_order(early) == in_order(latest) == all_of(writer.published)


def test_a_group_that_comes_later_begins_where_it_says(engine: StoreEngine, writer: Writer) -> None:
    writer.publish()
    grow(engine, 8)
    writer.publish()
    engine.another().drain()
    latest = Seen()
    subscribe(engine.outbox, "latest", latest, start="latest")
    engine.outbox.drain()
    assert latest == []
    writer.publish()
    engine.outbox.drain()
    assert in_order(latest) == {key: [2] for key in KEYS}


def test_a_partition_that_never_held_anything_leads_on_to_the_one_before(engine: StoreEngine, writer: Writer) -> None:
    """Grown twice with nothing between: the former partition is empty, and the one before it is not."""
    writer.publish(times=4)
    engine.another().drain()
    grow(engine, 8)
    grow(engine, 16)
    writer.publish()
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    engine.outbox.drain()
    assert in_order(seen) == all_of(writer.published)


# --- keys that wait ----------------------------------------------------------------------------


def test_a_parked_key_waits_in_its_new_partition_and_no_other_does(engine: StoreEngine, writer: Writer) -> None:
    poor, seen = moved_key(4, 8), Seen()
    failing = {poor}

    def handle(record: Record) -> None:
        if record.key in failing:
            raise ValueError("not yet")
        seen(record)

    subscribe(engine.outbox, "g", handle, retry=LATER)
    writer.publish()
    engine.outbox.drain()
    grow(engine, 8)
    writer.publish()
    engine.outbox.drain()
    assert in_order(seen) == {key: [0, 1] for key in KEYS if key != poor}
    moved, parked = sorted(lanes(engine.outbox, clock=engine.clock).items, key=lambda each: each.state.value)
    assert (moved.key, moved.state, moved.partition) == (poor, LaneState.MOVED, key_hash(poor) % 8)
    assert (parked.key, parked.state, parked.partition) == (poor, LaneState.PARKED, key_hash(poor) % 4)
    failing.clear()
    drain_until_idle(engine.outbox, engine.clock)
    assert in_order(seen) == all_of(writer.published)
    assert lanes(engine.outbox).items == []
    assert not any(record.redelivered for record in seen if record.value == 1)


@pytest.mark.parametrize("decision", [dead.requeue, dead.discard])
def test_a_held_key_waits_until_a_person_has_decided(engine: StoreEngine, writer: Writer, decision: object) -> None:
    poor, seen = moved_key(4, 8), Seen()
    failing = {poor}

    def handle(record: Record) -> None:
        if record.key in failing:
            raise ValueError("never")
        seen(record)

    subscribe(engine.outbox, "g", handle, retry=ONCE)
    writer.publish()
    engine.outbox.drain()
    for partitions in (8, 16):
        grow(engine, partitions)
        writer.publish()
        engine.outbox.drain()
    assert in_order(seen) == {key: [0, 1, 2] for key in KEYS if key != poor}
    failing.clear()
    engine.outbox.drain()
    assert poor not in in_order(seen)
    decision(engine.outbox, ALL, clock=engine.clock)  # type: ignore[operator]
    engine.outbox.drain()
    wanted = all_of(writer.published)
    if decision is dead.discard:
        wanted[poor] = [1, 2]
    assert in_order(seen) == wanted


def test_what_is_retried_alone_holds_nothing_up(engine: StoreEngine, writer: Writer) -> None:
    poor, seen = moved_key(4, 8), Seen()

    def handle(record: Record) -> None:
        if record.key == poor and record.value == 0:
            raise ValueError("not yet")
        seen(record)

    subscribe(engine.outbox, "g", handle, retry=LATER, on_failure="alone")
    writer.publish()
    engine.outbox.drain()
    grow(engine, 8)
    writer.publish()
    engine.outbox.drain()
    assert in_order(seen)[poor] == [1]


def test_a_group_that_is_paused_on_the_way_goes_on_in_order(engine: StoreEngine, writer: Writer) -> None:
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    writer.publish()
    engine.outbox.drain()
    pause(engine.outbox, "g")
    writer.publish(times=4)
    grow(engine, 8)
    writer.publish()
    engine.outbox.drain()
    resume(engine.outbox, "g")
    engine.outbox.drain()
    assert in_order(seen) == all_of(writer.published)


def test_a_reset_replays_the_growth_in_order(engine: StoreEngine, writer: Writer) -> None:
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    writer.publish(times=4)
    engine.outbox.drain()
    grow(engine, 8)
    writer.publish()
    engine.outbox.drain()
    seen.clear()
    reset(engine.outbox, "g", topic="events", to="earliest", clock=engine.clock)
    engine.outbox.drain()
    assert in_order(seen) == all_of(writer.published)


def test_what_retention_has_taken_counts_as_passed(engine: StoreEngine, writer: Writer) -> None:
    """A group that nobody waited for begins at what is kept, in the new partitions too."""
    writer.publish()
    seen = Seen()
    subscribe(engine.outbox, "g", seen, start="earliest")
    pause_first = engine.another()
    subscribe(pause_first, "g", seen)
    pause_first.drain()
    writer.publish()
    engine.another().drain()
    seen.clear()
    log = engine.outbox.log
    topic = log.topic("events")
    grow(engine, 8)
    log.trim(topic, [OffsetRange(number, *each) for number, each in log.all_bounds(topic).items()])
    writer.publish()
    engine.outbox.drain()
    assert in_order(seen) == {key: [2] for key in KEYS}


# --- what people are told ----------------------------------------------------------------------


def test_why_says_that_a_partition_waits_for_another(engine: StoreEngine, writer: Writer) -> None:
    seen, key = Seen(), moved_key(4, 8)
    subscribe(engine.outbox, "g", seen)
    engine.outbox.drain()
    pause(engine.outbox, "g")
    writer.publish(times=2)
    engine.another().drain()
    former, number = key_hash(key) % 4, key_hash(key) % 8
    end = engine.outbox.log.bounds("events", former).end
    grow(engine, 8)
    with engine.outbox.transaction() as conn:
        later = engine.outbox.publish(conn, "t", 2, key=key)
    engine.another().drain()
    (answer,) = why(engine.outbox, later, clock=engine.clock)
    assert answer.code is Code.GROWN
    assert answer.sentence == (
        f"{later} (key {key}) waits in group g: events has grown, and events/{number} is read once the "
        f"group has passed events/{former}/{end}, where its keys were before; {end} records are to be done "
        "there."
    )
    assert any("was paused" in each for each in answer.also)
    (answer,) = why(engine.outbox, key, clock=engine.clock)
    assert (answer.code, answer.place) == (Code.PAUSED, f"events/{former}/{first_of(engine, former, key)}")
    (answer,) = why(engine.outbox, "g", clock=engine.clock)
    text = f"1 partition (such as {number}) is read once the records from before the topic grew, in others"
    assert any(each.startswith(text) for each in answer.also)


def first_of(engine: StoreEngine, partition: int, key: str) -> int:
    """Return the offset of the first record of a key in a partition."""
    found = [each.offset for each in engine.outbox.log.read("events", partition) if each.key == key]
    assert found[0] is not None
    return found[0]


@pytest.mark.parametrize("policy", [ONCE, LATER], ids=["held", "parked"])
def test_why_says_what_a_key_waits_for_in_its_former_partition(
    engine: StoreEngine, writer: Writer, policy: Fixed
) -> None:
    key = moved_key(4, 8)

    def handle(record: Record) -> None:
        if record.key == key:
            raise ValueError("no")

    subscribe(engine.outbox, "g", handle, retry=policy)
    writer.publish()
    engine.outbox.drain()
    place = f"events/{key_hash(key) % 4}/{first_of(engine, key_hash(key) % 4, key)}"
    grow(engine, 8)
    with engine.outbox.transaction() as conn:
        later = engine.outbox.publish(conn, "t", 1, key=key)
    for drained in (engine.another(), engine.outbox):  # in the log, and then in its lane
        drained.drain()
        (answer,) = why(engine.outbox, later, clock=engine.clock)
        assert answer.code is Code.BEHIND
        state = "became a dead letter just now" if policy is ONCE else "failed once"
        start = f"{later} (key {key}) waits in group g behind {place} of the same key, which {state}"
        assert answer.sentence.startswith(start)
        (answer,) = why(engine.outbox, later, key=key, clock=engine.clock)
        assert answer.code is Code.BEHIND
        (answer,) = why(engine.outbox, key, clock=engine.clock)
        assert (answer.code, answer.place) == (Code.HELD if policy is ONCE else Code.PARKED, place)
    (answer,) = why(engine.outbox, "g", clock=engine.clock)
    text = "1 key waits for earlier records in partitions from before the topic grew."
    assert answer.code.waits or answer.code is Code.HELD
    assert text in answer.also


# --- workers and writers at once ---------------------------------------------------------------


class Shop:
    """What all workers together have handled: some keys fail at their first try, some for a while."""

    def __init__(self, seed: int) -> None:
        self._rng, self._lock = random.Random(seed), Lock()
        self.seen, self._failed = list[Record](), Counter[str]()
        self.poor: set[str | None] = set()

    def handle(self, record: Record) -> None:
        """Note a record that is done."""
        with self._lock:
            if record.key in self.poor or (not self._failed[record.id] and self._rng.random() < 0.05):
                self._failed[record.id] += 1
                raise ValueError("not yet")
            self.seen.append(record)


@pytest.mark.parametrize("seed", but_the_first(range(3)))
def test_workers_and_writers_go_on_while_a_topic_grows(engine: StoreEngine, writer: Writer, seed: int) -> None:
    """4 to 8 to 64, with a backlog, parked and held keys; each record once, and each key in order."""
    shop, outboxes = Shop(seed), [engine.another(SYSTEM) for _ in range(2)]
    soon = Fixed(timedelta(milliseconds=50), max_retries=2)
    for outbox in outboxes:
        subscribe(outbox, "g", shop.handle, retry=soon)
    held = set(KEYS[::7])
    shop.poor |= held
    writer = Writer(outboxes[0])
    for _ in range(10):
        writer.publish()
    stop = Event()

    def write() -> None:
        while not stop.is_set():
            writer.publish()
            stop.wait(0.005)

    with ExitStack() as running:
        running.enter_context(working(outboxes[0]))
        wait_until(lambda: engine.count("dead") >= len(held), "keys are held")
        thread = Thread(target=write)
        thread.start()
        topics.grow(outboxes[1], "events", 8)
        running.enter_context(working(outboxes[1]))
        wait_until(lambda: any((record.partition or 0) >= 4 for record in shop.seen), "new ones are read")
        topics.grow(outboxes[1], "events", 64)
        wait_until(lambda: any((record.partition or 0) >= 8 for record in shop.seen), "and the next ones")
        stop.set()
        thread.join()
        total = sum(writer.published[key] for key in KEYS if key not in held)
        wait_until(lambda: len(shop.seen) >= total, "all but the held keys are done")
        assert not held & in_order(shop.seen).keys()
        shop.poor.clear()
        dead.requeue(engine.outbox, ALL)
        wait_until(lambda: len(shop.seen) >= sum(writer.published.values()), "all is done")
    assert in_order(shop.seen) == all_of(writer.published)


@pytest.mark.parametrize("seed", but_the_first(range(4, 16), 2))
def test_a_story_at_random_keeps_the_order_of_every_key(engine: StoreEngine, writer: Writer, seed: int) -> None:
    """Programs that come and go by drains, keys that fail and are requeued, growths at any time."""
    rng, seen = random.Random(seed), Seen()
    poor = set[str | None]()

    def handle(record: Record) -> None:
        if record.key in poor:
            raise ValueError("not yet")
        seen(record)

    programs = [engine.another() for _ in range(2)]
    for program in programs:
        subscribe(program, "g", handle, retry=Fixed(timedelta(seconds=5), max_retries=1))
    programs[0].drain()
    sizes = iter((8, 16, 48))
    for _ in range(40):
        match rng.randrange(8):
            case 0 | 1 | 2:
                writer.publish(rng.sample(KEYS, 12), times=rng.randrange(1, 5))
            case 3 | 4:
                rng.choice(programs).drain()
            case 5:
                poor = set(rng.sample(KEYS, rng.randrange(4)))
                engine.clock.advance(timedelta(seconds=rng.randrange(8)))
            case 6:
                dead.requeue(engine.outbox, ALL, clock=engine.clock)
            case 7 if rng.random() < 0.6 and (size := next(sizes, None)):
                grow(engine, size)
    poor = set()
    for _ in range(3):
        dead.requeue(engine.outbox, ALL, clock=engine.clock)
        drain_until_idle(programs[0], engine.clock)
    assert in_order(seen) == all_of(writer.published)


@sql_log_only
def test_an_append_under_way_ends_before_the_growth(engine: StoreEngine, writer: Writer) -> None:
    """What is appended while it waits goes by the new map: nothing lands in a partition of the old one."""
    writers = [Writer(engine.another()) for _ in range(3)]
    log, stop = engine.outbox.log, Event()

    def append(number: int) -> None:
        while not stop.is_set():
            writers[number].publish(KEYS[number::3])
            writers[number]._outbox.drain()

    threads = [Thread(target=append, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for partitions in (8, 16):
        wait_until(lambda: sum(log.ends(log.topic("events")).values()) > 20 * partitions, "much is there")  # noqa: B023
        grow(engine, partitions)
    stop.set()
    for thread in threads:
        thread.join()
    growths = log.growths(log.topic("events"))
    for number in range(16):
        for record in log.read("events", number, limit=100_000):
            assert record.key is not None
            assert record.offset is not None
            counts = (len(each.ends) for each in growths if number < len(each.ends))
            ends = [each.ends[number] for each in growths if number < len(each.ends)]
            size = next((c for c, end in zip(counts, ends, strict=True) if record.offset < end), 16)
            assert number == key_hash(record.key) % size
