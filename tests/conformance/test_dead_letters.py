"""Dead letters and waiting lanes, on every engine: what a person decides, and that order survives it."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from penstock.clock import SYSTEM, from_ms
from penstock.database.database import Database, Transaction
from penstock.delivery import dead as delivery_dead
from penstock.delivery.cursor_state import Trial
from penstock.delivery.store import GroupStore, Owned
from penstock.delivery.verdict import Dead, Parked, Passed
from penstock.errors import InvalidPage, InvalidSelection, InvalidTime, UnknownDeadLetter, UnknownGroup, UnknownTopic
from penstock.membership.domain import touch
from penstock.membership.member import ClusterSettings, Member
from penstock.membership.serving import Domain
from penstock.model.outcome import Cancel
from penstock.model.record import Record
from penstock.model.retry import Fixed
from penstock.operate import dead
from penstock.operate.dead import DeadLetter, DeadSelection, LetterOutcome, dead_letters
from penstock.operate.lanes import LaneState, WaitingLane, lanes
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition
from tests.suites.records import a_record

pytestmark = pytest.mark.usefixtures("brisk")
NEVER = Fixed(timedelta(seconds=1), max_retries=0)
EVERYTHING = DeadSelection(group="g", all=True)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


@pytest.fixture
def requeue(engine: StoreEngine, database: Database) -> Callable[..., LetterOutcome]:
    """Give a way to requeue, in the engine's time."""

    def act(selection: DeadSelection = EVERYTHING, **options: Any) -> LetterOutcome:
        return dead.requeue(database, selection, clock=engine.clock, **options)

    return act


@pytest.fixture
def discard(engine: StoreEngine, database: Database) -> Callable[..., LetterOutcome]:
    """Give a way to discard, in the engine's time."""

    def act(selection: DeadSelection = EVERYTHING, **options: Any) -> LetterOutcome:
        return dead.discard(database, selection, clock=engine.clock, **options)

    return act


Act = Callable[..., LetterOutcome]


def poisoned(engine: StoreEngine, *values: int, poison: int = 1, **options: Any) -> Seen:
    """Publish numbers under one key, one of them poison that dies at its first failure."""
    seen = Seen(poison)
    subscribe(engine.outbox, "g", seen, **{"retry": NEVER} | options)
    publish_values(engine, *values)
    engine.outbox.drain()
    return seen


def drained(engine: StoreEngine, seen: Seen) -> list[int]:
    """Drain with nothing failing any more and return what came."""
    seen.failing.clear()
    seen.clear()
    engine.outbox.drain()
    return seen.values()


def rows(engine: StoreEngine, columns: str, table: str) -> list[tuple[Any, ...]]:
    """Return what a table holds, as plain values."""
    with engine.connect() as conn:
        found = conn.execute(f"SELECT {columns} FROM penstock_{table} ORDER BY 1, 2").fetchall()
        conn.commit()
    return [tuple(row) for row in found]


def change(engine: StoreEngine, statement: str) -> None:
    """Change something behind Penstock's back."""
    with engine.connect() as conn:
        conn.execute(statement)
        conn.commit()


def all_letters(database: Database, **filters: Any) -> list[DeadLetter]:
    return dead_letters(database, **filters).items


def all_lanes(database: Database, engine: StoreEngine, **filters: Any) -> list[WaitingLane]:
    return lanes(database, clock=engine.clock, **filters).items


# --- requeue and discard -----------------------------------------------------------------------


def test_a_requeued_record_is_delivered_first_and_the_waiting_ones_follow(
    engine: StoreEngine, database: Database, requeue: Act
) -> None:
    """A poison record is dead after its retries and its lane held; requeue puts it back at the head."""
    seen = Seen(2)
    subscribe(engine.outbox, "g", seen, retry=Fixed(timedelta(seconds=1), max_retries=2))
    publish_values(engine, 1, 2, 3)
    for _ in range(4):
        engine.outbox.drain()
        engine.clock.advance(timedelta(seconds=1))
    publish_values(engine, 4)
    engine.outbox.drain()
    assert seen.values() == [1, 2, 2, 2]
    (letter,) = all_letters(database)
    assert (letter.failures, letter.holding, letter.key, letter.offset) == (3, True, "k", 1)
    (lane,) = all_lanes(database, engine)
    assert (lane.state, lane.key, lane.waiting) == (LaneState.HELD, "k", 2)
    assert requeue() == LetterOutcome(1)
    assert all_letters(database) == []
    (lane,) = all_lanes(database, engine)
    assert (lane.state, lane.failures, lane.waiting) == (LaneState.DUE, 0, 3)
    publish_values(engine, 5)
    assert drained(engine, seen) == [2, 3, 4, 5]
    assert all_lanes(database, engine) == []


