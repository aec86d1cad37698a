"""A pause exactly between the look at the lease and the writing of the outcome; nothing is written."""

from __future__ import annotations

import pytest

from tests.crash.account import breaches
from tests.crash.store import Store
from tests.crash.waiting import wait_until
from tests.regressions.ledger import entries, two_owners
from tests.regressions.worker_process import WorkerProcess
from tests.regressions.workers import KEYS, PARTITIONS, TOPIC, Diary, a_worker, owned, unsettled

QUICK = {"lease_seconds": 1.0, "beat_seconds": 0.2}


@pytest.mark.parametrize(
    "point",
    [
        # handled under a good lease; nothing is written
        pytest.param("delivery.before_settle", marks=pytest.mark.slow),
        "delivery.before_commit",  # written, in a transaction that is still open: the server ends it
    ],
)
def test_an_outcome_that_comes_after_a_pause_past_the_lease_is_refused(shop: Store, point: str) -> None:
    diary = Diary()
    with (
        WorkerProcess(shop.url, "paused", stop_at=point, elsewhere=True, **QUICK) as paused,
        a_worker(shop.url, "heir", diary.handler("heir")) as heir,
    ):
        wait_until(lambda: owned(shop, paused.id) == PARTITIONS, "it owns everything")
        shop.publish_committed(TOPIC, KEYS[:1])
        handled = paused.handles()
        paused.wait_until_stopped()
        assert unsettled(shop) == 1
        heir.start()
        wait_until(lambda: owned(shop, heir.id) == PARTITIONS, "the heir owns everything")
        wait_until(lambda: unsettled(shop) == 0, "the heir has done it")
        noted, cursors = entries(shop), shop.rows(CURSOR, handled.partition)
        paused.resume()
        if point == "delivery.before_settle":
            assert paused.says() == {"settled": [], "lost": [handled.partition]}
        wait_until(lambda: owned(shop, paused.id) > 0, "the paused one is back")
        assert {(*each.get("settled", []), *each.get("lost", [])) for each in paused.stop()} <= {
            (),
            (handled.partition,),
        }
        assert entries(shop) == noted
        assert shop.rows(CURSOR, handled.partition) == cursors
    assert [each[1:3] for each in diary] == [handled[1:3]]
    assert {entry.writer for entry in noted if entry.kind == "cursor"} == {"heir"}
    assert two_owners(noted) == []
    assert breaches(shop) == []


CURSOR = 'SELECT "offset", version, passed FROM penstock_cursor WHERE partition = ?'
