"""Tokens under concurrency and doubt: one token is one event, whoever comes second, and whatever was lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from threading import Barrier
from typing import Any

import psycopg
import pytest

from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.errors import CommitOutcomeUnknown
from penstock.model.token import check_token
from penstock.outbox.tokens import trim_tokens
from tests.crash.account import logged
from tests.crash.proxy import Cut, FaultProxy
from tests.crash.store import Store
from tests.crash.test_cancel import end
from tests.crash.waiting import wait_until

TOPIC = "three"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Give threads for two callers."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


def publish(store: Store, conn: Any, *tokens: str) -> list[str]:
    """Publish one event for each token, in the given order."""
    return store.outbox.publish_many(
        conn, [{"type": "t", "value": None, "key": "k-1", "token": token} for token in tokens], topic=TOPIC
    )


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_the_second_use_of_a_token_waits_for_the_first(
    postgres_store: Store, pool: ThreadPoolExecutor, commits: bool
) -> None:
    """It gets the id of the first, which it could not see before; after a rollback it publishes itself."""
    with postgres_store.connection() as first, postgres_store.connection() as second:
        (given,) = publish(postgres_store, first, "t")
        waiting = pool.submit(publish, postgres_store, second, "t")
        wait_until(postgres_store.lock_waiters, "the second waits for the first")
        end(first, commits)
        assert (waiting.result() == [given]) is commits
        second.commit()
    postgres_store.outbox.drain()
    assert [row.id for row in logged(postgres_store)] == waiting.result()
    assert postgres_store.outbox.published(None, "t") == waiting.result()[0]


def test_callers_with_the_same_tokens_in_different_orders_do_not_deadlock(
    postgres_store: Store, pool: ThreadPoolExecutor
) -> None:
    """A third holds the middle one: from two ends, each would come to hold what the other needs."""
    tokens = sorted(("t-1", "t-2", "t-3"), key=lambda token: check_token(token, TOPIC).hash)

    def publish_all(*tokens: str) -> list[str]:
        with postgres_store.connection() as conn:
            ids = publish(postgres_store, conn, *tokens)
            conn.commit()
        return ids

    with postgres_store.connection() as middle:
        publish(postgres_store, middle, tokens[1])
        both = [pool.submit(publish_all, *tokens), pool.submit(publish_all, *tokens[::-1])]
        wait_until(lambda: postgres_store.lock_waiters() == 2, "both wait")
        middle.rollback()
    assert both[0].result() == both[1].result()[::-1]


def test_under_repeatable_read_a_token_won_by_another_is_a_conflict(postgres_store: Store) -> None:
    """It cannot be seen there, so the driver says to run the transaction again."""
    with postgres_store.connection() as conn:
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT 1")
        with postgres_store.connection() as other:
            publish(postgres_store, other, "t")
            other.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            publish(postgres_store, conn, "t")


@pytest.mark.parametrize("many", [1, 3])
def test_a_token_too_old_is_taken_anew_by_one_of_two(
    postgres_store: Store, pool: ThreadPoolExecutor, many: int
) -> None:
    tokens = [f"t-{number}" for number in range(many)]
    with postgres_store.connection() as first, postgres_store.connection() as second:
        publish(postgres_store, first, *tokens)
        first.commit()
        postgres_store.run("UPDATE penstock_token SET created_ms = 0")
        given = publish(postgres_store, first, *tokens)
        waiting = pool.submit(publish, postgres_store, second, *tokens)
        wait_until(postgres_store.lock_waiters, "the second waits for the first")
        first.commit()
        assert waiting.result() == given
        second.commit()


@pytest.fixture
def slow_commit(postgres_store: Store) -> Iterator[None]:
    """Make the COMMIT of every transaction with a token linger."""
    postgres_store.run(
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON penstock_token DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW WHEN (NEW.id <> '') EXECUTE FUNCTION linger();"
    )
    yield
    postgres_store.run("DROP FUNCTION linger CASCADE")


@pytest.mark.usefixtures("slow_commit")
@pytest.mark.parametrize(
    ("cut", "there"), [(Cut.BEFORE_IT_ARRIVES, False), (Cut.WHILE_IT_RUNS, True), (Cut.BEFORE_ITS_ANSWER, True)]
)
def test_a_commit_in_doubt_is_not_replayed_and_its_tokens_tell_the_truth(
    postgres_store: Store, cut: Cut, there: bool
) -> None:
    """Also while that COMMIT still runs, the answer waits for it."""
    calls: list[list[str]] = []

    with FaultProxy(postgres_store.url) as proxy, closing(Store(proxy.url)) as far:

        def work(conn: Any) -> None:
            calls.append(publish(far, conn, "t-1", "t-2"))

        proxy.cut_at_commit(cut)
        with pytest.raises(CommitOutcomeUnknown, match=r"published\(None, token\).*'t-1', 't-2'") as caught:
            far.outbox.run_in_tx(work)
        found = [postgres_store.outbox.published(None, token) for token in caught.value.tokens]
        assert proxy.has_cut.wait(30)
        assert len(calls) == 1
        assert found == (calls[0] if there else [None, None])
        far.outbox.run_in_tx(work)  # with tokens it may be asked for again, whatever became of it
    assert (calls[1] == calls[0]) is there
    postgres_store.outbox.drain()
    assert len(logged(postgres_store)) == 2


def test_a_connection_lost_before_the_commit_is_no_doubt_and_no_conflict(postgres_store: Store) -> None:
    calls: list[int] = []

    def work(conn: Any) -> None:
        calls.append(1)
        publish(postgres_store, conn, "t")
        postgres_store.rows("SELECT pg_terminate_backend(%s, 10000)", conn.info.backend_pid)
        conn.execute("SELECT 1")

    with pytest.raises(psycopg.OperationalError):
        postgres_store.outbox.run_in_tx(work)
    assert calls == [1]
    assert postgres_store.outbox.published(None, "t") is None


def test_a_transaction_that_deadlocks_runs_again(postgres_store: Store, pool: ThreadPoolExecutor) -> None:
    """Two that lock two rows in different orders: the server ends one of them, and it runs once more."""
    meet, calls = Barrier(2), list[str]()

    def locking(*names: str) -> None:
        def work(conn: Any) -> None:
            calls.append(names[0])
            lock = "SELECT 1 FROM counter WHERE topic = 'three' AND name = %s FOR UPDATE"
            conn.execute(lock, (names[0],))
            if len(calls) <= 2:
                meet.wait(30)
            conn.execute(lock, (names[1],))
            publish(postgres_store, conn, names[0])

        postgres_store.outbox.run_in_tx(work)

    both = [pool.submit(locking, "k-1", "k-2"), pool.submit(locking, "k-2", "k-1")]
    for each in both:
        each.result()
    assert sorted(calls) in (["k-1", "k-1", "k-2"], ["k-1", "k-2", "k-2"])
    assert all(postgres_store.outbox.published(None, name) for name in ("k-1", "k-2"))


def test_asking_while_the_token_is_held_for_long_leaves_the_outcome_unknown(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CLUSTER_LEASE_TTL", "0.4")
    monkeypatch.setenv("PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL", "0.1")
    with closing(Store(postgres_store.url)) as asker, postgres_store.connection() as conn:
        publish(postgres_store, conn, "t")
        with pytest.raises(CommitOutcomeUnknown, match="has not ended"):
            asker.outbox.published(None, "t")
        conn.rollback()
    assert postgres_store.outbox.published(None, "t") is None


def test_old_tokens_are_trimmed_a_few_at_a_time(store: Store) -> None:
    with store.connection() as conn:
        publish(store, conn, *"abcde")
        conn.commit()
    store.run("UPDATE penstock_token SET created_ms = 1000")
    with store.connection() as conn:
        publish(store, conn, "new")
        conn.commit()
    database: Database = open_database(store.url, Names(), limit_seconds=timedelta(seconds=5).total_seconds())
    with closing(database):
        gone = [database.run(lambda tx: trim_tokens(tx, 1001, 4)) for _ in range(4)]
    assert gone == [4, 4, 2, 0], "two rows of each, since the version before has its own"
    assert store.outbox.published(None, "new") is not None
