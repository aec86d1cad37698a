"""Fencing: who has lost a slot or a cursor, by a pause, a wrong clock or a release, writes nothing more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial
from threading import Event

import pytest
from psycopg.pq import TransactionStatus

from penstock import Record
from penstock.clock import SYSTEM
from penstock.delivery.cursors import Cursor, Cursors
from penstock.errors import Fenced
from penstock.log.sql.database import Database, Transaction
from penstock.membership.member import Member
from penstock.worker.drain import Counts
from tests.crash.account import breaches, logged
from tests.crash.children import Child
from tests.crash.holding import held_at
from tests.crash.store import Store, a_member, a_sequencer, a_service, running
from tests.crash.waiting import wait_until

Living = Callable[[Transaction], list[str]]
LEASE = timedelta(seconds=1)  # of the one that is stopped; its heir has a long one, and keeps what it took
BEAT = timedelta(milliseconds=100)
KEYS = ["k-1", "k-2", "k-3", "k-1", "k-2", "k-3"]
# The lease runs out, the server ends the stopped session, the other's heartbeat comes round: how long the
# machine may take for the steps between them. It only tells "late" from "never".
SLACK = timedelta(seconds=5)


@pytest.mark.parametrize(
    "point",
    [
        "sequencer.before_commit",
        pytest.param("sequencer.after_fence", marks=pytest.mark.slow),
        pytest.param("sequencer.after_pick", marks=pytest.mark.slow),
    ],
)
def test_an_owner_stopped_inside_its_move_is_replaced_in_time_and_writes_nothing_when_it_wakes(
    postgres_store: Store, point: str
) -> None:
    with a_stopped_owner(postgres_store, point) as stale:
        postgres_store.publish_committed("three", KEYS)
        stale.wait_until_stopped()
        assert logged(postgres_store) == []
        ((stale_id, lease_until_ms),) = members(postgres_store)
        with closing(postgres_store.database()) as database, running(a_service(database, beat=BEAT)):
            wait_until(lambda: owned(postgres_store, stale_id) == 0, "all slots have a new owner")
            delay = timedelta(milliseconds=now_ms(postgres_store) - lease_until_ms)
            wait_until(lambda: postgres_store.waiting() == 0, "the new owner has moved everything")
            before = logged(postgres_store)
            stale.resume()
            wait_for_heartbeats(postgres_store, stale_id)
            assert logged(postgres_store) == before
            postgres_store.publish_committed("three", KEYS)
            wait_until(lambda: postgres_store.waiting() == 0, "the new owner goes on")
            assert sum(said["moved"] for said in stale.stop()) == 0
    assert delay <= LEASE + SLACK, f"the stopped owner delayed its take-over by {delay}"
    assert breaches(postgres_store) == []


@pytest.mark.parametrize(
    "point", ["sequencer.after_fence", "sequencer.after_pick", "sequencer.before_commit"]
)
def test_slots_do_not_change_hands_in_the_middle_of_a_move(postgres_store: Store, point: str) -> None:
    postgres_store.publish_committed("three", KEYS)
    with closing(postgres_store.database()) as database, ThreadPoolExecutor(1) as pool:
        owner = a_member(database, lease=timedelta(milliseconds=300))
        with held_at(point) as hold:
            move = pool.submit(a_sequencer(database).sequence, owner.fence)
            hold.wait()
            heir = a_member(database)
            wait_until(lambda: heir.take() > 0, "the owner's lease has run out")
            assert heir.take() == 256 - len(set(KEYS)), "a slot was taken while its owner moved"
            hold.let_go()
            assert move.result().moved == len(KEYS)
        wait_until(partial(owns_all, heir), "the heir owns every slot")
    assert breaches(postgres_store) == []


@pytest.mark.parametrize("sleepwalking", [False, True], ids=["awake", "an hour behind"])
def test_an_owner_stopped_between_passes_moves_nothing_when_it_wakes(
    postgres_store: Store, sleepwalking: bool
) -> None:
    with a_stopped_owner(postgres_store, "sequencer.after_commit", sleepwalking=sleepwalking) as stale:
        postgres_store.publish_committed("three", KEYS)
        stale.wait_until_stopped()
        ((stale_id, _),) = members(postgres_store)
        before = logged(postgres_store)
        assert len(before) == len(KEYS)
        postgres_store.publish_committed("three", KEYS)
        with closing(postgres_store.database()) as database:
            heir = a_member(database)
            wait_until(partial(owns_all, heir), "the heir owns every slot")
            stale.resume()
            assert stale.says() == {"moved": len(KEYS), "fenced": 0}  # what it had done before
            if sleepwalking:  # it believes in its lease for ever, so only the fence stops it
                for _ in range(3):
                    refused = stale.says()
                    assert (refused["moved"], refused["fenced"] > 0) == (0, True)
            else:
                wait_for_heartbeats(postgres_store, stale_id)
            assert logged(postgres_store) == before
            assert sum(said["moved"] for said in stale.stop()) == 0
            heir.heartbeat()
            assert a_sequencer(database).sequence(heir.fence).moved == len(KEYS)
    assert breaches(postgres_store) == []


def test_a_late_move_after_a_voluntary_release_writes_nothing(store: Store) -> None:
    with closing(store.database()) as database:
        member, other, sequencer = a_member(database), a_member(database), a_sequencer(database)
        old = member.fence
        store.publish_committed("three", KEYS)
        epochs = [epoch_sum(store)]
        for change in (member.release, other.take, other.release, member.take):
            change()
            epochs.append(epoch_sum(store))
            late = sequencer.sequence(old)
            assert (late.moved, late.fenced > 0) == (0, True)
            assert logged(store) == []
        assert epochs == [epochs[0] + 256 * changes for changes in range(5)]
        assert sequencer.sequence(member.fence).moved == len(KEYS)
    assert breaches(store) == []


def test_a_member_stopped_while_it_takes_slots_does_not_keep_others_from_taking_them(
    postgres_store: Store,
) -> None:
    with a_child(postgres_store, "membership.after_take") as stale:
        stale.wait_until_stopped()
        postgres_store.publish_committed("three", KEYS)
        with closing(postgres_store.database()) as database, running(a_service(database, beat=BEAT)):
            wait_until(
                lambda: postgres_store.waiting() == 0, "another has taken the slots and moved everything"
            )
            stale.resume()
            assert sum(said.get("moved", 0) for said in stale.stop()) == 0
    assert breaches(postgres_store) == []


def test_a_member_that_joins_while_another_takes_slots_is_not_robbed(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(postgres_store.database()) as database, ThreadPoolExecutor(1) as pool:
        newcomers: list[Future[Member]] = []
        after_the_look_at_who_lives(
            monkeypatch,
            postgres_store,
            lambda: newcomers.append(pool.submit(a_member, database)),
            lambda: newcomers[0].done(),
        )
        before = epoch_sum(postgres_store)
        first = a_member(database)
        second = newcomers[0].result()
        assert sorted((owned(postgres_store, first.id), owned(postgres_store, second.id))) == [0, 256]
        assert epoch_sum(postgres_store) == before + 256, "a slot changed hands twice"


def test_a_drain_that_begins_while_another_takes_cursors_does_not_get_the_same_records(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered: list[int | None] = []
    at_work, first_is_done = Event(), Event()
    with closing(Store(postgres_store.url)) as other, ThreadPoolExecutor(1) as pool:

        @postgres_store.outbox.handler(group="reader", topic="three", id="first")
        def remember(record: Record) -> None:
            delivered.append(record.offset)

        @other.outbox.handler(group="reader", topic="three", id="second")
        def remember_slowly(record: Record) -> None:
            at_work.set()
            assert first_is_done.wait(60)
            delivered.append(record.offset)

        postgres_store.publish_committed("three", ["k-1"])
        postgres_store.outbox.drain()  # from now on there is a cursor; making one would keep others out
        postgres_store.publish_committed("three", ["k-1"] * 4)
        drains: list[Future[Counts]] = []
        is_taking, take = Event(), Cursors.take

        def taking(self: Cursors, living: Living, *, from_start: bool) -> list[Cursor]:
            is_taking.set()
            return take(self, living, from_start=from_start)

        after_the_look_at_who_lives(
            monkeypatch,
            postgres_store,
            lambda: drains.append(pool.submit(other.outbox.drain)),
            at_work.is_set,
            when=is_taking.is_set,
        )
        monkeypatch.setattr(Cursors, "take", taking)
        postgres_store.outbox.drain()
        first_is_done.set()
        drains[0].result()
    assert delivered == [0, 1, 2, 3, 4]


def test_a_late_settling_moves_no_cursor(store: Store) -> None:
    store.publish_committed("three", ["k-1"] * 4)
    store.outbox.drain()
    with closing(store.database()) as database:
        early, late = a_cursors(store, database, "early"), a_cursors(store, database, "late")
        (before,) = early.take(lambda _: [], from_start=True)
        (after,) = late.take(lambda _: ["late"], from_start=True)
        late.settle(after, 3)
        with pytest.raises(Fenced):
            early.settle(before, 1)
        assert offsets(store) == [3]
        early.release()  # gives nothing back: it owns nothing
        late.settle(after, 4)
        assert offsets(store) == [4]


def test_a_settling_repeated_after_a_lost_answer_is_refused_and_changes_nothing(store: Store) -> None:
    store.publish_committed("three", ["k-1"] * 4)
    store.outbox.drain()
    with closing(store.database()) as database:
        cursors = a_cursors(store, database, "reader")
        (cursor,) = cursors.take(lambda _: [], from_start=True)
        cursors.settle(cursor, 2)
        for believed, reached in ((0, 2), (0, 4), (3, 4)):
            cursor.offset = believed  # what a member believes that never heard the answer
            with pytest.raises(Fenced):
                cursors.settle(cursor, reached)
            assert offsets(store) == [2]


def test_a_settling_after_a_release_is_refused(store: Store) -> None:
    store.publish_committed("three", ["k-1"] * 4)
    store.outbox.drain()
    with closing(store.database()) as database:
        cursors = a_cursors(store, database, "reader")
        (cursor,) = cursors.take(lambda _: [], from_start=True)
        cursors.release()
        with pytest.raises(Fenced):
            cursors.settle(cursor, 1)
        (again,) = cursors.take(lambda _: [], from_start=True)
        assert again.epoch == cursor.epoch + 2  # given back and taken: two changes of owner
        with pytest.raises(Fenced):
            cursors.settle(cursor, 1)
        assert offsets(store) == [0]


def a_child(store: Store, point: str, *, sleepwalking: bool = False) -> Child:
    """Start a process with a sequencing service that stops itself when it first comes to a point."""
    return Child(
        "sequence",
        url=store.url,
        lease_seconds=LEASE.total_seconds(),
        stop_at=point,
        sleepwalking=sleepwalking,
    )


def a_stopped_owner(store: Store, point: str, *, sleepwalking: bool = False) -> Child:
    """Start such a process and wait until it owns slots."""
    child = a_child(store, point, sleepwalking=sleepwalking)
    assert child.says() == {"ready": True}
    wait_until(lambda: store.rows("SELECT 1 FROM penstock_slot WHERE owner IS NOT NULL"), "it owns slots")
    return child


def after_the_look_at_who_lives(
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
    come: Callable[[], None],
    is_through: Callable[[], bool],
    *,
    when: Callable[[], bool] = lambda: True,
) -> None:
    """Let somebody come right after a taker's look at who lives, until they are through or must wait."""
    look = Member.living
    come_once = [come]

    def living(self: Member, tx: Transaction) -> list[str]:
        found = look(self, tx)
        if come_once and when() and tx.conn.info.transaction_status == TransactionStatus.INTRANS:
            come_once.pop()()
            wait_until(lambda: is_through() or store.lock_waiters(), "the other is through, or waits")
        return found

    monkeypatch.setattr(Member, "living", living)


