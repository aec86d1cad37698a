"""The relay into a log that is not in the database: whatever ends a move, each event is in the log once."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from penstock import points
from penstock.database.database import Database, Transaction
from penstock.errors import ProducerFenced
from penstock.log.contract import Batch, OffsetRange, Position
from penstock.log.store import Store
from penstock.membership.member import ClusterSettings, Member
from penstock.model.limits import ERASED
from penstock.operate.erase import erase
from penstock.outbox.move import Pick, Picked
from penstock.outbox.relay import Relay
from penstock.outbox.sequencer import BEFORE_COMMIT, Sequencer, SequencerSettings
from tests.conformance.engines import StoreEngine
from tests.crash.passing_by import passing_by
from tests.crash.waiting import wait_until
from tests.suites.list_log import ListLog

SECOND = timedelta(seconds=1)


class Cut(Exception):
    """What ends a move."""


class Watched(ListLog):
    """A list log that calls something before or after it has appended, once."""

    before: Callable[[Sequence[Batch]], object] | None = None
    after: Callable[[], object] | None = None

    def append_all(self, batches: Sequence[Batch]) -> list[list[Position]]:
        """Add batches."""
        before, self.before = self.before, None
        if before is not None:
            before(batches)
        given = super().append_all(batches)
        after, self.after = self.after, None
        if after is not None:
            after()
        return given


@pytest.fixture
def log() -> Watched:
    """Give a log that is not in the database."""
    return Watched()


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, log: Watched) -> Iterator[StoreEngine]:
    """Give an outbox in a database of each kind, whose log is elsewhere."""
    opened = StoreEngine(request.getfixturevalue(f"migrated_{request.param}"), log)
    yield opened
    points.disarm()
    opened.close()


@pytest.fixture
def store(engine: StoreEngine) -> Store:
    return engine.outbox.store


@pytest.fixture
def member(engine: StoreEngine, store: Store) -> Member:
    """Give a member that owns every slot."""
    return joined(engine, store.database)


def joined(engine: StoreEngine, database: Database) -> Member:
    member = Member(database, ClusterSettings(), engine.clock)
    member.join()
    member.take()
    return member


def sequencer(engine: StoreEngine, limit: int = 1000) -> Sequencer:
    """Return a sequencer that knows nothing of others before it."""
    return Sequencer(engine.outbox.store, SequencerSettings(batch_records=limit), engine.clock)


def move_all(engine: StoreEngine, member: Member, limit: int = 1000) -> None:
    one = sequencer(engine, limit)
    while one.sequence(member.fence).moved:
        pass
    assert engine.count("staged") == 0


def publish(engine: StoreEngine, *values: Any, key: str | None = "k", **options: Any) -> list[str]:
    with engine.connect() as conn:
        ids = [engine.outbox.publish(conn, "t", each, key=key, **options) for each in values]
        conn.commit()
    return [str(each) for each in ids]


def logged(engine: StoreEngine) -> list[Any]:
    """Return the values in the log, by topic, partition and offset."""
    log = engine.outbox.log
    return [
        record.value
        for topic in log.topics()
        for number, bounds in sorted(log.all_bounds(topic).items())
        for record in log.read(topic.name, number, bounds.start)
    ]


def trim_all(log: ListLog) -> None:
    """Delete all records of the topic, as retention may."""
    topic = log.topic("events")
    log.trim(topic, [OffsetRange(number, *each) for number, each in log.all_bounds(topic).items()])


def cut() -> None:
    raise Cut


# --- after a crash -----------------------------------------------------------------------------


@pytest.mark.parametrize("same", [True, False], ids=["it goes on", "another goes on"])
def test_what_was_appended_and_not_committed_is_not_doubled(engine: StoreEngine, member: Member, same: bool) -> None:
    publish(engine, 1, 2, 3)
    first = sequencer(engine)
    points.arm(BEFORE_COMMIT, cut)
    with pytest.raises(Cut):
        first.sequence(member.fence)
    assert (logged(engine), engine.count("staged")) == ([1, 2, 3], 3)
    publish(engine, 4)
    if not same:
        member.leave()
        member = joined(engine, engine.outbox.store.database)
    going = first if same else sequencer(engine)
    done = going.sequence(member.fence)
    assert (done.moved, done.full) == (3, True), "they are there already; another is left"
    assert (logged(engine), engine.count("staged")) == ([1, 2, 3], 1)
    assert going.sequence(member.fence).moved == 1
    assert (logged(engine), engine.count("staged")) == ([1, 2, 3, 4], 0)


def test_rows_stay_until_the_log_says_that_their_records_are_durable(
    engine: StoreEngine, member: Member, log: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that loses power before that has lost nothing that is not still staged."""
    publish(engine, 1, 2)
    with monkeypatch.context() as during:
        during.setattr(log, "durable", lambda topic, position: cut())
        with pytest.raises(Cut):
            sequencer(engine).sequence(member.fence)
    assert engine.count("staged") == 2
    move_all(engine, member)
    assert logged(engine) == [1, 2]


