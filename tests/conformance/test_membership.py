"""Members share slots and partitions: fairly, with few moves, and never two owners at once."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from penstock.database.contract import Rows
from penstock.database.database import Database, Transaction
from penstock.errors import StoreUnreachable
from penstock.membership import domain as domain_module
from penstock.membership.member import Member
from penstock.membership.process import Process
from penstock.membership.serving import SLOTS, Domain, ServedGroup, Serves
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.unit.membership.cluster import CURSORS, GATHER, LEASE, NEW, OLD, Cluster, Owned, Pod, serves

SECOND = timedelta(seconds=1)
HERE = Process("this host", 7, "1")


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the members' own."""
    opened = engine.database()
    yield opened
    opened.close()


@pytest.fixture
def cluster(engine: StoreEngine, database: Database) -> Cluster:
    """Give a cluster without members."""
    return Cluster(database, engine.clock)


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> set[Process]:
    """Give the set of processes that are known to be gone, to be filled by the test."""
    gone: set[Process] = set()
    monkeypatch.setattr(Process, "is_surely_dead", lambda self: self in gone)
    return gone


def shares(rows: Owned) -> Counter[str | None]:
    """Return how many rows each owns."""
    return Counter(owner for owner, _ in rows.values())


def moved(before: Owned, after: Owned) -> int:
    """Return how many rows have another owner."""
    return sum(before[row][0] != after[row][0] for row in before)


def passes(cluster: Cluster, pod: Pod) -> int:
    """Return how many slots the database lets a member move."""
    fence = pod.member.fence
    return len(cluster.database.run(lambda tx: fence.lock(tx, fence.slots())))


def test_the_first_member_gets_everything_at_once(cluster: Cluster) -> None:
    pod = cluster.start()
    cluster.calm()
    assert shares(cluster.slots()) == {pod.id: 256}
    assert shares(cluster.cursors()) == {pod.id: 8}
    assert passes(cluster, pod) == 256


def test_a_member_that_stops_is_given_nothing_and_remains_one_until_it_leaves(cluster: Cluster) -> None:
    stopping, other = cluster.start(), cluster.start()
    cluster.gather()
    kept = passes(cluster, stopping)
    stopping.member.begin_to_stop()
    assert passes(cluster, stopping) == kept == 128  # nothing is taken from it
    cluster.calm()
    assert shares(cluster.slots()) == {other.id: 256}
    assert shares(cluster.cursors()) == {other.id: 8}
    assert set(cluster.database.look(other.member.living)) == {stopping.id, other.id}
    stopping.member.join()  # as after its row was removed
    cluster.gather()
    assert shares(cluster.slots()) == {other.id: 256}
    cluster.leave(stopping)
    assert cluster.database.look(other.member.living) == [other.id]


def test_members_share_fairly(cluster: Cluster) -> None:
    pods = [cluster.start() for _ in range(3)]
    cluster.gather()
    assert sorted(shares(cluster.slots()).values()) == [85, 85, 86]
    assert sorted(shares(cluster.cursors()).values()) == [2, 3, 3]
    assert sum(passes(cluster, pod) for pod in pods) == 256


def test_a_join_moves_only_the_newcomers_share(cluster: Cluster) -> None:
    cluster.start(), cluster.start()
    cluster.gather()
    slots, cursors = cluster.slots(), cluster.cursors()
    cluster.start()
    cluster.gather()
    assert moved(slots, cluster.slots()) == 85
    assert moved(cursors, cluster.cursors()) == 2


def test_a_leave_moves_only_the_leavers_share_and_needs_no_rebalance(cluster: Cluster) -> None:
    """Who remains learns by the version, at its next look."""
    pods = [cluster.start() for _ in range(3)]
    cluster.gather()
    slots, cursors = cluster.slots(), cluster.cursors()
    theirs = shares(slots)[pods[0].id], shares(cursors)[pods[0].id]
    cluster.leave(pods[0])
    cluster.calm(rebalance=False)
    assert (moved(slots, cluster.slots()), moved(cursors, cluster.cursors())) == theirs
    assert sorted(shares(cluster.slots()).values()) == [128, 128]
    assert sorted(shares(cluster.cursors()).values()) == [4, 4]


def test_a_leave_releases_with_a_new_epoch(cluster: Cluster) -> None:
    pod = cluster.start()
    cluster.calm()
    stale = pod.member.fence
    cluster.leave(pod)
    assert {epoch for _, epoch in cluster.slots().values()} == {2}
    assert cluster.database.run(lambda tx: stale.lock(tx, stale.slots())) == []
    assert cluster.wanted() == {None: 256}