def owns_all(member: Member) -> bool:
    """Keep a member alive, let it take what is free, and return whether it owns every slot."""
    member.heartbeat()
    return member.take() == 256


def a_cursors(store: Store, database: Database, owner: str) -> Cursors:
    """Return the cursors of one group as one owner sees them."""
    return Cursors(database, SYSTEM, group="readers", topic=store.outbox.log.topic("three"), owner=owner)


def members(store: Store) -> list[tuple[str, int]]:
    """Return the members and the ends of their leases, by the database's clock."""
    return [(row[0], row[1]) for row in store.rows("SELECT id, lease_until_ms FROM penstock_member")]


def owned(store: Store, member: str) -> int:
    """Return how many slots a member owns."""
    return int(store.rows("SELECT count(*) FROM penstock_slot WHERE owner = ?", member)[0][0])


def now_ms(store: Store) -> int:
    """Return the database's time."""
    return int(store.rows("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")[0][0])


def wait_for_heartbeats(store: Store, member: str) -> None:
    """Return when a member has renewed its lease twice: between the two it has made a pass."""
    for _ in range(2):
        last = dict(members(store)).get(member, 0)
        wait_until(lambda: dict(members(store)).get(member, 0) > last, "the member beats again")  # noqa: B023


def epoch_sum(store: Store) -> int:
    """Return the sum of all slots' epochs."""
    return int(store.rows("SELECT sum(epoch) FROM penstock_slot")[0][0])


def offsets(store: Store) -> list[int]:
    """Return where the cursors of the group stand."""
    return [row[0] for row in store.rows('SELECT "offset" FROM penstock_cursor')]
