"""A member that is cut off from the database past its lease; two generations never both commit."""

from __future__ import annotations

from threading import Event

import pytest

from penstock import Record
from tests.crash.account import breaches
from tests.crash.proxy import FaultProxy
from tests.crash.store import Store
from tests.crash.waiting import LONGEST_SECONDS, wait_until
from tests.regressions.ledger import Entry, entries, two_owners
from tests.regressions.workers import KEYS, LEASE, PARTITIONS, TOPIC, Diary, a_worker, owned, unsettled

BEFORE, AFTER = Entry("cursor", 3, 7, "a"), Entry("cursor", 3, 8, "b")


def test_a_member_cut_off_past_its_lease_and_its_heir_never_both_commit(shop: Store) -> None:
    diary, go, held = Diary(), Event(), Event()

    def hold(record: Record) -> None:
        held.set()
        assert go.wait(LONGEST_SECONDS)

    with (
        FaultProxy(shop.url) as proxy,
        a_worker(proxy.url, "a", diary.handler("a", hold), lease=LEASE) as cut_off,
        a_worker(shop.url, "b", diary.handler("b")) as heir,
    ):
        cut_off.start()
        wait_until(lambda: owned(shop, cut_off.id) == PARTITIONS, "the first owns everything")
        shop.publish_committed(TOPIC, KEYS)
        assert held.wait(LONGEST_SECONDS)
        proxy.go_down()
        shop.publish_committed(TOPIC, KEYS)
        heir.start()
        wait_until(lambda: owned(shop, heir.id) == PARTITIONS, "the heir owns everything")
        wait_until(lambda: unsettled(shop) == 0, "the heir has done everything")
        settled = len(entries(shop))
        proxy.come_up()
        go.set()  # what it held ends only now, eight handlers at once, and it tries to settle that
        wait_until(lambda: owned(shop, cut_off.id) > 0, "the first is back and has its share")

        def both_go_on() -> bool:
            shop.publish_committed(TOPIC, KEYS)
            wait_until(lambda: unsettled(shop) == 0, "all is done")
            writers = {entry.writer for entry in entries(shop)[settled:]}
            return writers == {"a", "b"} and diary.by("a") > 8

        wait_until(both_go_on, "both go on")  # held up, the first may lose its short lease once more
        noted = entries(shop)
    assert two_owners(noted) == []
    assert breaches(shop) == []


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        ([BEFORE, BEFORE, AFTER, AFTER], 0),
        ([BEFORE, AFTER, BEFORE], 1),
        ([BEFORE, Entry("cursor", 3, 7, "b")], 1),
        ([BEFORE, Entry("cursor", 4, 6, "b"), Entry("slot", 3, 1, "b")], 0),
    ],
)
def test_the_ledger_finds_two_generations_that_both_commit(noted: list[Entry], found: int) -> None:
    assert len(two_owners(noted)) == found