def test_a_requeued_record_that_fails_again_has_all_its_retries_anew(
    engine: StoreEngine, database: Database, requeue: Act
) -> None:
    seen = poisoned(engine, 1, 2, retry=Fixed(timedelta(seconds=1), max_retries=1))
    for _ in range(3):
        engine.clock.advance(timedelta(seconds=1))
        engine.outbox.drain()
    assert seen.values() == [1, 1]
    requeue()
    for _ in range(3):
        engine.outbox.drain()
        engine.clock.advance(timedelta(seconds=1))
    assert seen.values() == [1, 1, 1, 1]
    assert [(each.failures, each.holding) for each in all_letters(database)] == [(2, True)]
    assert requeue() == LetterOutcome(1)
    assert drained(engine, seen) == [1, 2]


def test_a_discarded_record_frees_its_key(engine: StoreEngine, database: Database, discard: Act) -> None:
    seen = poisoned(engine, 1, 2, 3)
    assert discard() == LetterOutcome(1)
    (lane,) = all_lanes(database, engine)
    assert (lane.state, lane.waiting) == (LaneState.SLOW, 2)
    assert drained(engine, seen) == [2, 3]
    assert (all_letters(database), all_lanes(database, engine)) == ([], [])


def test_a_discarded_record_with_none_behind_it_leaves_no_lane(
    engine: StoreEngine, database: Database, discard: Act
) -> None:
    seen = poisoned(engine, 1)
    assert [each.state for each in all_lanes(database, engine)] == [LaneState.HELD]
    assert discard() == LetterOutcome(1)
    assert (all_letters(database), all_lanes(database, engine)) == ([], [])
    publish_values(engine, 2)
    assert drained(engine, seen) == [2]


@pytest.mark.parametrize(
    "options", [{"on_exhausted": "release"}, {"on_failure": "dead"}, {"on_failure": "alone"}], ids=str
)
def test_a_record_whose_key_went_on_comes_back_alone(
    options: dict[str, Any], engine: StoreEngine, database: Database, requeue: Act
) -> None:
    seen = poisoned(engine, 1, 2, **options)
    assert seen.values() == [1, 2]
    assert [each.holding for each in all_letters(database)] == [False]
    assert requeue() == LetterOutcome(1, out_of_order=1)
    (lane,) = all_lanes(database, engine)
    assert (lane.key, lane.alone, lane.waiting) == ("k", 0, 1)
    publish_values(engine, 3)
    assert sorted(drained(engine, seen)) == [1, 3]
    assert all_lanes(database, engine) == []


def test_a_cancelled_record_comes_back_alone_also_while_another_holds_its_key(
    engine: StoreEngine, database: Database, requeue: Act
) -> None:
    """It does not go before the one that holds: its key had gone on without it."""
    seen = Seen(2)

    def handler(record: Record) -> object:
        seen(record)
        return Cancel("no") if record.value == 1 and seen.failing else None

    subscribe(engine.outbox, "g", handler, retry=NEVER)
    publish_values(engine, 1, 2, 3)
    engine.outbox.drain()
    assert [(each.offset, each.holding) for each in all_letters(database)] == [(1, True), (0, False)]
    assert requeue() == LetterOutcome(2, out_of_order=1)
    assert {(each.alone, each.waiting) for each in all_lanes(database, engine)} == {(0, 1), (None, 2)}
    came = drained(engine, seen)
    assert sorted(came) == [1, 2, 3]
    assert [value for value in came if value != 1] == [2, 3]


def test_a_discarded_record_that_held_nothing_disturbs_nobody(
    engine: StoreEngine, database: Database, discard: Act
) -> None:
    poisoned(engine, 1, 2, on_exhausted="release")
    before = rows(engine, "partition, owner, epoch, version", "cursor")
    assert discard() == LetterOutcome(1)
    assert all_letters(database) == []
    assert rows(engine, "partition, owner, epoch, version", "cursor") == before