def test_joins_are_gathered(cluster: Cluster) -> None:
    """Ten that come within three seconds of the first newcomer cost one change."""
    first = cluster.start()
    cluster.calm()
    version = cluster.version()
    for _ in range(10):
        cluster.start()
        cluster.clock.advance(GATHER / 11)
        cluster.calm()
    assert shares(cluster.slots()) == {first.id: 256}
    assert cluster.version() == version
    cluster.clock.advance(GATHER)
    first.member.rebalance()
    assert cluster.version() == version + 1
    assert len(cluster.wanted()) == 11


def test_members_that_begin_at_the_same_moment_share_all_at_once(cluster: Cluster) -> None:
    """Nobody was there before them, so nobody waits; and no row has two owners."""
    pods = [cluster.start() for _ in range(4)]
    together = Barrier(len(pods))

    def begin(pod: Pod) -> None:
        together.wait()
        pod.member.rebalance()
        cluster.work(pod)

    with ThreadPoolExecutor(len(pods)) as pool:
        list(pool.map(begin, pods))
    cluster.calm()
    assert shares(cluster.slots()) == {pod.id: 64 for pod in pods}
    assert shares(cluster.cursors()) == {pod.id: 2 for pod in pods}
    assert [passes(cluster, pod) for pod in pods] == [64] * 4


def test_one_that_begins_just_after_the_first_waits_and_moves_its_share_once(cluster: Cluster) -> None:
    """The first may have counted itself alone, and not taken yet."""
    first = cluster.start()
    first.member.rebalance()
    second = cluster.start()
    second.member.rebalance()
    for pod in (second, first, second):
        cluster.work(pod)
    assert shares(cluster.slots()) == {first.id: 256}
    cluster.gather()
    assert shares(cluster.slots()) == {first.id: 128, second.id: 128}
    assert {epoch for owner, epoch in cluster.slots().values() if owner == first.id} == {1}


def test_a_newcomer_is_given_at_once_what_has_lost_its_owner(cluster: Cluster) -> None:
    """A rolling restart: the old process leaves just after the new one came; its rows move once."""
    old, stays = cluster.start(), cluster.start()
    cluster.gather()
    slots = cluster.slots()
    new = cluster.start()
    cluster.leave(old)
    cluster.calm()
    assert shares(cluster.slots()) == {stays.id: 128, new.id: 128}
    assert moved(slots, cluster.slots()) == 128


def test_a_member_that_falls_silent_is_replaced_when_its_lease_ends(cluster: Cluster) -> None:
    silent, stays = cluster.start(), cluster.start()
    cluster.gather()
    stale = silent.member.fence
    cluster.crash(silent)
    cluster.clock.advance(LEASE - SECOND)
    cluster.calm()
    assert shares(cluster.slots()) == {silent.id: 128, stays.id: 128}
    cluster.clock.advance(SECOND)
    cluster.calm()
    assert shares(cluster.slots()) == {stays.id: 256}
    assert shares(cluster.cursors()) == {stays.id: 8}
    assert cluster.database.run(lambda tx: stale.lock(tx, stale.slots())) == []


def test_a_member_that_was_paused_comes_back_and_shares_again(cluster: Cluster) -> None:
    paused, stays = cluster.start(), cluster.start()
    cluster.gather()
    cluster.crash(paused)
    cluster.clock.advance(LEASE)
    cluster.calm()
    assert paused.member.fence.slots() == []
    cluster.pods.append(paused)
    paused.member.heartbeat()
    assert paused.member.fence.slots() == []
    cluster.calm()
    assert shares(cluster.slots()) == {stays.id: 128, paused.id: 128}
    assert passes(cluster, paused) == 128


def test_a_member_removed_while_it_was_paused_joins_anew_and_shares_again(cluster: Cluster) -> None:
    paused, stays = cluster.start(), cluster.start()
    cluster.gather()
    cluster.crash(paused)
    cluster.clock.advance(timedelta(seconds=331))
    cluster.calm()
    cluster.start()
    cluster.gather()  # a change, and with it the old row goes
    assert [row[0] for row in cluster.fetch("SELECT id FROM penstock_member")].count(paused.id) == 0
    cluster.pods.append(paused)
    paused.member.heartbeat()
    assert paused.member.fence.slots() == []
    cluster.gather()
    assert sorted(shares(cluster.slots()).values()) == [85, 85, 86]
    assert 2 <= shares(cluster.cursors())[paused.id] <= 3
    assert stays.member.is_live()


