"""Taking: whoever takes slots or cursors neither robs the living nor is kept out by the stopped."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from threading import Event

import pytest
from psycopg.pq import TransactionStatus

from penstock import Record
from penstock.database.database import Transaction
from penstock.delivery.store import GroupStore, Living, Owned
from penstock.membership.member import Member
from penstock.worker.drain import Counts
from tests.crash.account import breaches
from tests.crash.owners import BEAT, a_child, epoch_sum, owned
from tests.crash.store import Store, a_member, a_service, running
from tests.crash.waiting import wait_until

KEYS = ["k-1", "k-2", "k-3"]


def test_a_member_stopped_while_it_takes_slots_does_not_keep_others_from_taking_them(postgres_store: Store) -> None:
    with a_child(postgres_store, "membership.after_take") as stale:
        stale.wait_until_stopped()
        postgres_store.publish_committed("three", KEYS)
        with closing(postgres_store.database()) as database, running(a_service(database, beat=BEAT)):
            wait_until(lambda: postgres_store.waiting() == 0, "another has taken the slots and moved everything")
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
        is_taking, take = Event(), GroupStore.take

        def taking(self: GroupStore, living: Living) -> dict[int, Owned]:
            is_taking.set()
            return take(self, living)

        after_the_look_at_who_lives(
            monkeypatch,
            postgres_store,
            lambda: drains.append(pool.submit(other.outbox.drain)),
            at_work.is_set,
            when=is_taking.is_set,
        )
        monkeypatch.setattr(GroupStore, "take", taking)
        postgres_store.outbox.drain()
        first_is_done.set()
        drains[0].result()
    assert delivered == [0, 1, 2, 3, 4]


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
