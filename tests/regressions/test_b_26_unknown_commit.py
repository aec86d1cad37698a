"""B-26: the connection drops at COMMIT: the event is there once or not at all, and the caller can tell."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

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
def test_b_26_after_a_cut_at_commit_the_caller_can_tell_whether_the_event_is_there(
    shop: Store, cut: Cut, there: int, sequenced: bool
) -> None:
    """By its own row and by the event's id alike; so it publishes again exactly when it has to."""
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
        assert places(caller, event_id) == there
        assert len(caller.rows("SELECT id FROM promised WHERE id = ?", event_id)) == there
        if not there:
            caller.publish_committed(TOPIC, [key])
    drain(shop)
    assert len(shop.rows("SELECT id FROM penstock_log")) == 1
    assert breaches(shop) == []


def places(store: Store, event_id: str) -> int:
    """Return in how many places, the stage and the log, an event is found by its id."""
    return sum(
        len(store.rows(f"SELECT 1 FROM penstock_{table} WHERE id = ?", event_id))
        for table in ("staged", "log")
    )


def drain(shop: Store) -> None:
    """Sequence under a name for the ledger."""
    with closing(Store(named(shop.url, "drain"))) as named_store:
        named_store.outbox.drain()
