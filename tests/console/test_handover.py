"""Three workers, of which one is killed while the page is open: the grid and the curves show it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.operate.members import Presence, members
from tests.console.browser import browsing
from tests.console.served import ServedConsole
from tests.crash.waiting import wait_until

PROGRAM = """
import sys
from penstock import Outbox
outbox = Outbox(sys.argv[1])
@outbox.handler("order.*", group="mailer")
def mail(record): pass
outbox.run()
"""
HASTE = {
    "PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL": "0.3",
    "PENSTOCK_CLUSTER_LEASE_TTL": "3",
    "PENSTOCK_CLUSTER_GATHER_JOINS": "0.2",
    "PENSTOCK_CLUSTER_REBALANCE_INTERVAL": "1",
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[ServedConsole, list[subprocess.Popen[bytes]]]]:
    """Give a console of a store with three workers, each a process of its own."""
    url = f"sqlite:///{tmp_path}/shop.db"
    with closing(Outbox(url)) as outbox:
        outbox.migrate()
        with outbox.transaction() as conn:
            outbox.publish(conn, "order.placed", {}, key="o-1")
    command = [sys.executable, "-c", PROGRAM, url]
    hasty = {**os.environ, **HASTE}
    workers = [subprocess.Popen(command, env=hasty, stderr=subprocess.DEVNULL) for _ in "123"]
    try:
        with ServedConsole(url) as served:
            yield served, workers
    finally:
        for each in workers:
            each.kill()
            each.wait()


@pytest.mark.slow
def test_a_killed_worker_is_seen_to_hand_over(
    shop: tuple[ServedConsole, list[subprocess.Popen[bytes]]],
) -> None:
    served, workers = shop
    wait_until(lambda: len(_owners(served)) == 3, "three workers share the partitions")
    with browsing(viewport={"width": 1280, "height": 900}) as looking:
        page, beside = looking.page, looking.page.context.new_page()
        looking.open(f"{served.base}/partitions?group=mailer")
        beside.goto(f"{served.base}/")
        assert page.locator(".cell").count() == 256
        assert page.locator(".legend .swatch[class*=hue-]").count() == 3
        beside.wait_for_selector("#tile-members polyline")
        workers[0].kill()
        workers[0].wait()
        owners = "new Set([...document.querySelectorAll('.cell')].map(each => each.dataset.owner)).size"
        wait_until(lambda: page.evaluate(owners) == 2, "the page shows two owners")
        wait_until(lambda: page.locator(".cell.none").count() == 0, "all partitions are owned again")
        beside.wait_for_selector("#tile-members .mark", state="attached")
        assert looking.complaints == []
    wait_until(lambda: _running(served) == 2, "two are left")


def _owners(served: ServedConsole) -> set[str]:
    try:
        page = served.get("partitions", group="mailer").text
    except OSError:
        return set()
    return {each.partition('"')[0] for each in page.split('data-owner="')[1:]} - {""}


def _running(served: ServedConsole) -> int:
    return sum(each.presence is Presence.RUNNING for each in members(served.store))
