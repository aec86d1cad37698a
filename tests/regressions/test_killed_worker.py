"""No record is stranded by the worker that was killed while it handled it."""

from __future__ import annotations

from functools import partial

import pytest

from tests.crash.account import breaches
from tests.crash.store import Store
from tests.crash.waiting import wait_until
from tests.regressions.ledger import entries, two_owners
from tests.regressions.worker_process import WorkerProcess
from tests.regressions.workers import KEYS, LEASE, PARTITIONS, TOPIC, Diary, a_worker, owned, unsettled
from tests.services.slow import but_the_first

NEVER_SECONDS = 600.0  # a lease for which no test waits


@pytest.mark.parametrize("elsewhere", but_the_first([False, True]), ids=["same host", "another host"])
def test_a_record_in_work_at_a_kill_runs_again_within_lease_and_two_polls(shop: Store, elsewhere: bool) -> None:
    """By itself. On the same host the process is seen to be dead, so its lease is not waited for."""
    diary, lease_seconds = Diary(), LEASE.total_seconds() if elsewhere else NEVER_SECONDS
    with (
        WorkerProcess(shop.url, "killed", act="hang", elsewhere=elsewhere, lease_seconds=lease_seconds) as killed,
        a_worker(shop.url, "heir", diary.handler("heir")) as heir,
    ):
        wait_until(lambda: owned(shop, killed.id) == PARTITIONS, "it owns everything")
        shop.publish_committed(TOPIC, KEYS)
        in_work = killed.handles()
        killed.kill()
        heir.start()
        wait_until(partial(has_handled, diary, in_work[1:3]), "the record in work runs again")
        wait_until(lambda: unsettled(shop) == 0, "everything is done")
        heir.stop()
    (again,) = [each for each in diary if each[1:3] == in_work[1:3]]
    assert again.redelivered
    assert diary.twice() == {}
    assert len(diary) == len(KEYS)
    assert two_owners(entries(shop)) == []
    assert breaches(shop) == []


def has_handled(diary: Diary, place: tuple[int, int]) -> bool:
    """Return whether a record was handled here."""
    return place in diary.places()
