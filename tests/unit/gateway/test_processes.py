"""Probes of real workers: the store hangs, a handler hangs, the process is stopped beyond its lease."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import Outbox
from tests.crash.proxy import FaultProxy
from tests.crash.waiting import wait_until
from tests.unit.gateway.served import ServedWorker, served

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("brisk")]

PROGRAM = """
import threading
from datetime import timedelta
from penstock import Fixed, Outbox, Record

outbox = Outbox({url!r})
SOON = Fixed(timedelta(milliseconds=10), max_retries=100_000)


@outbox.handler("t", group="good", id="good")
def handle(record: Record) -> None:
    with open("seen", "a") as seen:
        print(record.value, file=seen)


@outbox.handler("hang", group="hangs", id="hangs", timeout=0.05, retry=SOON)
def hang(record: Record) -> None:
    threading.Event().wait()
"""


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CLUSTER_LEASE_TTL", "1")
    monkeypatch.setenv("PENSTOCK_PROCESSING_SHUTDOWN_TIMEOUT", "0.5")


@contextmanager
def ready(folder: Path, url: str) -> Iterator[ServedWorker]:
    """Give a worker of its own process that is ready."""
    (folder / "shop.py").write_text(PROGRAM.format(url=url))
    with served(folder) as worker:
        wait_until(lambda: worker.reasons() == [], "it is ready")
        yield worker


def publish(url: str, type: str, *values: int) -> None:
    with closing(Outbox(url)) as outbox, outbox.transaction() as conn:
        outbox.publish_many(conn, [{"type": type, "value": each, "key": f"k-{each}"} for each in values])


def series(worker: ServedWorker, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one series by the values of its labels."""
    return {
        tuple(each.labels.values()): each.value
        for family in text_string_to_metric_families(worker.get("/metrics").text)
        for each in family.samples
        if each.name == name
    }


def test_a_server_that_hangs_is_told_in_time_and_the_process_stays_alive(tmp_path: Path, postgres_url: str) -> None:
    with closing(Outbox(postgres_url)) as outbox:
        outbox.migrate()
    with FaultProxy(postgres_url) as proxy, ready(tmp_path, proxy.url) as worker:
        proxy.stall()
        wait_until(lambda: "store_silent" in worker.reasons(), "the silence is told")
        wait_until(lambda: worker.reasons() == ["store_silent", "lease_lapsed"], "the lease runs out, too")
        assert worker.get("/healthz").status == 200
        (lease,) = series(worker, "penstock_lease_seconds").values()
        assert lease <= 0
        proxy.flow()
        wait_until(lambda: worker.reasons() == [], "it is ready again")
        publish(postgres_url, "t", 1)
        wait_until(lambda: (tmp_path / "seen").exists(), "it works again")
        worker.end()


def test_a_handler_that_hangs_makes_its_worker_not_ready_and_the_rest_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with closing(Outbox(url)) as outbox:
        outbox.migrate()
    with ready(tmp_path, url) as worker:
        publish(url, "hang", *range(60))
        wait_until(lambda: worker.reasons() == ["group_given_up"], "the group is given up")
        publish(url, "t", 1)
        wait_until(lambda: (tmp_path / "seen").exists(), "the other group goes on")
        assert worker.get("/healthz").status == 200
        given_up = series(worker, "penstock_groups_given_up")
        assert {group: value for (_, group), value in given_up.items()} == {"good": 0, "hangs": 1}


def test_a_process_that_was_stopped_beyond_its_lease_is_not_ready_until_it_has_renewed_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with closing(Outbox(url)) as outbox:
        outbox.migrate()
    with ready(tmp_path, url) as worker, closing(sqlite3.connect(tmp_path / "shop.db", timeout=30)) as conn:
        conn.isolation_level = None
        conn.execute("BEGIN IMMEDIATE")  # so that it is stopped outside of a transaction, and wakes to no lease
        worker.process.send_signal(signal.SIGSTOP)
        with pytest.raises(TimeoutError):  # longer than its lease
            worker.get("/readyz", seconds=1.5)
        worker.process.send_signal(signal.SIGCONT)
        assert worker.reasons() == ["lease_lapsed"]
        conn.execute("ROLLBACK")
        wait_until(lambda: worker.reasons() == [], "it is renewed")
        assert series(worker, "penstock_lease_lapses_total")[()] >= 1
        worker.end()


def test_rest_is_served_beside_a_worker_only_if_it_is_asked_for(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with closing(Outbox(url)) as outbox:
        outbox.migrate()
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=url))
    with served(tmp_path) as worker:
        assert worker.get("/v1/topics").status == 404
    with served(tmp_path, "--api") as worker:
        assert worker.get("/v1/topics").status == 200
        assert worker.end() is not None