def test_run_twice_it_finds_nothing_more(engine: StoreEngine, database: Database, requeue: Act, discard: Act) -> None:
    seen = poisoned(engine, 1, 2)
    before = rows(engine, "partition, lanes_version", "cursor")
    assert requeue() == LetterOutcome(1)
    after = rows(engine, "partition, lanes_version", "cursor")
    assert requeue() == discard() == LetterOutcome(0)
    assert sum(b != a for a, b in zip(before, after, strict=True)) == 1
    assert rows(engine, "partition, lanes_version", "cursor") == after
    assert drained(engine, seen) == [1, 2]
    assert requeue() == LetterOutcome(0)
    assert drained(engine, seen) == []


def test_two_at_once_put_a_record_back_once(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    for number in range(20):
        publish_values(engine, 1, 2, key=f"k-{number}")
    engine.outbox.drain()
    together = Barrier(3)

    def act(function: Callable[..., LetterOutcome]) -> int:
        together.wait()
        return function(database, EVERYTHING, clock=engine.clock).count

    with ThreadPoolExecutor(3) as pool:
        counts = list(pool.map(act, [dead.requeue, dead.discard, dead.requeue]))
    assert sum(counts) == 20
    came = drained(engine, seen)
    assert (came.count(1), came.count(2)) == (counts[0] + counts[2], 20)


def test_a_dry_run_counts_and_changes_nothing(
    engine: StoreEngine, database: Database, requeue: Act, discard: Act
) -> None:
    poisoned(engine, 1, 2)
    released = Seen(1)
    subscribe(engine.outbox, "released", released, retry=NEVER, on_exhausted="release")
    engine.outbox.drain()
    before = [rows(engine, "*", table) for table in ("cursor", "lane", "lane_entry", "dead")]
    assert requeue(dry_run=True) == discard(dry_run=True) == LetterOutcome(1)
    everything = DeadSelection(group="released", all=True)
    assert requeue(everything, dry_run=True) == LetterOutcome(1, out_of_order=1)
    assert discard(everything, dry_run=True) == LetterOutcome(1)
    assert [rows(engine, "*", table) for table in ("cursor", "lane", "lane_entry", "dead")] == before


def test_more_than_a_batch_is_done_in_several(
    engine: StoreEngine, database: Database, requeue: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each letter once, over topics and partitions; and those of another group are left alone."""
    monkeypatch.setattr(dead, "BATCH", 3)
    seen, other = Seen(1), Seen(1)
    for topic in ("events", "others"):
        subscribe(engine.outbox, "g", seen, retry=NEVER, topic=topic, id=f"g-{topic}")
    subscribe(engine.outbox, "other", other, retry=NEVER)
    with engine.connect() as conn:
        for number in range(8):
            for topic in ("events", "others"):
                engine.outbox.publish(conn, "t", 1, key=f"k-{number}", topic=topic)
        conn.commit()
    engine.outbox.drain()
    assert requeue(dry_run=True) == requeue() == LetterOutcome(16)
    assert len(drained(engine, seen)) == 16
    assert len(all_letters(database, group="other")) == 8


def test_what_dies_anew_meanwhile_is_not_taken_again_by_the_same_command(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a requeue beside a worker that fails at once would never end."""
    monkeypatch.setattr(dead, "BATCH", 1)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    for number in range(3):
        publish_values(engine, 1, key=f"k-{number}")
    engine.outbox.drain()
    run = database.run

    def then_drained(work: Callable[..., Any]) -> Any:
        done = run(work)
        engine.outbox.drain()
        return done

    monkeypatch.setattr(database, "run", then_drained)
    assert dead.requeue(database, EVERYTHING, clock=engine.clock) == LetterOutcome(3)
    assert len(seen) == 6


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (DeadSelection(group="g", key="a"), {"b/x", "b/y"}),
        (DeadSelection(group="g", type="x"), {"a/y", "b/y"}),
        (DeadSelection(group="g", key="b", type="y"), {"a/x", "a/y", "b/x"}),
        (DeadSelection(group="g", key="nobody"), {"a/x", "a/y", "b/x", "b/y"}),
        (DeadSelection(group="g", all=True), set()),
        (DeadSelection(group="g", all=True, topic="events"), set()),
    ],
    ids=["key", "type", "both", "nobody", "all", "topic"],
)
def test_only_what_is_selected_is_decided(
    selection: DeadSelection, left: set[str], engine: StoreEngine, database: Database, discard: Act
) -> None:
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, on_failure="dead")
    for key in "ab":
        for type in "xy":
            publish_values(engine, 1, key=key, type=type)
    engine.outbox.drain()
    assert discard(selection).count == 4 - len(left)
    assert {f"{each.key}/{each.type}" for each in all_letters(database)} == left


