"""Fencing: who has lost a slot, by a pause, a wrong clock or a release, writes nothing more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial

import pytest

from tests.crash.account import breaches, logged
from tests.crash.children import Child
from tests.crash.clocks import SleepwalkingClock
from tests.crash.holding import held_at
from tests.crash.owners import BEAT, a_child, epoch_sum, members, owned, owns_all
from tests.crash.store import Store, a_member, a_sequencer, a_service, running
from tests.crash.waiting import wait_until

KEYS = ["k-1", "k-2", "k-3", "k-1", "k-2", "k-3"]


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
        ((stale_id, _),) = members(postgres_store)
        with closing(postgres_store.database()) as database, running(a_service(database, beat=BEAT)):
            wait_until(lambda: owned(postgres_store, stale_id) == 0, "all slots have a new owner")
            wait_until(lambda: postgres_store.waiting() == 0, "the new owner has moved everything")
            before = logged(postgres_store)
            stale.resume()
            wait_for_heartbeats(postgres_store, stale_id)
            assert logged(postgres_store) == before
            postgres_store.publish_committed("three", KEYS)
            wait_until(lambda: postgres_store.waiting() == 0, "the new owner goes on")
            assert sum(said["moved"] for said in stale.stop()) == 0
    assert breaches(postgres_store) == []


@pytest.mark.parametrize("point", ["sequencer.after_fence", "sequencer.after_pick", "sequencer.before_commit"])
def test_slots_do_not_change_hands_in_the_middle_of_a_move(postgres_store: Store, point: str) -> None:
    postgres_store.publish_committed("three", KEYS)
    with closing(postgres_store.database()) as database, ThreadPoolExecutor(1) as pool:
        owner = a_member(database, lease=timedelta(milliseconds=300), clock=SleepwalkingClock())
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


@pytest.mark.parametrize(
    "sleepwalking", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["awake", "an hour behind"]
)
def test_an_owner_stopped_between_passes_moves_nothing_when_it_wakes(postgres_store: Store, sleepwalking: bool) -> None:
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
            if sleepwalking:  # it believes in its lease forever, so only the fence stops it
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


def a_stopped_owner(store: Store, point: str, *, sleepwalking: bool = False) -> Child:
    """Start such a process and wait until it owns slots."""
    child = a_child(store, point, sleepwalking=sleepwalking)
    assert child.says() == {"ready": True}
    wait_until(lambda: store.rows("SELECT 1 FROM penstock_slot WHERE owner IS NOT NULL"), "it owns slots")
    return child


def wait_for_heartbeats(store: Store, member: str) -> None:
    """Return when a member has renewed its lease twice: between the two it has made a pass."""
    for _ in range(2):
        last = dict(members(store)).get(member, 0)
        wait_until(lambda: dict(members(store)).get(member, 0) > last, "the member beats again")  # noqa: B023
