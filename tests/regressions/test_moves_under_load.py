"""Workers join and leave under load; nothing is delivered twice, nothing lost, no key turned round."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread

import pytest

from tests.crash.account import breaches
from tests.crash.store import Store
from tests.crash.waiting import wait_until
from tests.regressions.ledger import entries, two_owners
from tests.regressions.workers import KEYS, PARTITIONS, TOPIC, Diary, a_worker, owned, unsettled
from tests.services.budget import Budget

LEASE, BEAT = timedelta(seconds=30), timedelta(seconds=0.1)  # no lease ends: every move is graceful


@pytest.mark.parametrize("how_often", ["some", pytest.param("many", marks=pytest.mark.slow)])
def test_joining_and_leaving_under_load_delivers_nothing_twice(shop: Store, budget: Budget, how_often: str) -> None:
    diary, moves = Diary(), 0
    with a_worker(shop.url, "stays", diary.handler("stays", a_moment), lease=LEASE, beat=BEAT) as stays, a_load(shop):
        stays.start()
        wait_until(lambda: owned(shop, stays.id) == PARTITIONS, "the first owns everything")
        for turn in budget("regressions.moves"):
            who = f"comes-{turn.number}"
            with a_worker(shop.url, who, diary.handler(who, a_moment), lease=LEASE, beat=BEAT) as comes:
                comes.start()
                wait_until(lambda: diary.by(who) > 20, "the newcomer works")  # noqa: B023
                moves += owned(shop, comes.id)
                comes.stop()
                assert owned(shop, comes.id) == 0
        stays.stop()
    with a_worker(shop.url, "last", diary.handler("last")) as last:
        last.start()
        wait_until(lambda: unsettled(shop) == 0, "all is done")
    assert diary.twice() == {}
    assert diary.inversions() == []
    assert len(diary) == len(shop.rows("SELECT id FROM promised"))
    assert moves >= turn.number
    assert not [each for each in diary if each.redelivered]
    assert two_owners(entries(shop)) == []
    assert breaches(shop) == []


def a_moment(record: object) -> None:
    """Take a moment, as a handler does that calls somebody: something is out whenever partitions move."""
    Event().wait(random.uniform(0, 0.01))


@contextmanager
def a_load(store: Store) -> Iterator[None]:
    """Publish for the length of a block."""
    ended = Event()

    def publish() -> None:
        rng = random.Random(2)
        while not ended.wait(0.01):
            store.publish_committed(TOPIC, rng.sample(KEYS, 6))

    thread = Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