def test_a_dead_process_of_this_host_is_noticed_without_the_database(cluster: Cluster, dead: set[Process]) -> None:
    """M4, for workers: its neighbours do not wait for the lease."""
    gone, stays = cluster.start(process=HERE), cluster.start()
    cluster.gather()
    assert not stays.member.neighbours_died()
    dead.add(HERE)
    cluster.crash(gone)
    cluster.database.close()  # from now on every question would need a new connection
    assert stays.member.neighbours_died()
    assert not stays.member.neighbours_died(), "said once"
    stays.member.rebalance()
    cluster.work(stays)
    assert shares(cluster.slots()) == {stays.id: 256}
    assert shares(cluster.cursors()) == {stays.id: 8}


def test_a_dead_process_is_not_given_its_rows_back_by_a_member_of_another_host(
    cluster: Cluster, dead: set[Process]
) -> None:
    """Who is sure of a death writes it down: others cannot see it, and the lease still runs."""
    gone, near, far = (cluster.start(process=each) for each in (HERE, None, None))
    cluster.gather()
    dead.add(HERE)
    cluster.crash(gone)
    near.member.rebalance()
    version = cluster.version()
    dead.clear()
    far.member.rebalance()
    assert cluster.version() == version
    assert cluster.wanted() == {near.id: 128, far.id: 128}


def test_nothing_is_written_when_nothing_changed(cluster: Cluster) -> None:
    pods = [cluster.start() for _ in range(3)]
    cluster.gather()
    versions = cluster.version(), cluster.version(CURSORS)
    slots = cluster.slots()
    for pod in pods:
        pod.member.rebalance()
        assert pod.member.look() == set()
    assert (cluster.version(), cluster.version(CURSORS)) == versions
    assert cluster.slots() == slots


