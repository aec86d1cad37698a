"""In doubt: the connection is cut while COMMIT runs. Whoever tries again doubles and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta

import psycopg
import pytest

from penstock import Record, points
from penstock.database.database import Database
from penstock.errors import StoreUnreachable
from penstock.outbox.sequencer import Sequencer
from tests.crash.account import breaches, kinds, logged
from tests.crash.planted import PickBeforeTheLock
from tests.crash.proxy import Cut, FaultProxy
from tests.crash.store import Store, a_member, a_sequencer, a_service, running
from tests.crash.waiting import wait_until

KEYS = ["k-1", "k-2", "k-3", "k-4", "k-5"]
# A check at the end of the transaction that waits for the test: COMMIT runs for as long as that.
SLOW_COMMIT = """
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON penstock_log DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.key = 'k-1') EXECUTE FUNCTION linger();
"""


@pytest.fixture
def proxy(postgres_store: Store) -> Iterator[FaultProxy]:
    """Give a proxy in front of the store's server."""
    with FaultProxy(postgres_store.url) as proxy:
        yield proxy


@pytest.fixture
def far(proxy: FaultProxy) -> Iterator[Database]:
    """Give a database that is reached through the proxy."""
    store = Store(proxy.url)
    with closing(store), closing(store.database()) as database:
        yield database


@pytest.fixture
def slow_commit(postgres_store: Store) -> Iterator[None]:
    """Make the COMMIT of every move of key k-1 linger."""
    postgres_store.run(SLOW_COMMIT)
    yield
    postgres_store.run("DROP FUNCTION linger CASCADE")


@pytest.mark.parametrize("cut", Cut)
def test_a_move_whose_commit_was_in_doubt_is_repeated_without_doubling(
    postgres_store: Store, proxy: FaultProxy, far: Database, cut: Cut
) -> None:
    postgres_store.publish_committed("three", KEYS)
    fence, sequencer = a_member(far).fence, a_sequencer(far)
    proxy.cut_at_commit(cut)
    with pytest.raises(StoreUnreachable):
        sequencer.sequence(fence)
    sequencer.sequence(fence)
    assert proxy.has_cut.wait(30)
    sequencer.sequence(fence)
    assert breaches(postgres_store) == []
    assert len(logged(postgres_store)) == len(KEYS)


@pytest.mark.usefixtures("slow_commit")
@pytest.mark.parametrize(("kind", "found"), [(Sequencer, set()), (PickBeforeTheLock, {"twice", "inverted"})])
def test_a_move_repeated_while_its_first_commit_still_runs_waits_for_it(
    postgres_store: Store, proxy: FaultProxy, far: Database, kind: type[Sequencer], found: set[str]
) -> None:
    postgres_store.publish_committed("three", KEYS)
    fence, sequencer = a_member(far).fence, a_sequencer(far, kind)
    proxy.cut_at_commit(Cut.WHILE_IT_RUNS)
    with postgres_store.connection() as conn, ThreadPoolExecutor(1) as pool:
        conn.execute("SELECT pg_advisory_xact_lock(7)")
        with pytest.raises(StoreUnreachable):
            sequencer.sequence(fence)
        repeated = pool.submit(sequencer.sequence, fence)
        wait_until(lambda: postgres_store.lock_waiters() == 2, "the second waits for the first")
        assert logged(postgres_store) == []
        conn.commit()
        again = repeated.result()
    assert again.moved == (0 if not found else len(KEYS))
    assert kinds(breaches(postgres_store)) == found


@pytest.mark.parametrize("cut", Cut)
def test_a_service_survives_a_cut_at_each_of_its_first_commits(
    postgres_store: Store, proxy: FaultProxy, far: Database, cut: Cut
) -> None:
    for number in range(1, 6):  # joining, taking slots, moving, heartbeats
        postgres_store.publish_committed("three", KEYS)
        proxy.cut_at_commit(cut, number=number)
        with running(a_service(far, beat=timedelta(milliseconds=20))):
            assert proxy.has_cut.wait(30)
            postgres_store.publish_committed("three", KEYS)
            wait_until(lambda: postgres_store.waiting() == 0, f"it goes on after a cut at commit {number}")
        assert breaches(postgres_store) == []