def test_one_record_is_selected_by_its_id(engine: StoreEngine, database: Database, requeue: Act) -> None:
    subscribe(engine.outbox, "g", Seen(1), on_failure="dead")
    publish_values(engine, 1, 1, 1)
    engine.outbox.drain()
    middle = next(each for each in all_letters(database) if each.offset == 1)
    assert requeue(DeadSelection(group="g", id=middle.id)).count == 1
    assert [each.offset for each in all_letters(database)] == [2, 0]


def test_a_selection_says_what_it_means() -> None:
    for given in ({}, {"topic": "events"}, {"all": True, "key": "k"}):
        with pytest.raises(InvalidSelection):
            DeadSelection(group="g", **given)


def test_unknown_names_are_refused(engine: StoreEngine, database: Database, requeue: Act) -> None:
    poisoned(engine, 1)
    for name in ("nobody", "nobody\0", "nobody\udc80"):
        with pytest.raises(UnknownGroup):
            requeue(DeadSelection(group=name, all=True))
        with pytest.raises(UnknownGroup):
            dead_letters(database, group=name)
    with pytest.raises(UnknownTopic):
        requeue(DeadSelection(group="g", all=True, topic="nothing"))
    for odd in ("\0", "\udc80"):
        assert requeue(DeadSelection(group="g", key=odd)) == LetterOutcome(0)
        assert requeue(DeadSelection(group="g", type=odd)) == LetterOutcome(0)
        assert requeue(DeadSelection(group="g", id=odd)) == LetterOutcome(0)


# --- beside an owner ---------------------------------------------------------------------------


class Owner:
    """A member that owns the group's partition and has a record out."""

    def __init__(self, engine: StoreEngine, database: Database) -> None:
        self.member = Member(database, ClusterSettings.load(), engine.clock)
        self.member.join()
        topic = engine.outbox.log.topic("events")
        self.store = GroupStore(engine.outbox.store, engine.clock, group="g", topic=topic, owner=self.member.id)
        self.partition, self.owned = self.take()

    def take(self) -> tuple[int, Owned]:
        ((partition, owned),) = self.store.take(self.member.living).items()
        return partition, owned

    def settles(self) -> bool:
        """Return whether what it has done is accepted."""
        settlement = self.owned.machine.settlement()
        assert settlement is not None
        return self.store.settle({self.partition: (self.owned, settlement)}) == set()


@pytest.mark.parametrize("deciding", [dead.requeue, dead.discard], ids=["requeue", "discard"])
def test_an_owner_with_an_older_view_cannot_write_over_it(
    deciding: Callable[..., LetterOutcome], engine: StoreEngine, database: Database
) -> None:
    """It learns of it and settles what it has done."""
    in_one_partition(engine)
    seen = poisoned(engine, 1, 2)
    publish_values(engine, 3)
    publish_values(engine, 10, 11, key="other")
    sequenced_only(engine)
    owner = Owner(engine, database)
    machine = owner.owned.machine
    for offset, key in enumerate("kkkoo"):
        machine.feed(offset, key, wanted=True)
    assert [each.offset for each in machine.take(0, 10)] == [3]
    assert deciding(database, EVERYTHING, clock=engine.clock) == LetterOutcome(1)
    machine.finish(3, Passed())
    assert owner.settles()
    owner.store.release([owner.partition])
    owner.member.leave()
    came = drained(engine, seen)
    assert [value for value in came if value < 10] == ([1, 2, 3] if deciding is dead.requeue else [2, 3])
    assert [value for value in came if value >= 10] == [11]
    assert (rows(engine, "lane, reason", "lane"), rows(engine, "lane, partition", "lane_entry")) == ([], [])


