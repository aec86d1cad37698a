"""One pass of the sequencer: what it picks, in what order, and whom it starves: nobody."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from penstock import metrics
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.log.sql.heads import Fence
from penstock.log.store import store_of
from penstock.membership.member import ClusterSettings, Member
from penstock.outbox.sequencer import Pass, Sequencer, SequencerSettings
from tests.conformance.engines import StoreEngine
from tests.suites.outbox_suite import in_one_partition, keys, logged


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the sequencer's own."""
    opened = open_database(engine.url, Names())
    yield opened
    opened.close()


@pytest.fixture
def member(engine: StoreEngine, database: Database) -> Member:
    """Give a member that owns every slot."""
    joined = Member(database, ClusterSettings(), engine.clock)
    joined.join()
    joined.take()
    return joined


@pytest.fixture
def sequencer(engine: StoreEngine, database: Database) -> Callable[[int], Sequencer]:
    """Give a sequencer that moves at most so many rows in a pass."""
    return lambda limit: Sequencer(store_of(database), SequencerSettings(batch_records=limit), engine.clock)


def publish(engine: StoreEngine, *names: str, **options: Any) -> None:
    """Publish an event per key."""
    with engine.connect() as conn:
        engine.outbox.publish_many(conn, [{"type": "t", "value": 1, "key": name, **options} for name in names])
        conn.commit()


def test_an_empty_stage_is_a_pass_of_nothing(sequencer: Callable[[int], Sequencer], member: Member) -> None:
    assert sequencer(10).sequence(member.fence) == Pass(0, 0, False)


def test_a_pass_moves_at_most_its_limit_and_says_that_there_is_more(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    in_one_partition(engine)
    names = [f"k-{number}" for number in range(25)]
    publish(engine, *names)
    limited, moved = sequencer(10), []
    while (done := limited.sequence(member.fence)).moved:
        assert done.moved <= 10
        moved.append(done.moved)
    assert sum(moved) == 25
    assert sorted(map(str, keys(logged(engine)))) == sorted(names)


def test_who_owns_nothing_moves_nothing(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    publish(engine, "a")
    assert sequencer(10).sequence(Fence(member.id, {})).moved == 0


def test_a_stale_fence_moves_nothing_and_counts_what_was_refused(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    publish(engine, "order-1")
    stale = member.fence
    member.release()
    done = sequencer(10).sequence(stale)
    assert done.moved == 0
    assert done.fenced >= 1
    member.take()
    assert sequencer(10).sequence(stale).moved == 0
    assert sequencer(10).sequence(member.fence).moved == 1


def test_only_the_slots_of_the_fence_are_moved(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    """`order-1` has slot 33, `user-456` slot 22; staged and due alike."""
    publish(engine, "order-1", "user-456")
    publish(engine, "order-1", "user-456", at=timedelta(seconds=1))
    engine.clock.advance(timedelta(seconds=1))
    part = Fence(member.id, {33: member.fence.epochs[33]})
    assert sequencer(10).sequence(part).moved == 2
    assert {record.key for record in engine.outbox.log.read("events", 33)} == {"order-1"}
    assert engine.outbox.log.bounds("events", 22) == (0, 0)
    assert sequencer(10).sequence(member.fence).moved == 2


def test_due_events_of_slots_that_others_own_hide_none_of_ours(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    """Their owner may be dead for a while; more than a batch of its events must not stop everybody."""
    publish(engine, *["user-456"] * 25, at=timedelta(seconds=1))
    publish(engine, "order-1", at=timedelta(seconds=2))
    engine.clock.advance(timedelta(seconds=2))
    part = Fence(member.id, {33: member.fence.epochs[33]})
    assert sequencer(10).sequence(part).moved == 1


def test_staged_events_wait_for_all_that_was_due_before_them(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    """Also when what is due fills several passes."""
    in_one_partition(engine)
    publish(engine, "staged")
    publish(engine, *(f"due-{number:02}" for number in range(25)), at=timedelta(seconds=1))
    engine.clock.advance(timedelta(seconds=1))
    limited = sequencer(10)
    while limited.sequence(member.fence).moved:
        pass
    assert keys(logged(engine)) == [*(f"due-{number:02}" for number in range(25)), "staged"]


def test_a_hot_key_is_not_starved_by_even_shares(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    """F12, rule 4: while others trickle into most slots, a fixed share would be three rows a pass for it."""
    in_one_partition(engine)
    publish(engine, *["hot"] * 3_000)
    others = [f"k-{number}" for number in range(250)]
    limited = sequencer(400)
    for _ in range(20):
        publish(engine, *others)
        limited.sequence(member.fence)
    moved = sum(record.key == "hot" for record in logged(engine))
    assert moved >= 1_000


def test_other_keys_are_not_starved_by_a_hot_one(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    """They are all through long before the hot one is."""
    publish(engine, *["hot"] * 2_000)
    publish(engine, *(f"k-{number}" for number in range(100)))
    publish(engine, *["hot"] * 2_000)
    limited = sequencer(200)
    for _ in range(15):
        limited.sequence(member.fence)
    with engine.connect() as conn:
        left = {bytes(row[0]) for row in conn.execute("SELECT DISTINCT key FROM penstock_staged").fetchall()}
    assert left == {b"hot"}


def test_moved_events_are_found_by_time(
    engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member
) -> None:
    """The marks of the time index are set by the move as they are by an append."""
    in_one_partition(engine)
    times = []
    for _ in range(26):
        engine.clock.advance(timedelta(seconds=1))
        publish(engine, *["k"] * 100)
        times += [engine.clock.now_ms()] * 100
    limited = sequencer(300)
    while limited.sequence(member.fence).moved:
        pass
    log = engine.outbox.log
    for moment in (0, times[0], times[0] + 1, times[1_050], times[2_000] - 1, times[-1], times[-1] + 1):
        wanted = next((offset for offset, each in enumerate(times) if each >= moment), len(times))
        assert log.offset_at("events", 0, moment) == wanted
    with engine.connect() as conn:
        assert conn.execute("SELECT count(*) FROM penstock_log_time").fetchone()[0] >= 2


def test_what_was_moved_is_counted(engine: StoreEngine, sequencer: Callable[[int], Sequencer], member: Member) -> None:
    before = metrics.SEQUENCED.values().get((), 0)
    publish(engine, "a", "b", "c")
    sequencer(10).sequence(member.fence)
    assert metrics.SEQUENCED.values()[()] == before + 3


def test_without_a_test_clock_the_database_decides_what_is_due(engine: StoreEngine) -> None:
    """The caller's clock says when an event shall come, the database's when that is."""
    from penstock.clock import SYSTEM

    outbox = engine.another(SYSTEM)
    with engine.connect() as conn:
        outbox.publish(conn, "t", 1, key="a", at=timedelta(hours=1))
        outbox.publish(conn, "t", 1, key="b", at=timedelta(hours=-1))
        conn.commit()
    assert outbox.drain().sequenced == 1
    assert engine.outbox.log.bounds("events", 178) == (0, 0)