def test_a_look_is_one_statement_and_a_quiet_rebalance_takes_no_transaction(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = cluster.start()
    cluster.calm()
    noted: list[str] = []
    dialect = cluster.database.dialect
    execute, begin = dialect.execute, dialect.begin

    def noting(conn: Any, sql: str, params: Any) -> Any:
        noted.append(sql)
        return execute(conn, sql, params)

    def beginning(conn: Any, *, bounded: bool) -> None:
        noted.append("BEGIN")
        begin(conn, bounded=bounded)

    monkeypatch.setattr(dialect, "execute", noting)
    monkeypatch.setattr(dialect, "begin", beginning)
    pod.member.look()
    assert len(noted) == 1
    pod.member.rebalance()
    assert "BEGIN" not in noted
    assert len(noted) <= 8


def test_the_first_look_shows_all_that_is_served_and_later_ones_what_changed(cluster: Cluster) -> None:
    pod = cluster.start()
    assert pod.member.look() == {SLOTS, CURSORS}
    assert pod.member.look() == set()
    pod.member.rebalance()
    assert pod.member.look() == {SLOTS, CURSORS}
    cluster.database.run(lambda tx: domain_module.touch(tx, CURSORS))
    assert pod.member.look() == {CURSORS}
    assert pod.member.look() == set()


def test_what_was_seen_and_not_done_is_shown_again_after_a_rebalance(cluster: Cluster) -> None:
    """As when the database went away between the look and the taking."""
    pod = cluster.start()
    pod.member.rebalance()
    assert pod.member.look() == {SLOTS, CURSORS}
    assert pod.member.look() == set()
    pod.member.rebalance()
    assert pod.member.look() == {SLOTS, CURSORS}


def test_who_should_own_a_slot_learns_at_once_that_it_was_released(cluster: Cluster) -> None:
    first = cluster.start()
    first.member.rebalance()
    first.member.exchange_slots()
    second = cluster.start()
    cluster.clock.advance(GATHER)
    first.member.rebalance()
    second.member.look()
    second.member.exchange_slots()
    assert second.member.look() == set()
    first.member.exchange_slots()
    assert second.member.look() == {SLOTS}
    second.member.exchange_slots()
    assert passes(cluster, second) == 128


def test_what_is_served_is_said_again_when_the_first_try_failed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, what = cluster.start(), serves(slots=False)
    with monkeypatch.context() as patch:
        in_doubt(patch, cluster, landed=False)
        with pytest.raises(StoreUnreachable):
            pod.member.serve(what)
    pod.member.serve(what)
    assert cluster.fetch("SELECT serves FROM penstock_member") == [(what.encode(),)]


def test_a_topic_that_appears_later_is_shared_too(cluster: Cluster) -> None:
    pods = [cluster.start() for _ in range(2)]
    cluster.gather()
    cluster.add_cursors(9, range(4))
    for pod in pods:
        pod.member.serve(Serves(True, (ServedGroup(1, OLD, (1, 9)),)))
    pods[0].member.rebalance()
    found = cluster.fetch("SELECT owner_wanted FROM penstock_cursor WHERE topic_id = 9")
    assert Counter(row[0] for row in found) == {pods[0].id: 2, pods[1].id: 2}
    assert Domain(1, 9) in pods[1].member.look()


def test_rows_that_are_added_to_a_domain_get_an_owner(cluster: Cluster) -> None:
    pod = cluster.start()
    cluster.calm()
    cluster.add_cursors(1, [8])
    cluster.calm()
    assert shares(cluster.cursors()) == {pod.id: 9}


def test_a_member_that_no_longer_serves_hands_over(cluster: Cluster) -> None:
    first, second = cluster.start(), cluster.start()
    cluster.gather()
    first.member.serve(serves(slots=False))
    cluster.calm()
    assert shares(cluster.slots()) == {second.id: 256}
    assert sorted(shares(cluster.cursors()).values()) == [4, 4]


def test_pins_say_who_may_hold_a_partition(cluster: Cluster) -> None:
    """`--partitions 0-2`; slots know no pins."""
    pinned, free = cluster.start(serves(pins=range(3))), cluster.start()
    cluster.gather()
    owners = {row: owner for row, (owner, _) in cluster.cursors().items()}
    assert owners == {row: pinned.id if row < 3 else free.id for row in range(8)}
    assert sorted(shares(cluster.slots()).values()) == [128, 128]
    cluster.leave(free)
    cluster.calm()
    assert shares(cluster.cursors()) == {pinned.id: 3, None: 5}


def test_a_rolling_deploy_gives_the_group_to_the_version_that_wants_more(cluster: Cluster) -> None:
    """M3: the old version would pass by what only the new one has a handler for."""
    old = [cluster.start(), cluster.start()]
    cluster.gather()
    new = cluster.start(serves(filter=NEW))
    cluster.calm()
    assert shares(cluster.cursors()) == {new.id: 8}
    assert {pod.id for pod in old} <= shares(cluster.slots()).keys(), "slots have no filter"
    cluster.leave(old[0])
    again = cluster.start()  # an old process that is started again does not turn it back
    cluster.gather()
    assert shares(cluster.cursors()) == {new.id: 8}
    assert again.cursors == {}
    assert cluster.fetch("SELECT filter_version FROM penstock_group") == [(2,)]


def test_a_deploy_that_is_taken_back_gets_the_group_when_the_other_version_is_gone(cluster: Cluster) -> None:
    new = cluster.start(serves(filter=NEW))
    cluster.calm()
    old = cluster.start(serves(filter=OLD))
    cluster.gather()
    assert shares(cluster.cursors()) == {new.id: 8}
    cluster.leave(new)
    cluster.calm()
    assert shares(cluster.cursors()) == {old.id: 8}


def test_a_drain_beside_workers_gives_back_what_it_took_at_once(cluster: Cluster) -> None:
    """Workers learn of it by the version of the slots."""
    drain = Member(cluster.database, cluster.settings, cluster.clock)
    drain.join()
    drain.take()
    pod = cluster.start()
    cluster.calm()
    assert shares(cluster.slots()) == {drain.id: 256}
    drain.leave()
    assert pod.member.look() == {SLOTS}
    pod.member.exchange_slots()
    assert shares(cluster.slots()) == {pod.id: 256}


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_in_doubt_is_simply_done_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    """At each of the writing steps; whether the first try came through or not."""
    first, second = cluster.start(), cluster.start()
    cluster.clock.advance(GATHER)
    steps: list[Callable[[], object]] = [
        first.member.rebalance,
        first.member.exchange_slots,
        second.member.exchange_slots,
        second.member.heartbeat,
        lambda: second.member.serve(serves(slots=False)),
        second.member.rebalance,
        second.member.exchange_slots,
        first.member.exchange_slots,
        second.member.leave,
        first.member.exchange_slots,
    ]
    for step in steps:
        with monkeypatch.context() as patch:
            failed = in_doubt(patch, cluster, landed)
            try:
                step()
            except StoreUnreachable:
                assert failed
        step()
    cluster.crash(second)
    assert shares(cluster.slots()) == {first.id: 256}
    assert passes(cluster, first) == 256
    assert max(epoch for _, epoch in cluster.slots().values()) <= 3


def in_doubt(patch: pytest.MonkeyPatch, cluster: Cluster, landed: bool) -> list[bool]:
    """Let the next commit fail in the eyes of the caller; return where it is noted that it did."""
    dialect, failed = cluster.database.dialect, list[bool]()
    commit, rollback = dialect.commit, dialect.rollback

    def commit_in_doubt(conn: Any) -> None:
        if failed:
            commit(conn)
            return
        failed.append(True)
        if landed:
            commit(conn)
        else:
            rollback(conn)
        raise StoreUnreachable("the store", "the connection broke while COMMIT ran")

    patch.setattr(dialect, "commit", commit_in_doubt)
    return failed


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_of_two_rebalancers_one_passes_by(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second neither waits nor writes."""
    first, second = cluster.start(), cluster.start()
    names = Rows(name=["slots", CURSORS.name])
    cluster.database.run(lambda tx: tx.change("membership", "domains_create", domains=names))
    inside, go_on = Event(), Event()
    real = domain_module.write

    def slow(tx: Transaction, found: domain_module.Changes) -> None:
        real(tx, found)
        inside.set()
        assert go_on.wait(60)

    monkeypatch.setattr("penstock.membership.sharing.write", slow)
    at_work = Thread(target=first.member.rebalance)
    at_work.start()
    assert inside.wait(60)
    monkeypatch.setattr("penstock.membership.sharing.write", real)
    second.member.rebalance()
    assert cluster.version() == 0, "nothing is written while the first is at work"
    go_on.set()
    at_work.join()
    assert cluster.version() == 1
    assert cluster.wanted() == {first.id: 128, second.id: 128}


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_who_waits_for_a_domain_looks_at_who_lives_after_it_has_it(cluster: Cluster) -> None:
    """A list read before the lock would give rows to a member that has left meanwhile, or forget one."""
    leaver, stays = cluster.start(), cluster.start()
    cluster.gather()
    with cluster.database.transaction() as tx:
        tx.rows("membership", "domains_wait", names=[CURSORS.name])
        leaving = Thread(target=leaver.member.leave)
        leaving.start()
        wait_until(lambda: waits(cluster.database), "the leaver waits for the domains")
        comer = cluster.start()
    leaving.join()
    cluster.crash(leaver)
    assert cluster.wanted() == {stays.id: 128, comer.id: 128}


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_slot_in_the_middle_of_a_move_is_taken_at_the_next_look(cluster: Cluster) -> None:
    """Its last owner is gone for the others, and yet holds the row's lock for a moment."""
    silent, stays = cluster.start(), cluster.start()
    cluster.gather()
    fence = silent.member.fence
    cluster.crash(silent)
    cluster.clock.advance(LEASE)
    stays.member.heartbeat()
    stays.member.rebalance()
    with cluster.database.transaction() as tx:
        fence.lock(tx, fence.slots()[:5])
        cluster.work(stays)
        assert shares(cluster.slots()) == {stays.id: 251, silent.id: 5}
    cluster.work(stays)
    assert shares(cluster.slots()) == {stays.id: 256}


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_member_that_has_just_joined_and_taken_is_not_robbed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain takes slots whoever should own them; a worker with an older list of the living must see it."""
    pod = cluster.start()
    pod.member.rebalance()
    drain = Member(cluster.database, cluster.settings, cluster.clock)

    def comes() -> None:
        drain.join()
        drain.take()

    coming, look = Thread(target=comes), pod.member.living

    def and_then(tx: Transaction) -> list[str]:
        found = look(tx)
        if tx.conn.info.transaction_status and not coming.ident:  # inside the taking transaction
            coming.start()
            wait_until(lambda: not coming.is_alive() or waits(cluster.database), "the drain has taken or waits")
        return found

    monkeypatch.setattr(pod.member, "living", and_then)
    pod.member.exchange_slots()
    coming.join()
    assert {epoch for _, epoch in cluster.slots().values()} == {1}


def waits(database: Database) -> bool:
    """Return whether some connection of this database waits for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return database.look(lambda tx: bool(tx.conn.execute(query).fetchone()[0]))
