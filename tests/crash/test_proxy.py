"""The fault proxy does what its words say, seen with the bare driver."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from tests.crash.proxy import Cut, FaultProxy
from tests.crash.store import Store
from tests.crash.waiting import wait_until


def count_up(url: str) -> None:
    """Raise the counter of one key in a transaction, with the bare driver."""
    with closing(psycopg.connect(url)) as conn:
        conn.execute("UPDATE counter SET version = version + 1 WHERE topic = 'three' AND name = 'k-1'")
        conn.commit()


def counter(store: Store) -> int:
    """Return where the counter stands."""
    return int(store.rows("SELECT version FROM counter WHERE topic = 'three' AND name = 'k-1'")[0][0])


def test_without_orders_everything_passes(postgres_store: Store) -> None:
    with FaultProxy(postgres_store.url) as proxy:
        count_up(proxy.url)
    assert counter(postgres_store) == 1


@pytest.mark.parametrize("cut", Cut)
def test_only_the_commit_that_was_named_is_cut(postgres_store: Store, cut: Cut) -> None:
    with FaultProxy(postgres_store.url) as proxy:
        proxy.cut_at_commit(cut, number=2)
        count_up(proxy.url)
        with pytest.raises(psycopg.OperationalError):
            count_up(proxy.url)
        assert proxy.has_cut.wait(30)
        arrived = cut is not Cut.BEFORE_IT_ARRIVES
        wait_until(lambda: counter(postgres_store) == 1 + arrived, "the server has made up its mind")
        count_up(proxy.url)
        assert counter(postgres_store) == 2 + arrived


def test_while_it_is_down_old_connections_end_and_new_ones_are_refused(postgres_store: Store) -> None:
    with FaultProxy(postgres_store.url) as proxy, closing(psycopg.connect(proxy.url)) as conn:
        proxy.go_down()
        with pytest.raises(psycopg.OperationalError):
            conn.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(proxy.url)
        proxy.come_up()
        count_up(proxy.url)
    assert counter(postgres_store) == 1