def test_a_batch_in_doubt_that_retention_deletes_is_not_appended_again(
    engine: StoreEngine, member: Member, log: Watched
) -> None:
    publish(engine, 1, 2, 3)
    points.arm(BEFORE_COMMIT, cut)
    with pytest.raises(Cut):
        sequencer(engine).sequence(member.fence)
    trim_all(log)
    publish(engine, 4)
    move_all(engine, member)
    assert logged(engine) == [4]
    assert sum(log.ends(log.topic("events")).values()) == 4


def test_what_retention_deletes_at_once_is_appended_once(engine: StoreEngine, member: Member, log: Watched) -> None:
    """Before the relay has made sure that the log has its batch, and not another's of that number."""
    publish(engine, 1, 2, 3)
    log.after = lambda: trim_all(log)
    move_all(engine, member)
    assert logged(engine) == []
    assert sum(log.ends(log.topic("events")).values()) == 3


def test_a_pass_without_work_confirms_nothing(engine: StoreEngine, member: Member) -> None:
    publish(engine, 1)
    one = sequencer(engine)
    points.arm(BEFORE_COMMIT, cut)
    with pytest.raises(Cut):
        one.sequence(member.fence)
    stale = member.fence
    member.release()
    assert one.sequence(stale).moved == 0
    member.take()
    publish(engine, 2)
    assert one.sequence(member.fence).moved == one.sequence(member.fence).moved == 1
    assert logged(engine) == [1, 2]


def test_what_is_settled_and_rolled_back_is_still_in_doubt(engine: StoreEngine, member: Member) -> None:
    """Twice cut short: the second transaction must not append what would hide the first batch."""
    publish(engine, 1)
    for value in (2, 3):
        points.arm(BEFORE_COMMIT, cut)
        with pytest.raises(Cut):
            sequencer(engine).sequence(member.fence)
        publish(engine, value)
    move_all(engine, member)
    assert logged(engine) == [1, 2, 3]


def test_a_log_that_fails_after_it_has_appended_has_appended(engine: StoreEngine, member: Member, log: Watched) -> None:
    """As when the answer is lost on its way."""
    publish(engine, 1)
    one = sequencer(engine)
    assert one.sequence(member.fence).moved == 1
    publish(engine, 2)
    log.after = cut
    with pytest.raises(Cut):
        one.sequence(member.fence)
    publish(engine, 3)
    assert one.sequence(member.fence).moved == one.sequence(member.fence).moved == 1
    assert logged(engine) == [1, 2, 3]


def test_a_log_that_fails_before_it_has_appended_has_not(engine: StoreEngine, member: Member, log: Watched) -> None:
    publish(engine, 1)
    log.before = lambda batches: cut()
    one = sequencer(engine)
    with pytest.raises(Cut):
        one.sequence(member.fence)
    assert logged(engine) == []
    assert one.sequence(member.fence).moved == 1
    assert logged(engine) == [1]


def test_what_is_in_doubt_is_settled_before_anything_else_is_appended(engine: StoreEngine, member: Member) -> None:
    """The next pick has room for what is due only: a batch of that would hide the one before it."""
    publish(engine, *range(6))
    points.arm(BEFORE_COMMIT, cut)
    with pytest.raises(Cut):
        sequencer(engine).sequence(member.fence)
    publish(engine, *range(6, 10), at=SECOND)
    engine.clock.advance(SECOND)
    move_all(engine, member, limit=4)
    assert logged(engine) == list(range(10))


