"""The connection drops at COMMIT: the event is there once or not at all, and the caller can tell."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql

from penstock.errors import CommitOutcomeUnknown
from tests.crash.account import breaches
from tests.crash.proxy import Cut, FaultProxy
from tests.crash.store import Store
from tests.regressions.ledger import named
from tests.regressions.workers import KEYS, TOPIC


@pytest.mark.parametrize("sequenced", [False, True], ids=["staged", "sequenced"])
@pytest.mark.parametrize(
    ("cut", "there"),
    [(Cut.BEFORE_IT_ARRIVES, 0), (Cut.WHILE_IT_RUNS, 1), (Cut.BEFORE_ITS_ANSWER, 1)],
    ids=lambda value: value.name.lower() if isinstance(value, Cut) else "",
)
def test_after_a_cut_at_commit_the_caller_can_tell_whether_the_event_is_there(
    shop: Store, cut: Cut, there: int, sequenced: bool
) -> None:
    """By its own row and by the event's id alike; so it publishes again exactly when it has to.

    It asks after locking the row that it had locked before it published: a COMMIT that still runs is waited
    for, or the answer would be "not there" a moment before it is.
    """
    key = KEYS[0]
    with FaultProxy(shop.url) as proxy, closing(Store(named(proxy.url, "caller"))) as caller:
        with caller.connection() as conn:
            event_id = caller.publish_next(conn, TOPIC, key)
            proxy.cut_at_commit(cut)
            with pytest.raises(psycopg.OperationalError):
                conn.commit()
        assert proxy.has_cut.wait(30)
        if sequenced:
            drain(shop)
        with caller.connection() as conn:
            conn.execute(
                "SELECT version FROM counter WHERE topic = %s AND name = %s FOR UPDATE", (TOPIC, key)
            )
            assert places(conn, event_id) == there
            assert found(conn, "promised", event_id) == there
        if not there:
            caller.publish_committed(TOPIC, [key])
    drain(shop)
    assert len(shop.rows("SELECT id FROM penstock_log")) == 1
    assert breaches(shop) == []


@pytest.mark.parametrize(
    ("cut", "there"),
    [(Cut.BEFORE_IT_ARRIVES, 0), (Cut.WHILE_IT_RUNS, 1), (Cut.BEFORE_ITS_ANSWER, 1)],
    ids=lambda value: value.name.lower() if isinstance(value, Cut) else "",
)
def test_with_a_token_the_caller_asks_by_it_or_simply_publishes_again(
    shop: Store, cut: Cut, there: int
) -> None:
    """The helper does not replay what it cannot know; the token makes a second try harmless."""
    token = "paid:7"
    with FaultProxy(shop.url) as proxy, closing(Store(named(proxy.url, "caller"))) as caller:

        def pay(conn: Any) -> str:
            return caller.outbox.publish(conn, "paid", {"version": None}, key="k", topic=TOPIC, token=token)

        proxy.cut_at_commit(cut)
        with pytest.raises(CommitOutcomeUnknown) as caught:
            caller.outbox.run_in_tx(pay)
        assert proxy.has_cut.wait(30)
        assert caught.value.tokens == (token,)
        known = caller.outbox.published(None, token)
        assert (known is not None) == bool(there)
        event_id = caller.outbox.run_in_tx(pay)
        assert known in (None, event_id)
    drain(shop)
    assert shop.rows("SELECT id FROM penstock_log") == [(event_id,)]


def places(conn: psycopg.Connection[Any], event_id: str) -> int:
    """Return in how many places, the stage and the log, an event is found by its id."""
    return found(conn, "penstock_staged", event_id) + found(conn, "penstock_log", event_id)


def found(conn: psycopg.Connection[Any], table: str, id: str) -> int:
    """Return how many rows of a table have an id."""
    query = sql.SQL("SELECT 1 FROM {} WHERE id = %s").format(sql.Identifier(table))
    return len(conn.execute(query, (id,)).fetchall())


def drain(shop: Store) -> None:
    """Sequence under a name for the ledger."""
    with closing(Store(named(shop.url, "drain"))) as named_store:
        named_store.outbox.drain()
