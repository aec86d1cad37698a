"""Groups of one process beside each other: a slow one with a backlog leaves the others their share."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from penstock import Outbox, Record
from tests.crash.waiting import wait_until

pytestmark = pytest.mark.usefixtures("brisk")
SLOW, QUICK = 400, 60


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """Give an outbox with something for each of two groups."""
    opened = Outbox(f"sqlite:///{tmp_path}/shop.db")
    opened.migrate()
    publish(opened, slow=1, quick=1)
    yield opened
    opened.close()


def publish(outbox: Outbox, *, slow: int, quick: int) -> None:
    with outbox.transaction() as conn:
        outbox.publish_many(
            conn,
            [{"type": "slow", "value": n, "key": f"k-{n}"} for n in range(slow)]
            + [{"type": "quick", "value": n, "key": f"k-{n}"} for n in range(quick)],
        )


@pytest.mark.parametrize("transaction", [False, True], ids=["plain", "transactional"])
def test_a_slow_group_with_a_backlog_leaves_another_its_share(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, transaction: bool
) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_CONCURRENCY", "2")
    done, stop = Counter[str](), Event()
    slow_when_quick_was_done = list[int]()

    @outbox.handler("slow", group="a-slow", transaction=transaction)
    def slow(record: Record) -> None:
        time.sleep(0.01)
        done["slow"] += 1

    @outbox.handler("quick", group="b-quick", transaction=transaction)
    def quick(record: Record) -> None:
        done["quick"] += 1
        if done["quick"] == 1 + QUICK:
            slow_when_quick_was_done.append(done["slow"])

    worker = Thread(target=lambda: outbox.run(until=stop))
    worker.start()
    try:
        wait_until(lambda: done["slow"] and done["quick"], "both groups are at work")
        publish(outbox, slow=SLOW, quick=QUICK)
        wait_until(lambda: slow_when_quick_was_done or done["slow"] > SLOW, "one of the groups has done all")
    finally:
        stop.set()
        worker.join()
    assert slow_when_quick_was_done
    assert slow_when_quick_was_done[0] < SLOW * 0.75


def test_a_group_whose_calls_hold_every_thread_does_not_keep_another_waiting(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_CONCURRENCY", "2")
    at_work, done = Counter[str](), Counter[str]()
    go_on, stop = Event(), Event()

    @outbox.handler("slow", group="a-slow")
    def slow(record: Record) -> None:
        at_work["slow"] += 1
        go_on.wait()

    @outbox.handler("quick", group="b-quick")
    def quick(record: Record) -> None:
        done["quick"] += 1

    worker = Thread(target=lambda: outbox.run(until=stop))
    worker.start()
    try:
        publish(outbox, slow=8, quick=0)
        wait_until(lambda: at_work["slow"] == 2, "the slow group has all the threads")
        publish(outbox, slow=0, quick=QUICK)
        wait_until(lambda: done["quick"] == 1 + QUICK, "the other group has done all")
        assert at_work["slow"] == 2
    finally:
        go_on.set()
        stop.set()
        worker.join()