def test_what_is_picked_in_parts_after_a_crash_is_not_doubled(engine: StoreEngine, member: Member) -> None:
    publish(engine, *range(10))
    points.arm(BEFORE_COMMIT, cut)
    with pytest.raises(Cut):
        sequencer(engine).sequence(member.fence)
    publish(engine, 10, 11)
    move_all(engine, member, limit=3)
    assert logged(engine) == list(range(12))


def test_what_is_given_another_time_after_a_crash_is_in_the_log_already(engine: StoreEngine, member: Member) -> None:
    (id,) = publish(engine, 1, at=SECOND)
    engine.clock.advance(SECOND)
    points.arm(BEFORE_COMMIT, cut)
    with pytest.raises(Cut):
        sequencer(engine).sequence(member.fence)
    with engine.connect() as conn:
        engine.outbox.reschedule(conn, id, at=timedelta(hours=1))
        conn.commit()
    publish(engine, 2)
    move_all(engine, member)
    engine.clock.advance(timedelta(hours=2))
    move_all(engine, member)
    assert logged(engine) == [1, 2]
    assert engine.count("scheduled") == 0


def test_a_topic_that_is_deleted_after_a_crash_is_made_anew_with_what_is_staged(
    engine: StoreEngine, member: Member
) -> None:
    publish(engine, 1, 2)
    points.arm(BEFORE_COMMIT, cut)
    with pytest.raises(Cut):
        sequencer(engine).sequence(member.fence)
    engine.outbox.log.delete_topic("events")
    move_all(engine, member)
    assert logged(engine) == [1, 2]


def test_a_topic_that_is_deleted_while_records_come_is_made_anew(
    engine: StoreEngine, member: Member, log: Watched
) -> None:
    publish(engine, 1)
    move_all(engine, member)
    publish(engine, 2)
    log.before = lambda batches: log.delete_topic("events")
    move_all(engine, member)
    assert logged(engine) == [2]


@pytest.mark.parametrize("seed", range(3))
def test_at_random_moves_are_cut_and_nothing_is_lost_doubled_or_out_of_order(engine: StoreEngine, seed: int) -> None:
    rng = random.Random(seed)
    member = joined(engine, engine.outbox.store.database)
    moving = sequencer(engine, 5)
    published: dict[tuple[str, str], list[int]] = {}
    log = engine.outbox.log
    assert isinstance(log, Watched)
    for step in range(120):
        topic, key = rng.choice(["events", "other"]), rng.choice("abcdef")
        values = [10 * step + each for each in range(rng.randint(1, 3))]
        publish(engine, *values, key=key, topic=topic)
        published.setdefault((topic, key), []).extend(values)
        fate = rng.random()
        if fate < 0.15:
            points.arm(BEFORE_COMMIT, cut)
        elif fate < 0.3:
            log.after = cut
        try:
            moving.sequence(member.fence)
        except Cut:
            if rng.random() < 0.5:
                moving = sequencer(engine, rng.randint(1, 8))
            if rng.random() < 0.3:
                member.leave()
                member = joined(engine, engine.outbox.store.database)
        points.disarm()
        log.after = None
    move_all(engine, member, 7)
    found: dict[tuple[str, str], list[int]] = {}
    for each in log.topics():
        for number in log.all_bounds(each):
            for record in log.read(each.name, number):
                found.setdefault((each.name, str(record.key)), []).append(record.value)
    assert found == published


# --- beside another ------------------------------------------------------------------------------


def picks(database: Database) -> list[Pick]:
    """Return all that is staged, as a pick gives it."""

    def look(tx: Transaction) -> list[Picked]:
        query = "SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_staged ORDER BY seq"
        return [Picked(*row) for row in database.dialect.execute(tx.conn, query, {}).rows]

    return [Pick("scheduled", []), Pick("staged", database.look(look))]


