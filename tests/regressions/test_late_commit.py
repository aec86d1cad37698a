"""What was staged first and committed last is delivered, also when its worker was killed meanwhile."""

from __future__ import annotations

import pytest

from tests.crash.account import breaches
from tests.crash.store import Store
from tests.crash.waiting import wait_until
from tests.regressions.worker_process import WorkerProcess
from tests.regressions.workers import KEYS, STEADY, TOPIC, Diary, a_worker, unsettled
from tests.services.slow import but_the_first


@pytest.mark.parametrize("killed", but_the_first([False, True]), ids=["one worker", "its heir"])
def test_a_late_commit_is_not_lost_and_what_was_settled_is_not_repeated(shop: Store, killed: bool) -> None:
    """A mark by time or by id would have passed it; a cursor over offsets has not."""
    late, *early = KEYS
    diary = Diary()
    with (
        WorkerProcess(shop.url, "first", lease_seconds=STEADY.total_seconds()) as first,
        a_worker(shop.url, "heir", diary.handler("heir")) as heir,
        shop.connection() as open_still,
    ):
        shop.publish_next(open_still, TOPIC, late)
        shop.publish_committed(TOPIC, early)
        overtook = [first.handles() for _ in early]
        wait_until(lambda: unsettled(shop) == 0, "what overtook is done")
        if killed:
            first.kill()
            open_still.commit()
            heir.start()
            wait_until(lambda: diary and unsettled(shop) == 0, "the late one is done")
        else:
            open_still.commit()
            wait_until(lambda: unsettled(shop) == 0, "the late one is done")
            diary.append(first.handles())
            assert not [said for said in first.stop() if "handling" in said]
        heir.stop()
    assert {each.key for each in overtook} == set(early)
    assert [each.key for each in diary] == [late]
    assert breaches(shop) == []
