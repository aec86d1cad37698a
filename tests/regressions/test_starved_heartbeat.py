"""Handlers that burn every slot cost no membership; one that stops the whole interpreter is fenced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.account import breaches
from tests.crash.store import Store
from tests.crash.waiting import wait_until
from tests.regressions.ledger import entries, two_owners
from tests.regressions.worker_process import WorkerProcess
from tests.regressions.workers import KEYS, PARTITIONS, TOPIC, Diary, a_worker, epochs, owned, unsettled
from tests.services.budget import Budget

pytestmark = pytest.mark.slow

SLOTS = 8
LEASE_SECONDS = 30.0  # longer than a busy machine may hold anything up


@pytest.mark.parametrize("how_long", ["short", pytest.param("long", marks=pytest.mark.slow)])
def test_handlers_that_burn_every_slot_do_not_make_membership_flap(
    shop: Store, tmp_path: Path, budget: Budget, how_long: str
) -> None:
    rest = tmp_path / "rest"
    with (
        WorkerProcess(
            shop.url, "burns", act="burn", argument=str(rest), concurrency=SLOTS, lease_seconds=LEASE_SECONDS
        ) as burns,
        a_worker(shop.url, "quiet", Diary().handler("quiet"), concurrency=1) as quiet,
    ):
        quiet.start()
        wait_until(lambda: owned(shop, burns.id) == owned(shop, quiet.id) == PARTITIONS // 2, "both share")
        shop.publish_committed(TOPIC, KEYS)
        for _ in range(SLOTS):
            burns.handles()
        before, until_ms = epochs(shop), lease_until(shop, burns.id)
        for _ in budget("regressions.burning"):
            wait_until(
                lambda: lease_until(shop, burns.id) > until_ms,  # noqa: B023
                "a busy member renews its lease in time",
                seconds=LEASE_SECONDS,
            )
            until_ms = lease_until(shop, burns.id)
        assert epochs(shop) == before
        rest.touch()
        wait_until(lambda: unsettled(shop) == 0, "all is done")
        quiet.stop()
        burns.stop()
    assert breaches(shop) == []


def test_a_handler_that_holds_the_interpreter_past_the_lease_is_fenced(shop: Store, tmp_path: Path) -> None:
    diary, pipe = Diary(), tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        WorkerProcess(shop.url, "grips", act="grip", argument=str(pipe), elsewhere=True) as grips,
        a_worker(shop.url, "heir", diary.handler("heir")) as heir,
    ):
        wait_until(lambda: owned(shop, grips.id) == PARTITIONS, "it owns everything")
        shop.publish_committed(TOPIC, KEYS[:1])
        held = grips.handles()
        heir.start()
        wait_until(lambda: owned(shop, heir.id) == PARTITIONS, "the heir owns everything")
        wait_until(lambda: unsettled(shop) == 0, "the heir has done it")
        noted = entries(shop)
        pipe.write_text("!")
        wait_until(lambda: owned(shop, grips.id) > 0, "the stalled one is back")
        assert [each for each in grips.stop() if held.partition in each.get("settled", [])] == []
        assert entries(shop) == noted
    assert [(each.partition, each.offset, each.redelivered) for each in diary] == [(held.partition, held.offset, True)]
    assert two_owners(noted) == []
    assert breaches(shop) == []


def lease_until(store: Store, member: str) -> int:
    """Return until when a member has its lease."""
    return int(store.rows("SELECT lease_until_ms FROM penstock_member WHERE id = ?", member)[0][0])
