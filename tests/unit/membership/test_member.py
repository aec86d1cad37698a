"""Who owns what: leases, epochs, take-over and release."""

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from penstock.database.database import Database, Transaction
from penstock.errors import SettingOutOfRange
from penstock.log.sql.heads import Fence
from penstock.membership.member import ClusterSettings, Member
from penstock.membership.process import Process, this_process
from penstock.testing import FakeClock
from tests.crash.waiting import wait_until
from tests.unit.membership.conftest import Joining

ALL = list(range(256))
LEASE = timedelta(seconds=30)
ELSEWHERE = Process("another host", 1, "1")


def passes(database: Database, fence: Fence, slots: list[int] = ALL) -> list[int]:
    """Return the slots that the database lets a fence's holder move."""
    return database.run(lambda tx: fence.lock(tx, [slot for slot in slots if slot in fence.epochs]))


def epochs(database: Database) -> set[tuple[str | None, int]]:
    """Return the owners and epochs that there are."""

    def look(tx: Transaction) -> set[tuple[str | None, int]]:
        cursor = tx.conn.execute("SELECT owner, epoch FROM penstock_slot")
        return {(row[0], row[1]) for row in cursor.fetchall()}

    return database.look(look)


def members(database: Database) -> list[str]:
    """Return the ids in the members' table."""
    return [
        row[0] for row in database.look(lambda tx: tx.rows("membership", "member_list", now_ms=0, host="", host_ms=0))
    ]


def dead_process() -> Process:
    """Return a process of this host that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    return replace(this_process(), pid=child.pid, started="1")


def test_a_member_that_has_joined_owns_nothing_yet(a_member: Joining, database: Database) -> None:
    member = a_member()
    assert member.is_live()
    assert member.fence.slots() == []
    assert members(database) == [member.id]


def test_joining_twice_is_one_member(a_member: Joining, database: Database) -> None:
    """As after a commit of which nobody knows whether it came through."""
    member = a_member()
    member.join()
    assert members(database) == [member.id]


def test_a_member_takes_every_slot_that_nobody_owns(a_member: Joining, database: Database) -> None:
    member = a_member()
    assert member.take() == 256
    assert member.fence.slots() == ALL
    assert epochs(database) == {(member.id, 1)}
    assert passes(database, member.fence) == ALL
    assert member.take() == 256
    assert epochs(database) == {(member.id, 1)}


def test_a_member_takes_nothing_from_a_living_one(a_member: Joining, database: Database) -> None:
    first, second = a_member(), a_member(ELSEWHERE)
    first.take()
    assert second.take() == 0
    assert passes(database, first.fence) == ALL


def test_release_raises_the_epoch_and_another_may_take_at_once(a_member: Joining, database: Database) -> None:
    first, second = a_member(), a_member()
    first.take()
    first.release()
    assert epochs(database) == {(None, 2)}
    assert second.take() == 256
    assert epochs(database) == {(second.id, 3)}


def test_the_fence_refuses_who_has_released(a_member: Joining, database: Database) -> None:
    member = a_member()
    member.take()
    stale = member.fence
    member.release()
    assert member.fence.slots() == []
    assert passes(database, stale) == []
    member.take()
    assert passes(database, stale) == []
    assert passes(database, member.fence) == ALL


def test_the_fence_refuses_who_was_taken_over(a_member: Joining, database: Database, clock: FakeClock) -> None:
    first, second = a_member(ELSEWHERE), a_member()
    first.take()
    stale = first.fence
    clock.advance(LEASE)
    assert second.take() == 256
    assert passes(database, stale) == []
    assert passes(database, second.fence) == [] or second.fence.slots() == []
    second.heartbeat()
    assert passes(database, second.fence) == ALL


def test_the_fence_lets_through_only_the_slots_still_owned(a_member: Joining, database: Database) -> None:
    member = a_member()
    member.take()
    believed = member.fence
    database.run(lambda tx: tx.conn.execute("UPDATE penstock_slot SET epoch = epoch + 1 WHERE slot < 3"))
    assert passes(database, believed) == ALL[3:]
    assert passes(database, believed, [1, 2, 7]) == [7]


def test_a_lease_ends_when_it_is_not_renewed(a_member: Joining, clock: FakeClock) -> None:
    first, second = a_member(ELSEWHERE), a_member()
    first.take()
    clock.advance(LEASE - timedelta(milliseconds=1))
    assert second.take() == 0
    clock.advance(timedelta(milliseconds=1))
    assert second.take() == 256


def test_a_heartbeat_renews_the_lease(a_member: Joining, clock: FakeClock) -> None:
    first, second = a_member(ELSEWHERE), a_member()
    first.take()
    for _ in range(4):
        clock.advance(timedelta(seconds=20))
        first.heartbeat()
        second.heartbeat()
        assert second.take() == 0
    assert first.is_live()


def test_a_lease_counts_from_when_the_heartbeat_was_sent(
    a_member: Joining, database: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer may come late: when it comes says nothing of when the row was written."""
    member, run = a_member(), database.run

    def late(*args: Any, **options: Any) -> Any:
        found = run(*args, **options)
        clock.advance(timedelta(seconds=20))
        return found

    monkeypatch.setattr(database, "run", late)
    member.heartbeat()
    clock.advance(LEASE - timedelta(seconds=20))
    assert not member.is_live()


