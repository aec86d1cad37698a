"""The order promise: what is staged after another transaction's commit follows it, by whatever clock."""

from __future__ import annotations

from contextlib import closing

import pytest

from penstock import Record
from tests.crash.account import breaches, versions
from tests.crash.children import Child
from tests.crash.store import Store, a_service, running
from tests.crash.waiting import wait_until

RECORDS = 1_000


@pytest.mark.slow
def test_a_thousand_events_of_one_key_from_two_processes_with_different_clocks_keep_their_order(
    postgres_store: Store,
) -> None:
    arguments = {"url": postgres_store.url, "topic": "wide", "key": "k-1", "until": RECORDS}
    with closing(postgres_store.database()) as database, running(a_service(database)):
        with (
            Child("count_up", **arguments, shift_seconds=3600) as fast,
            Child("count_up", **arguments, shift_seconds=-3600) as slow,
        ):
            for child in (fast, slow):
                assert child.says() == {"ready": True}
            fast.tell()  # the slow one comes later, so that the log surely goes back in time
            wait_until(lambda: versions(postgres_store, "wide", "k-1"), "the fast one has begun")
            slow.tell()
            counts = [said["published"] for child in (fast, slow) for said in child.finish()]
        wait_until(lambda: postgres_store.waiting() == 0, "all staged events are in the log")
    assert breaches(postgres_store) == []
    assert min(counts) > 0
    assert sum(counts) >= RECORDS
    assert versions(postgres_store, "wide", "k-1") == list(range(1, sum(counts) + 1))
    assert goes_back_in_time(postgres_store), "the clocks agreed, so they showed nothing"


def test_the_first_to_stage_may_commit_last_and_both_are_delivered(postgres_store: Store) -> None:
    delivered: list[str | None] = []

    @postgres_store.outbox.handler(group="reader", topic="wide")
    def remember(record: Record) -> None:
        delivered.append(record.key)

    with postgres_store.connection() as first:
        postgres_store.publish_next(first, "wide", "k-1")
        postgres_store.publish_committed("wide", ["k-2"])
        assert postgres_store.outbox.drain().delivered == 1
        first.commit()
    assert postgres_store.outbox.drain().delivered == 1
    assert delivered == ["k-2", "k-1"]
    assert breaches(postgres_store) == []


def goes_back_in_time(store: Store) -> bool:
    """Return whether some record of the log has an earlier timestamp than the one before it."""
    stamps = [row[0] for row in store.rows('SELECT timestamp_ms FROM penstock_log ORDER BY "offset"')]
    return stamps != sorted(stamps)