def sequenced_only(engine: StoreEngine) -> None:
    """Move what is staged into the log without handling it."""
    engine.another().drain()


def test_a_decision_does_not_hide_the_crash_of_an_owner(engine: StoreEngine, database: Database, requeue: Act) -> None:
    """Its lease has run out and nobody has taken over yet: whoever does shall count it."""
    in_one_partition(engine)
    poisoned(engine, 1, 2)
    publish_values(engine, 10, key="other")
    sequenced_only(engine)
    owner = Owner(engine, database)
    engine.clock.advance(timedelta(seconds=60))
    requeue()
    assert rows(engine, "owner, crashes", "cursor") == [(owner.member.id, 0)]
    after = Owner(engine, database)
    assert after.owned.crashes == 1
    assert not after.owned.machine.idle(0)


def test_what_is_suspected_stays_so_whatever_a_person_decides(
    engine: StoreEngine, database: Database, requeue: Act
) -> None:
    in_one_partition(engine)
    seen = poisoned(engine, 1, 2)
    trial = Trial(deaths=2, alone={0: 3}).encode()
    change(engine, f"UPDATE penstock_cursor SET trial = '{trial}'")
    requeue()
    assert rows(engine, "partition, trial", "cursor") == [(0, trial)]
    assert drained(engine, seen) == [1, 2]


