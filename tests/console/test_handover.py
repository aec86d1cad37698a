"""A running system, three workers of which one is killed while pages are open: every page, every act.

In `--long` at a size that people have after a while: a million records, 10,000 parked lanes, 30 groups.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.consoles.large_store import LARGE, PARKING, SMALL, StoreSize, fill
from penstock.console.views import PAGES
from penstock.operate.dead import dead_letters
from penstock.operate.members import Presence, members
from tests.console.browser import Looking, browsing
from tests.console.served import TOKEN, ServedConsole
from tests.crash.waiting import wait_until
from tests.services.budget import Budget

PROGRAM = """
import sys
from bench.consoles.large_store import handlers
from penstock import Outbox
outbox = Outbox(sys.argv[1])
handlers(outbox, int(sys.argv[2]))
outbox.run()
"""
HASTE = {
    "PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL": "0.3",
    "PENSTOCK_CLUSTER_LEASE_TTL": "3",
    "PENSTOCK_CLUSTER_GATHER_JOINS": "0.2",
    "PENSTOCK_CLUSTER_REBALANCE_INTERVAL": "1",
}
ROOT = Path(__file__).resolve().parents[2]
QUERIES = {
    "topic": "name=events",
    "record": "topic=events&partition=0&offset=0",
    "group": f"name={PARKING}",
    "key": "key=parked-7",
    "failures": f"group={PARKING}",
}
Running = tuple[ServedConsole, list[subprocess.Popen[bytes]], StoreSize]


@pytest.fixture
def shop(tmp_path: Path, budget: Budget) -> Iterator[Running]:
    """Give a console of a store with three workers, each a process of its own."""
    records = 1000 * sum(1 for _ in budget("console.thousands"))
    size = LARGE if records >= LARGE.records else replace(SMALL, records=records)
    url = f"sqlite:///{tmp_path}/shop.db"
    fill(url, size)
    command = [sys.executable, "-c", PROGRAM, url, str(size.groups)]
    hasty = {**os.environ, **HASTE, "PYTHONPATH": str(ROOT)}
    workers = [subprocess.Popen(command, env=hasty, stderr=subprocess.DEVNULL) for _ in "123"]
    try:
        with ServedConsole(url, allow_actions=True) as served:
            yield served, workers, size
    finally:
        for each in workers:
            each.kill()
            each.wait()


@pytest.mark.slow
def test_pages_and_acts_of_a_running_system_while_a_worker_is_killed(shop: Running) -> None:
    served, workers, size = shop
    wait_until(lambda: len(_owners(served)) == 3, "three workers share the partitions")
    with browsing(viewport={"width": 1280, "height": 900}) as looking:
        _every_page(looking, served)
        _killed(looking, served, workers[0])
        _every_act(looking, served, size)
        assert looking.complaints == []
    wait_until(lambda: _running(served) == 2, "two are left")


def _every_page(looking: Looking, served: ServedConsole) -> None:
    for each in PAGES:
        if each.path != "letter":
            looking.open(f"{served.base}/{each.path}?{QUERIES.get(each.path, '')}")
            looking.page.wait_for_selector("h1")
            assert looking.page.inner_text("h1") != "That did not work", each.path
            width = looking.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert width <= 0, each.path


def _killed(looking: Looking, served: ServedConsole, victim: subprocess.Popen[bytes]) -> None:
    page, beside = looking.page, looking.page.context.new_page()
    looking.open(f"{served.base}/partitions?group={PARKING}")
    beside.goto(f"{served.base}/")
    assert page.locator(".cell").count() == 256
    assert page.locator(".legend .swatch[class*=hue-]").count() == 3
    beside.wait_for_selector("#tile-members polyline")
    victim.kill()
    victim.wait()
    owners = "new Set([...document.querySelectorAll('.cell')].map(each => each.dataset.owner)).size"
    wait_until(lambda: page.evaluate(owners) == 2, "the page shows two owners")
    wait_until(lambda: page.locator(".cell.none").count() == 0, "all partitions are owned again")
    beside.wait_for_selector("#tile-members .mark", state="attached")
    beside.close()


def _every_act(looking: Looking, served: ServedConsole, size: StoreSize) -> None:
    page = looking.page
    looking.open(f"{served.base}/unlock")
    page.fill("input[name=token]", TOKEN)
    page.click("main button")
    page.wait_for_selector("text=Actions on")

    looking.open(f"{served.base}/topic?name=events")
    page.click(".publish summary")
    page.fill(".publish [name=key]", "by-hand")
    page.fill(".publish textarea", '{"cents": 1}')
    page.click(".publish button")
    _confirm(page, "Publish a record to events?")
    assert re.search(r"published: events/\d+/\d+", page.inner_text(".told"))

    looking.open(f"{served.base}/group?name={PARKING}")
    page.click("text=Pause…")
    _confirm(page, f"Pause group {PARKING}?")
    page.click("text=Resume…")
    _confirm(page, f"Resume group {PARKING}?")
    page.select_option("select[name=to]", "latest")
    page.click("text=Preview…")
    _confirm(page, f"Move group {PARKING} on events to latest?")

    _letters(looking, served, size)


def _letters(looking: Looking, served: ServedConsole, size: StoreSize) -> None:
    """One letter, some that are picked, all that match: each counted before it is done."""
    page = looking.page
    left = size.dead
    for count in (1, 3):
        looking.open(f"{served.base}/failures?group={PARKING}")
        for number in range(count):
            page.check(f"input[name=pick] >> nth={number}")
        page.click("text=Discard picked…")
        _confirm(page, f"Discard {count} dead letter{'s' if count > 1 else ''}?")
        left -= count
    page.click("[aria-label='Acts on all that match'] button.harsh")
    _confirm(page, f"Discard {left:,} dead letters?")
    assert dead_letters(served.store, group=PARKING).items == []


def _confirm(page: Any, question: str) -> None:
    page.wait_for_selector(".asked h1")
    assert page.inner_text(".asked h1") == question
    page.click(".asked form button")
    page.wait_for_selector(".told")


def _owners(served: ServedConsole) -> set[str]:
    try:
        page = served.get("partitions", group=PARKING).text
    except OSError:
        return set()
    return {each.partition('"')[0] for each in page.split('data-owner="')[1:]} - {""}


def _running(served: ServedConsole) -> int:
    return sum(each.presence is Presence.RUNNING for each in members(served.store))