@pytest.mark.parametrize("point", ["sequencer.after_fence", "sequencer.after_pick", "sequencer.before_commit"])
def test_a_session_ended_by_an_administrator_in_the_middle_of_a_move_leaves_nothing_behind(
    postgres_store: Store, point: str
) -> None:
    postgres_store.publish_committed("three", KEYS)
    with closing(postgres_store.database()) as database:
        fence, sequencer = a_member(database).fence, a_sequencer(database)
        points.arm(point, lambda: end_sessions_in_a_transaction(postgres_store))
        with pytest.raises(StoreUnreachable):
            sequencer.sequence(fence)
        assert logged(postgres_store) == []
        assert sequencer.sequence(fence).moved == len(KEYS)
    assert breaches(postgres_store) == []


@pytest.mark.parametrize(
    ("cut", "there"), [(Cut.BEFORE_IT_ARRIVES, False), (Cut.WHILE_IT_RUNS, True), (Cut.BEFORE_ITS_ANSWER, True)]
)
def test_an_event_whose_commit_was_in_doubt_is_there_exactly_if_its_business_row_is(
    postgres_store: Store, proxy: FaultProxy, cut: Cut, there: bool
) -> None:
    with closing(Store(proxy.url)) as caller:
        with caller.connection() as conn:
            caller.publish_next(conn, "three", "k-1")
            proxy.cut_at_commit(cut)
            with pytest.raises(psycopg.OperationalError):  # the driver's own error, untouched
                conn.commit()
        assert proxy.has_cut.wait(30)
        caller.publish_committed("three", ["k-1"])
    postgres_store.outbox.drain()
    assert breaches(postgres_store) == []
    assert len(logged(postgres_store)) == 1 + there


def test_a_transaction_whose_failure_was_swallowed_does_not_end_as_if_it_had_committed(postgres_store: Store) -> None:
    def publish_and_fail() -> None:
        with postgres_store.outbox.transaction() as conn:
            postgres_store.publish_next(conn, "three", "k-1")
            with suppress(psycopg.errors.UndefinedColumn):
                conn.execute("SELECT nonsense")

    with pytest.raises(psycopg.errors.InFailedSqlTransaction, match="nothing is committed"):
        publish_and_fail()
    assert postgres_store.waiting() == 0
    with postgres_store.outbox.transaction() as conn:  # the connection is sound
        postgres_store.publish_next(conn, "three", "k-1")
    postgres_store.outbox.drain()
    assert breaches(postgres_store) == []


@pytest.mark.parametrize("cut", Cut)
def test_a_settling_in_doubt_is_written_again_and_redelivers_nothing(
    postgres_store: Store, proxy: FaultProxy, cut: Cut
) -> None:
    postgres_store.publish_committed("three", ["k-1", "k-1", "k-1"])
    postgres_store.outbox.drain()
    with closing(Store(proxy.url)) as reader:
        offsets: list[int | None] = []

        @reader.outbox.handler(group="reader", topic="three")
        def remember(record: Record) -> None:
            offsets.append(record.offset)

        points.arm("delivery.before_settle", lambda: proxy.cut_at_commit(cut))
        with pytest.raises(StoreUnreachable):
            reader.outbox.drain()
        assert proxy.has_cut.wait(30)
        reader.outbox.drain()
    assert offsets == [0, 1, 2]


def end_sessions_in_a_transaction(store: Store) -> None:
    """End our sessions that are in the middle of a transaction, as an administrator would."""
    (ended,) = store.rows(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'penstock' AND state = 'idle in transaction'"
    )
    assert ended[0] == 1