def test_the_domain_is_touched_before_anything_is_locked(
    engine: StoreEngine, database: Database, requeue: Act, discard: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that an idle owner notices, and in the order in which those who share out lock."""
    poisoned(engine, 1, 2)
    ((group, topic),) = rows(engine, "group_id, topic_id", "dead")
    name = Domain(group, topic).name
    change(engine, f"INSERT INTO penstock_domain (name, version, members) VALUES ('{name}', 7, '[]')")
    asked: list[str] = []

    def noting(self: Any, room: str, name: str, params: Any, /) -> Any:
        asked.append(f"{room}/{name}")
        return execute(self, room, name, params)

    execute = Transaction.execute
    monkeypatch.setattr(Transaction, "execute", noting)
    requeue()
    acted = asked[asked.index("operate/dead_pick") + 1 :]
    assert acted[:3] == ["membership/domain_touch", "delivery/cursors_hold", "delivery/dead_peek"]
    assert rows(engine, "name, version", "domain") == [(name, 8)]
    engine.outbox.drain()
    discard()
    assert rows(engine, "name, version", "domain") == [(name, 9)]


def test_a_running_worker_notices(engine: StoreEngine, database: Database) -> None:
    """In real time: it owns the partition and has nothing to do, and then it has."""
    outbox = engine.another(clock=SYSTEM)
    seen, stop = Seen(1), Event()
    subscribe(outbox, "g", seen, retry=NEVER)
    worker = Thread(target=outbox.run, kwargs={"until": stop})
    worker.start()
    try:
        publish_values(engine, 1, 2, 3)
        wait_until(lambda: all_letters(database), "the record is dead")
        seen.failing.clear()
        assert dead.requeue(database, EVERYTHING) == LetterOutcome(1)
        wait_until(lambda: len(seen) >= 4, "the worker has delivered what was requeued")
    finally:
        stop.set()
        worker.join()
    assert seen.values() == [1, 1, 2, 3]
    assert rows(engine, "DISTINCT owner, crashes", "cursor") == [(None, 0)]


# --- states that only a reset, retention or a deleted topic can leave --------------------------


def test_a_record_that_is_to_be_read_again_anyway_is_not_doubled(
    engine: StoreEngine, database: Database, requeue: Act
) -> None:
    """After a reset the cursor stands before it."""
    in_one_partition(engine)
    seen = poisoned(engine, 1, 2)
    change(engine, "UPDATE penstock_cursor SET \"offset\" = 0, passed = ''")
    change(engine, "DELETE FROM penstock_lane_entry")
    assert requeue() == LetterOutcome(1)
    assert (rows(engine, "lane, state", "lane"), rows(engine, "lane, partition", "lane_entry")) == ([], [])
    assert drained(engine, seen) == [1, 2]


def test_a_record_that_waits_in_a_lane_already_is_not_doubled(
    engine: StoreEngine, database: Database, requeue: Act
) -> None:
    in_one_partition(engine)
    seen = poisoned(engine, 1, 2)
    change(
        engine,
        'INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane, whole, late, '
        'alone) SELECT group_id, topic_id, partition, "offset", lane, whole, late, alone FROM penstock_dead',
    )
    assert requeue() == LetterOutcome(1)
    assert drained(engine, seen) == [1, 2]


def test_a_lane_goes_on_only_when_no_letter_holds_it_any_more(
    engine: StoreEngine, database: Database, requeue: Act, discard: Act
) -> None:
    in_one_partition(engine)
    seen = poisoned(engine, 1, 2, 3)
    value = f"CAST('2' AS {'bytea' if engine.is_postgres else 'blob'})"
    second = (
        'INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, whole, late, alone, '
        "holding, failures, reason, died_ms, id, type, value, timestamp_ms) "
        "SELECT d.group_id, d.topic_id, d.partition, 1, d.lane, d.whole, d.late, d.alone, d.holding, "
        f"d.failures, d.reason, d.died_ms, 'second', 'second', {value}, d.timestamp_ms FROM penstock_dead d"
    )
    change(engine, second)
    change(engine, 'DELETE FROM penstock_lane_entry WHERE "offset" = 1')
    assert requeue(DeadSelection(group="g", type="t")) == LetterOutcome(1)
    assert [each.state for each in all_lanes(database, engine)] == [LaneState.HELD]
    assert requeue(DeadSelection(group="g", id="second")) == LetterOutcome(1)
    assert drained(engine, seen) == [1, 2, 3]


def test_a_record_that_the_log_no_longer_has_is_requeued_from_its_letter(
    engine: StoreEngine, database: Database, requeue: Act
) -> None:
    """Its only copy is in the letter, and goes with it into the lane."""
    in_one_partition(engine)
    seen = poisoned(engine, 1, 2)
    engine.lose(0)
    assert requeue() == LetterOutcome(1)
    assert drained(engine, seen) == [1, 2]
    assert all_lanes(database, engine) == []


def test_letters_of_a_topic_that_is_deleted_meanwhile_are_left_alone(engine: StoreEngine, database: Database) -> None:
    poisoned(engine, 1)
    ((group, topic),) = rows(engine, "group_id, topic_id", "dead")
    engine.outbox.log.delete_topic("events")
    letters = delivery_dead.DeadLetters(
        group, topic, living=lambda tx: [], touch=lambda tx, group_id, topic_id: touch(tx, Domain(group_id, topic_id))
    )
    for act in (letters.requeue, letters.discard):
        assert database.run(lambda tx, act=act: act(tx, [(0, 0)])) == delivery_dead.Decided()  # type: ignore[misc]


# --- listings ----------------------------------------------------------------------------------


def test_a_letter_says_all_about_itself(engine: StoreEngine, database: Database) -> None:
    poisoned(engine, 1)
    (letter,) = all_letters(database)
    (record,) = engine.outbox.log.read("events", letter.partition)
    assert letter == DeadLetter(
        group="g",
        topic="events",
        partition=letter.partition,
        offset=0,
        id=record.id,
        key="k",
        type="t",
        failures=1,
        reason="OrderDeclined: 1",
        died_at=engine.clock.now(),
        holding=True,
        name=f"event:t:{letter.partition:04}:{engine.clock.now_ms():013}:{record.id}",
    )


def test_the_newest_comes_first_and_pages_join_without_gap_or_overlap(engine: StoreEngine, database: Database) -> None:
    """`after` is None exactly when there is no more."""
    subscribe(engine.outbox, "g", Seen(1), on_failure="dead")
    for number in range(7):
        publish_values(engine, 1, key=f"k-{number}")
        if number % 2:  # two die in the same millisecond
            engine.outbox.drain()
            engine.clock.advance(timedelta(seconds=1))
    engine.outbox.drain()
    for limit in (1, 2, 3, 6, 7, 8):
        found, after, pages = list[DeadLetter](), None, 0
        while pages == 0 or after is not None:
            page = dead_letters(database, limit=limit, after=after)
            found, after, pages = found + page.items, page.after, pages + 1
        assert len({each.id for each in found}) == len(found) == 7
        assert [each.died_at for each in found] == sorted((each.died_at for each in found), reverse=True)
        assert pages == -(-7 // limit)


def test_letters_are_listed_by_what_one_looks_for(engine: StoreEngine, database: Database) -> None:
    for group in ("g", "h"):
        subscribe(engine.outbox, group, Seen(1), on_failure="dead")
    publish_values(engine, 1, key="a", type="x")
    publish_values(engine, 1, key="b", type="y")
    engine.outbox.drain()
    first = all_letters(database, group="g", key="a")[0]
    for filters, count in (
        ({}, 4),
        ({"group": "g"}, 2),
        ({"key": "a"}, 2),
        ({"type": "y"}, 2),
        ({"id": first.id}, 2),
        ({"group": "h", "type": "x"}, 1),
        ({"topic": "events"}, 4),
        ({"key": "x"}, 0),
    ):
        assert len(all_letters(database, **filters)) == count, filters


@pytest.mark.parametrize("listing", [dead_letters, lanes])
def test_a_page_that_cannot_be_is_refused(listing: Callable[..., Any], engine: StoreEngine, database: Database) -> None:
    for limit in (0, -1, 1001):
        with pytest.raises(InvalidPage, match="limit"):
            listing(database, limit=limit)
    for after in ("", "x", "é", "W10", "WzEsMiwzLDQsLTFd", "WzEsMiwtMywieCJd", "!!!!", "eyJhIjoxfQ"):
        with pytest.raises(InvalidPage, match="go on from"):
            listing(database, after=after)


def test_a_letter_is_shown_with_its_record(engine: StoreEngine, database: Database) -> None:
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    with engine.connect() as conn:
        id = engine.outbox.publish(conn, "t", 1, key="k", headers={"tenant": "a"})
        conn.commit()
    engine.outbox.drain()
    (shown,) = dead.show_by_id(database, id)
    again = dead.show(database, "g", "events", shown.letter.partition, shown.letter.offset)
    assert again == shown
    assert (shown.record.value, shown.record.headers, shown.record.timestamp) == (
        1,
        {"tenant": "a"},
        engine.clock.now(),
    )
    assert shown.damage is None
    for ask in (
        lambda: dead.show_by_id(database, "nobody"),
        lambda: dead.show(database, "g", "events", shown.letter.partition, 99),
    ):
        with pytest.raises(UnknownDeadLetter):
            ask()


def test_a_letter_whose_headers_are_broken_is_shown_all_the_same(engine: StoreEngine, database: Database) -> None:
    poisoned(engine, 1)
    escape = "'\\xffff'::bytea" if engine.url.startswith("postgresql") else "x'ffff'"
    change(engine, f"UPDATE penstock_dead SET headers = {escape}")
    (shown,) = dead.show_by_id(database, all_letters(database)[0].id)
    assert shown.record.value == 1
    assert "headers" in str(shown.damage)


ODD_KEYS = ["#1", "#1#x", "##", "\\x41", "a\nb", "caf\udce9", "#5#\n", "plain", "[red]"]


def test_lanes_are_listed_by_their_keys_however_these_are_written(
    engine: StoreEngine, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those that came in as other bytes than text, and those that look like names of ours."""
    caplog.set_level(logging.CRITICAL, "penstock")  # xdist cannot carry a key that is no text
    in_one_partition(engine)
    for group, options in (("held", {}), ("alone", {"on_failure": "alone"})):
        subscribe(engine.outbox, group, Seen(1), **{"retry": NEVER if group == "held" else None} | options)
    engine.outbox.log.append("events", [a_record(key, b"1") for key in ODD_KEYS])
    engine.outbox.drain()
    assert {each.key for each in all_letters(database)} == set(ODD_KEYS)
    for offset, key in enumerate(ODD_KEYS):
        (held,) = all_lanes(database, engine, group="held", key=key)
        assert (held.key, held.alone, held.state, held.waiting) == (key, None, LaneState.HELD, 0)
        (alone,) = all_lanes(database, engine, group="alone", key=key)
        assert (alone.key, alone.alone, alone.state, alone.waiting) == (key, offset, LaneState.PARKED, 1)
        assert dead_letters(database, key=key).items[0].offset == offset


def test_lanes_say_what_they_wait_for(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=Fixed(timedelta(seconds=5), max_retries=1))
    publish_values(engine, 1, 2, key="a")
    engine.outbox.drain()
    (lane,) = all_lanes(database, engine)
    assert (lane.state, lane.until, lane.failures, lane.reason, lane.waiting) == (
        LaneState.PARKED,
        engine.clock.now() + timedelta(seconds=5),
        1,
        "OrderDeclined: 1",
        2,
    )
    engine.clock.advance(timedelta(seconds=5))
    assert [(each.state, each.until) for each in all_lanes(database, engine)] == [(LaneState.DUE, None)]
    engine.outbox.drain()
    assert [(each.state, each.waiting) for each in all_lanes(database, engine)] == [(LaneState.HELD, 1)]
    publish_values(engine, 1, key="b")
    engine.outbox.drain()
    assert [each.key for each in all_lanes(database, engine, held=True)] == ["a"]
    assert [each.key for each in all_lanes(database, engine, held=False)] == ["b"]


def test_pages_of_lanes_join_without_gap_or_overlap(engine: StoreEngine, database: Database) -> None:
    for group in ("g", "h"):
        subscribe(engine.outbox, group, Seen(1))
    for number in range(5):
        publish_values(engine, 1, 2, key=f"k-{number}")
    engine.outbox.drain()
    for limit in (1, 3, 5, 9, 10, 11):
        found, after, pages = list[WaitingLane](), None, 0
        while pages == 0 or after is not None:
            page = lanes(database, limit=limit, after=after, clock=engine.clock)
            found, after, pages = found + page.items, page.after, pages + 1
        assert len({(each.group, each.key) for each in found}) == len(found) == 10
        assert {each.waiting for each in found} == {2}
        assert pages == -(-10 // limit)


def test_what_is_written_behind_an_owners_back_is_what_it_would_load(
    engine: StoreEngine, database: Database, requeue: Act
) -> None:
    """A lane with later entries, one with a parked neighbour, and the done set, all at once."""
    in_one_partition(engine)
    engine.outbox.log.append("events", [a_record(key) for key in "xyxzzx"])
    owner = Owner(engine, database)
    machine = owner.owned.machine
    for offset, key in enumerate("xyxzzx"):
        machine.feed(offset, key, wanted=True)
    machine.take(0, 10)
    machine.finish(0, Dead(1, "x", hold=True))
    machine.finish(3, Parked(5, 1, "z"))
    assert owner.settles()
    requeue()
    owner.store.release([owner.partition])
    _, owned = owner.take()
    assert owned.machine.missing() == [1]
    assert [(each.offset, each.failures) for each in owned.machine.take(0, 10)] == [(0, 0)]
    assert [(each.offset, each.failures) for each in owned.machine.take(5, 10)] == [(3, 1)]
    assert list(owned.machine.stored("x")) == [0, 2, 5]


def test_letters_are_picked_by_when_they_died(
    engine: StoreEngine, database: Database, requeue: Act, discard: Act
) -> None:
    """From a moment on, up to before another; a time that is empty is refused."""
    moments = []
    seen = Seen(1, 2, 3)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    for value in (1, 2, 3):
        moments.append(from_ms(engine.clock.now_ms()))
        publish_values(engine, value, key=f"k-{value}")
        engine.outbox.drain()
        engine.clock.advance(timedelta(hours=1))
    first, second, third = moments
    assert [each.key for each in all_letters(database, since=second)] == ["k-3", "k-2"]
    assert [each.key for each in all_letters(database, before=second)] == ["k-1"]
    assert [each.key for each in all_letters(database, since=second, before=third)] == ["k-2"]
    for since, before in ((second, second), (third, first)):
        with pytest.raises(InvalidSelection, match="earlier"):
            DeadSelection(group="g", since=since, before=before)
        with pytest.raises(InvalidSelection, match="earlier"):
            dead_letters(database, since=since, before=before)
    with pytest.raises(InvalidSelection, match="contradict"):
        DeadSelection(group="g", since=first, all=True)
    with pytest.raises(InvalidTime):
        DeadSelection(group="g", since=first.replace(tzinfo=None))
    assert requeue(DeadSelection(group="g", before=second), dry_run=True).count == 1
    assert requeue(DeadSelection(group="g", before=second)).count == 1
    assert discard(DeadSelection(group="g", since=third)).count == 1
    assert [each.key for each in all_letters(database)] == ["k-2"]