def test_a_replaced_owner_is_refused(engine: StoreEngine, store: Store) -> None:
    """The fence in the database stops it before; the log does where that is too late."""
    publish(engine, 1)
    found = picks(store.database)
    ((row,),) = (each.rows for each in found if each.rows)
    newer, older = Relay(store.log), Relay(store.log)
    store.database.run(lambda tx: newer.move(tx, found, {row.slot: 2}))
    newer.committed()
    publish(engine, 2)
    found = picks(store.database)
    with pytest.raises(ProducerFenced):
        store.database.run(lambda tx: older.move(tx, found, {row.slot: 1}))
    assert (logged(engine), engine.count("staged")) == ([1], 1)
    newer.begin()
    store.database.run(lambda tx: newer.move(tx, found, {row.slot: 2}))
    assert (logged(engine), engine.count("staged")) == ([1, 2], 0)


def test_what_a_replaced_owner_appends_at_the_last_moment_hides_nothing(
    engine: StoreEngine, member: Member, log: Watched
) -> None:
    """Its batch has the number of ours; ours must not pass for the same again."""
    publish(engine, 1, 2)

    def replaced(batches: Sequence[Batch]) -> None:
        (ours,) = batches
        assert ours.producer is not None
        older = ours.producer._replace(epoch=ours.producer.epoch - 1)
        log.append_all([ours._replace(contents=ours.contents[:1], producer=older)])

    log.before = replaced
    move_all(engine, member)
    assert logged(engine) == [1, 2]


def test_what_it_appends_after_the_rows_of_another_batch_were_settled_hides_nothing_either(
    engine: StoreEngine, member: Member, log: Watched
) -> None:
    publish(engine, 1)
    points.arm(BEFORE_COMMIT, cut)
    with pytest.raises(Cut):
        sequencer(engine).sequence(member.fence)
    member.leave()
    member = joined(engine, engine.outbox.store.database)
    publish(engine, 2, 3)
    one = sequencer(engine)
    assert one.sequence(member.fence).moved == 1

    def replaced(batches: Sequence[Batch]) -> None:
        (ours,) = batches
        assert ours.producer is not None
        older = ours.producer._replace(epoch=ours.producer.epoch - 1)
        log.append_all([ours._replace(contents=ours.contents[:1], producer=older)])

    log.before = replaced
    while one.sequence(member.fence).moved:
        pass
    assert logged(engine) == [1, 2, 3]


def test_an_owner_that_comes_back_appends_in_its_new_epoch(engine: StoreEngine, member: Member, store: Store) -> None:
    one = sequencer(engine)
    publish(engine, 1)
    assert one.sequence(member.fence).moved == 1
    member.release()
    other = joined(engine, store.database)
    publish(engine, 2)
    move_all(engine, other)
    other.release()
    member.take()
    publish(engine, 3)
    assert one.sequence(member.fence).moved == 1
    assert logged(engine) == [1, 2, 3]