def test_a_member_believes_in_its_lease_only_as_long_as_nobody_can_have_taken_over(
    a_member: Joining, clock: FakeClock
) -> None:
    member = a_member()
    member.take()
    clock.advance(LEASE - timedelta(milliseconds=1))
    assert member.fence.slots() == ALL
    clock.advance(timedelta(milliseconds=1))
    assert not member.is_live()
    assert member.fence.slots() == []
    member.heartbeat()
    assert member.fence.slots() == ALL


def test_a_dead_process_of_this_host_is_taken_over_at_once(a_member: Joining, database: Database) -> None:
    """M4: a drain after a killed test does not wait for the lease."""
    dead, living = a_member(dead_process()), a_member()
    dead.take()
    assert living.take() == 256
    assert passes(database, dead.fence) == []


def test_a_living_process_of_this_host_keeps_what_it_owns(a_member: Joining) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = Path(f"/proc/{child.pid}/stat").read_text("latin-1").rpartition(")")[2].split()[19]
        other, me = a_member(replace(this_process(), pid=child.pid, started=started)), a_member()
        other.take()
        assert me.take() == 0
        child.kill()
        child.wait()
        assert me.take() == 256


def test_a_member_that_others_removed_joins_again(
    a_member: Joining, database: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = a_member(ELSEWHERE), a_member()
    first.take()
    clock.advance(timedelta(seconds=331))
    second.heartbeat()
    second.take()
    assert members(database) == [second.id]
    with caplog.at_level(logging.WARNING, "penstock.membership"):
        first.heartbeat()
    assert sorted(members(database)) == sorted([first.id, second.id])
    assert first.is_live()
    assert first.fence.slots() == []
    assert "lost 256 slots" in caplog.text


def test_a_dead_member_is_removed_after_its_time(a_member: Joining, database: Database, clock: FakeClock) -> None:
    """T-23: 300 s after its lease has ended."""
    gone, stays = a_member(ELSEWHERE), a_member()
    clock.advance(timedelta(seconds=330))
    stays.heartbeat()
    stays.take()
    assert gone.id in members(database)
    stays.release()
    clock.advance(timedelta(milliseconds=1))
    stays.take()
    assert members(database) == [stays.id]


def test_a_member_that_leaves_owns_nothing_and_is_none(a_member: Joining, database: Database) -> None:
    first, second = a_member(), a_member()
    first.take()
    first.leave()
    assert not first.is_live()
    assert members(database) == [second.id]
    assert epochs(database) == {(None, 2)}
    assert second.take() == 256


def test_a_member_that_left_without_release_is_taken_over(a_member: Joining, database: Database) -> None:
    first, second = a_member(), a_member()
    first.take()
    database.run(lambda tx: tx.change("membership", "member_leave", id=first.id))
    assert second.take() == 256


def test_members_that_come_together_take_each_slot_once(a_member: Joining, database: Database) -> None:
    members = [a_member() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(Member.take, members))
    assert sum(taken) == 256
    assert {epoch for _, epoch in epochs(database)} == {1}


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_member_that_has_just_joined_and_taken_is_not_robbed(
    a_member: Joining, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks at the living and takes by that list must not miss one that comes in between."""
    first = a_member()
    joined: list[Member] = []

    def second_comes() -> None:
        joined.append(a_member())
        joined[0].take()

    coming, look = Thread(target=second_comes), first.living

    def and_then(tx: Transaction) -> list[str]:
        found = look(tx)
        if tx.conn.info.transaction_status and not coming.ident:  # inside the taking transaction
            coming.start()
            wait_until(lambda: not coming.is_alive() or waits(database), "the second has taken or waits")
        return found

    monkeypatch.setattr(first, "living", and_then)
    first.take()
    coming.join()
    assert {epoch for _, epoch in epochs(database)} == {1}


def waits(database: Database) -> bool:
    """Return whether some connection of this database waits for a lock."""
    statement = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%penstock_meta%'"
    )
    return database.look(lambda tx: bool(tx.conn.execute(statement).fetchone()[0]))


def test_a_heartbeat_too_slow_for_the_lease_is_refused() -> None:
    with pytest.raises(SettingOutOfRange, match=r"heartbeat_interval=3\.0 .* at most half of cluster.lease_ttl"):
        ClusterSettings(heartbeat_interval=timedelta(seconds=3), lease_ttl=timedelta(seconds=5))


def test_nothing_is_taken_from_a_living_member_because_a_clock_was_set(
    a_member: Joining, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of one host have a clock in common that nobody sets; by that a silent one is still replaced."""
    living = a_member()
    assert living.take() == 256
    late = clock.now_ms() + 7_200_000
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now_ms", lambda: late)
        other = a_member()
        assert other.take() == 0
        living.heartbeat()
        assert len(living.fence.epochs) == 256
    clock.advance(LEASE + timedelta(seconds=1))
    other.heartbeat()
    assert other.take() == 256
