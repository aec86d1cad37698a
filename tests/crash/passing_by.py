"""A call that must not wait for the rows of an open transaction: if it waits, the test fails in seconds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg

from tests.crash.waiting import LONGEST_SECONDS, wait_until

T = TypeVar("T")


def row_waiters(url: str) -> int:
    """Return how many connections of a PostgreSQL database wait for a row that another has locked."""
    with psycopg.connect(url, autocommit=True) as conn:
        row = conn.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')"
        ).fetchone()
    assert row is not None
    return int(row[0])


def passing_by(url: str, holder: psycopg.Connection[Any], call: Callable[[], T]) -> T:
    """Return what a call returns that passes by the rows of `holder`, whose transaction is open.

    If it waits instead, that transaction is rolled back, so that the call comes to an end.
    """
    with ThreadPoolExecutor(1, "passing-by") as pool:
        return passed_by(url, holder, pool.submit(call))


def passed_by(url: str, holder: psycopg.Connection[Any], call: Future[T]) -> T:
    """Return what a call returns that has begun, as `passing_by` does."""
    try:
        wait_until(lambda: call.done() or row_waiters(url), "the call ends, or waits for a row")
        assert call.done(), "it waits for rows of an open transaction, and should pass them by"
    except BaseException:
        holder.rollback()
        raise
    return call.result(LONGEST_SECONDS)