def test_a_topic_that_another_makes_first_is_taken_as_it_is(
    engine: StoreEngine, member: Member, log: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = log.create_topic

    def late(name: str, **options: Any) -> Any:
        monkeypatch.undo()
        make(name, partitions=3, partitioner="kafka")
        return make(name, **options)

    monkeypatch.setattr(log, "create_topic", late)
    publish(engine, 1, 2)
    move_all(engine, member)
    assert logged(engine) == [1, 2]
    assert log.topic("events").partitions == 3


def test_outboxes_in_two_databases_share_a_log(
    engine: StoreEngine, member: Member, log: Watched, migrated_memory: str
) -> None:
    """Their slots and epochs have nothing to do with each other."""
    other = StoreEngine(migrated_memory, log)
    others = joined(other, other.outbox.store.database)
    others.release()
    others.take()
    for value in (1, 2, 3):
        publish(other, -value)
        move_all(other, others)
        publish(engine, value)
        move_all(engine, member)
    assert sorted(logged(engine)) == [-3, -2, -1, 1, 2, 3]
    other.close()


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_every_slot_of_every_topic_is_moved_once_and_each_key_in_its_order(
    engine: StoreEngine, member: Member, limit: int
) -> None:
    engine.outbox.log.create_topic("b", partitions=3)
    engine.outbox.log.create_topic("c", partitions=1, partitioner="kafka")
    with engine.connect() as conn:
        for value in range(5):
            for topic in "abc":
                for key in range(8):
                    engine.outbox.publish(conn, "t", value, key=f"k-{key}", topic=topic)
        conn.commit()
    move_all(engine, member, limit)
    log = engine.outbox.log
    for made in log.topics():
        found: dict[str | None, list[Any]] = {}
        for number in log.all_bounds(made):
            for record in log.read(made.name, number):
                found.setdefault(record.key, []).append(record.value)
        assert found == {f"k-{key}": list(range(5)) for key in range(8)}


def test_the_log_is_asked_little_while_all_goes_well(
    engine: StoreEngine, member: Member, log: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a producer appended last is looked at before and after its first batch in each epoch."""
    asked: Counter[str] = Counter()
    for name in ("last_batch", "at"):
        real = getattr(log, name)

        def counted(*args: Any, name: str = name, real: Any = real, **options: Any) -> Any:
            asked[name] += 1
            return real(*args, **options)

        monkeypatch.setattr(log, name, counted)
    one = sequencer(engine)
    for value in range(5):
        publish(engine, value)
        assert one.sequence(member.fence).moved == 1
    assert asked == {"last_batch": 2}


# --- beside those who take events back -----------------------------------------------------------


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_what_is_erased_after_the_pick_is_not_moved(engine: StoreEngine, member: Member) -> None:
    publish(engine, 1, owner="me")
    publish(engine, 2)
    points.arm("sequencer.after_pick", lambda: _erase(engine))
    assert sequencer(engine).sequence(member.fence).moved == 1
    assert logged(engine) == [2]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_what_is_erased_while_it_is_appended_is_erased_in_the_log(
    engine: StoreEngine, member: Member, log: Watched
) -> None:
    """The erasure waits for the move, and then finds the record where it has gone."""
    publish(engine, 1, owner="me")
    with ThreadPoolExecutor(1) as pool:
        erasing: list[Future[Any]] = []

        def meanwhile(batches: Sequence[Batch]) -> None:
            erasing.append(pool.submit(erase, engine.outbox, "me", clock=engine.clock))
            wait_until(lambda: waits_for_a_lock(engine), "the erasure waits for the row")

        log.before = meanwhile
        assert sequencer(engine).sequence(member.fence).moved == 1
        assert erasing[0].result(60).logged == 1
    assert [each.type for each in engine.entries()] == [ERASED]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_cancellation_while_an_event_is_appended_comes_too_late_and_says_so(
    engine: StoreEngine, member: Member, log: Watched
) -> None:
    (id,) = publish(engine, 1, at=SECOND)
    engine.clock.advance(SECOND)
    with ThreadPoolExecutor(1) as pool:
        cancelling: list[Future[bool]] = []

        def cancel() -> bool:
            with engine.connect() as conn:
                done = engine.outbox.cancel(conn, id)
                conn.commit()
            return bool(done)

        def meanwhile(batches: Sequence[Batch]) -> None:
            cancelling.append(pool.submit(cancel))
            wait_until(lambda: waits_for_a_lock(engine), "the cancellation waits for the row")

        log.before = meanwhile
        assert sequencer(engine).sequence(member.fence).moved == 1
        assert cancelling[0].result(60) is False
    assert logged(engine) == [1]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_what_a_caller_is_cancelling_is_passed_by(engine: StoreEngine, member: Member) -> None:
    first, _ = publish(engine, 1, 2, at=SECOND)
    engine.clock.advance(SECOND)
    with engine.connect() as conn:
        assert engine.outbox.cancel(conn, first)
        moved = passing_by(engine.url, conn, lambda: sequencer(engine).sequence(member.fence).moved)
        assert moved == 1
        conn.commit()
    move_all(engine, member)
    assert logged(engine) == [2]


def _erase(engine: StoreEngine) -> None:
    erase(engine.outbox, "me", clock=engine.clock)


def waits_for_a_lock(engine: StoreEngine) -> bool:
    with engine.connect() as conn:
        rows = conn.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall()
        conn.commit()
    return bool(rows)
