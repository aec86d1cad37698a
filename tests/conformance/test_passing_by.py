"""Who takes or trims passes by rows that somebody has locked, and waits for nobody; later it finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
import pytest

from penstock.database.database import Database
from penstock.delivery.store import GroupStore
from penstock.outbox.tokens import trim_tokens
from tests.conformance.engines import StoreEngine
from tests.suites.records import some_records

T = TypeVar("T")
LATER_MS = 1 << 50


@pytest.fixture(params=["postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Give the one with locks on rows."""
    return str(request.param)


@contextmanager
def locked(engine: StoreEngine, statement: str) -> Iterator[None]:
    """Hold what a statement locks."""
    with engine.connect() as conn:
        assert conn.execute(f"{statement} FOR UPDATE").fetchall()
        yield
        conn.rollback()


def at_once(work: Callable[[], T], engine: StoreEngine, statement: str) -> T:
    """Return what is done while something is locked; it must end before the lock does."""
    with ThreadPoolExecutor(1) as pool, locked(engine, statement):
        return pool.submit(work).result(10)


@pytest.fixture
def group(engine: StoreEngine) -> GroupStore:
    """Give a group with work in each of three partitions, all meant for a member."""
    engine.outbox.log.create_topic("t", partitions=3)
    for partition in range(3):
        engine.outbox.log.append("t", some_records(2), partition=partition)
    topic = engine.outbox.log.topic("t")
    made = GroupStore(engine.outbox.store, engine.clock, group="g", topic=topic, owner="me")
    engine._change("UPDATE penstock_cursor SET owner_wanted = 'me'")
    return made


@pytest.mark.parametrize("how", ["take", "take_wanted"])
def test_a_cursor_that_somebody_has_locked_is_left_for_the_next_time(
    engine: StoreEngine, group: GroupStore, how: str
) -> None:
    """Its owner is about to settle, and may hold other locks that this member has to wait for."""
    take: Callable[..., dict[int, Any]] = getattr(group, how)
    one = "SELECT 1 FROM penstock_cursor WHERE partition = 1"
    assert set(at_once(lambda: take(lambda tx: ["me"]), engine, one)) == {0, 2}
    assert set(take(lambda tx: ["me"])) == {1}


def test_a_token_that_somebody_has_locked_is_trimmed_the_next_time(engine: StoreEngine) -> None:
    for token in ("a", "b"):
        with engine.outbox.transaction() as conn:
            engine.outbox.publish(conn, "t", 1, token=token)
    one = "SELECT token FROM penstock_token ORDER BY token LIMIT 1"

    def trim() -> int:
        return engine.outbox.store.database.run(lambda tx: trim_tokens(tx, LATER_MS, 10))

    others = engine.count("token") - 1
    assert at_once(trim, engine, one) == others > 0
    assert trim() == 1


def test_a_transaction_of_which_a_statement_has_failed_is_not_committed(engine: StoreEngine) -> None:
    """The server answers its COMMIT with ROLLBACK, without an error."""
    database: Database = engine.outbox.store.database
    with (
        pytest.raises(psycopg.errors.InFailedSqlTransaction),
        database.transaction() as tx,
        suppress(psycopg.errors.UndefinedTable),
    ):
        tx.conn.execute("SELECT * FROM nowhere")
