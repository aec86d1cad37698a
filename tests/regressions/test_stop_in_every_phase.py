"""A worker is stopped in each phase of its life, twice, also when the database has gone before it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event, Thread

import pytest

from penstock import Outbox, Record
from penstock.errors import Error
from penstock.worker.worker import Worker
from tests.crash.account import breaches
from tests.crash.proxy import FaultProxy
from tests.crash.store import Store
from tests.crash.waiting import LONGEST_SECONDS, wait_until
from tests.regressions.ledger import named
from tests.regressions.workers import KEYS, PARTITIONS, STEADY, TOPIC, Diary, a_worker, owned, unsettled
from tests.services.slow import but_the_first

LEASE, BEAT = timedelta(seconds=1), timedelta(seconds=0.1)
GRACE, LONG_GRACE = 0.3, 60.0
SLACK = 60.0  # seconds that a busy machine may add; a stop that hangs takes longer


@dataclass
class Scene:
    """A worker with a handler that the test holds, and a database that the test can take away."""

    store: Store
    proxy: FaultProxy
    worker: Worker
    diary: Diary
    begun: Event = field(default_factory=Event)
    go: Event = field(default_factory=Event)

    def start(self) -> None:
        """Start the worker and wait until it owns everything."""
        self.worker.start()
        wait_until(lambda: owned(self.store, self.worker.id) == PARTITIONS, "it owns everything")


def not_started(scene: Scene) -> None:
    """Nothing was done yet."""


def just_started(scene: Scene) -> None:
    """The threads have begun; nothing is known of the cluster."""
    scene.worker.start()


def without_a_database(scene: Scene) -> None:
    """The database has been away from the beginning."""
    scene.proxy.go_down()
    scene.worker.start()
    wait_until(lambda: len(ours()) >= 3, "it waits for the database")


def idle(scene: Scene) -> None:
    """It owns everything and nothing comes."""
    scene.start()


def at_work(scene: Scene) -> None:
    """Handlers run, and end when the stop has begun."""
    scene.start()
    scene.store.publish_committed(TOPIC, KEYS)
    assert scene.begun.wait(LONGEST_SECONDS)

    def end() -> None:
        scene.worker._delivery._turn._stopping.wait(LONGEST_SECONDS)
        scene.go.set()

    Thread(target=end, daemon=True).start()


def stuck(scene: Scene) -> None:
    """Handlers run and do not end."""
    scene.start()
    scene.store.publish_committed(TOPIC, KEYS)
    assert scene.begun.wait(LONGEST_SECONDS)


PHASES = [not_started, just_started, without_a_database, idle, at_work, stuck]


@pytest.mark.parametrize("gone", but_the_first([False, True]), ids=["there", "gone"])
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_stop_returns_in_time_without_an_error_in_every_phase_twice(
    shop: Store, phase: Callable[[Scene], None], gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lease = LEASE if gone or phase is without_a_database else STEADY
    grace = LONG_GRACE if phase is at_work else GRACE
    with a_scene(shop, lease) as scene, caplog.at_level(logging.INFO, "penstock"):
        phase(scene)
        if gone:
            scene.proxy.go_down()
        with ThreadPoolExecutor(2) as pool:
            stops = [pool.submit(scene.worker.stop, grace) for _ in range(2)]  # two at once,
            for stop in stops:
                stop.result(GRACE + SLACK)
        scene.worker.stop(GRACE)  # and one more
        left = [each.name for each in ours() if not each.name.startswith("penstock-handler")]
        assert left == []
        assert surprises(caplog) == []
        if not gone and phase is not without_a_database:
            assert shop.rows("SELECT id FROM penstock_member") == []
            assert shop.rows("SELECT 1 FROM penstock_cursor WHERE owner IS NOT NULL") == []
            assert shop.rows("SELECT 1 FROM penstock_slot WHERE owner IS NOT NULL") == []
        if phase is at_work and not gone:
            assert unsettled(shop) == len(KEYS) - len(scene.diary), "what ended in the grace was not settled"
        scene.go.set()
        finish(shop, scene.diary)


def test_a_stop_with_the_database_gone_loses_nothing_that_was_handled_before(shop: Store) -> None:
    """What was handled and could not be settled comes again, said to be redelivered."""
    with a_scene(shop, LEASE) as scene:
        at_work(scene)
        scene.proxy.go_down()
        scene.worker.stop(LONG_GRACE)
        first = scene.diary.places()
        finish(shop, scene.diary)
        again = {(each.partition, each.offset) for each in scene.diary if each.who == "next"}
    assert first <= again
    assert all(each.redelivered for each in scene.diary if each.who == "next" and each[1:3] in first)


def test_a_run_that_is_told_to_end_before_it_begins_ends(shop: Store) -> None:
    until = Event()
    until.set()
    with closing(Outbox(named(shop.url, "run"))) as outbox:
        thread = Thread(target=outbox.run, kwargs={"until": until}, daemon=True)
        thread.start()
        thread.join(SLACK)
        assert not thread.is_alive()
    wait_until(lambda: ours() == [], "no thread is left")


@contextmanager
def a_scene(store: Store, lease: timedelta) -> Iterator[Scene]:
    """Give a worker behind a proxy, not started yet."""
    diary, begun, go = Diary(), Event(), Event()

    def hold(record: Record) -> None:
        begun.set()
        assert go.wait(LONGEST_SECONDS)

    with (
        FaultProxy(store.url) as proxy,
        a_worker(proxy.url, "first", diary.handler("first", hold), lease=lease, beat=BEAT) as worker,
    ):
        try:
            yield Scene(store, proxy, worker, diary, begun, go)
        finally:
            go.set()


def finish(store: Store, diary: Diary) -> None:
    """Let another worker do what is left; nothing may be lost."""
    store.publish_committed(TOPIC, KEYS[:1])
    with a_worker(store.url, "next", diary.handler("next"), beat=BEAT) as following:
        following.start()
        wait_until(lambda: unsettled(store) == 0, "another does the rest")
        following.stop()
    assert len(diary.places()) == len(store.rows("SELECT id FROM promised"))
    assert breaches(store) == []


def ours() -> list[Thread]:
    """Return the threads of workers that live; the bell is rung for who publishes, and is no part of them."""
    named = (each for each in threading.enumerate() if each.name.startswith("penstock-"))
    return [each for each in named if each.name != "penstock-bell"]


def surprises(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged that should not be: errors, and traces of what Penstock has no name for."""
    return [
        each.getMessage()
        for each in caplog.records
        if each.levelno >= logging.ERROR or (each.exc_info and not isinstance(each.exc_info[1], Error))
    ]
