"""Running a worker: started, woken, stopped, in threads and in event loops."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from penstock import Fixed, Outbox, Record
from penstock.errors import SchemaMissing, SchemaUnreleased
from penstock.operate import groups
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")


@pytest.fixture
def outbox(engine: StoreEngine) -> Outbox:
    """Give an outbox on the system's clock."""
    from penstock.clock import SYSTEM

    return engine.another(SYSTEM)


def publish(outbox: Outbox, *values: int, key: str = "k") -> None:
    with outbox.transaction() as conn:
        outbox.publish_many(conn, [{"type": "t", "value": value, "key": key} for value in values])


def test_a_worker_delivers_what_is_there_and_what_comes(outbox: Outbox) -> None:
    seen = Seen()
    subscribe(outbox, "g", seen)
    publish(outbox, 1, 2)
    with working(outbox):
        wait_until(lambda: len(seen) == 2, "what was there is delivered")
        publish(outbox, 3)
        wait_until(lambda: len(seen) == 3, "what comes is delivered")
    assert seen.values() == [1, 2, 3]
    assert not any(record.redelivered for record in seen)


def test_nothing_stays_owned_after_a_stop(outbox: Outbox, engine: StoreEngine) -> None:
    subscribe(outbox, "g", Seen())
    publish(outbox, 1)
    with working(outbox):
        publish(outbox, 2)
    with engine.connect() as conn:
        for table in ("member", "slot WHERE owner IS NOT NULL", "cursor WHERE owner IS NOT NULL"):
            assert conn.execute(f"SELECT count(*) FROM penstock_{table}").fetchone()[0] == 0


def test_a_stop_waits_for_handlers_and_settles_what_they_did(outbox: Outbox, engine: StoreEngine) -> None:
    begun, go, done = threading.Event(), threading.Event(), []

    def slow(record: Record) -> None:
        begun.set()
        go.wait(60)
        done.append(record.value)

    subscribe(outbox, "g", slow)
    publish(outbox, 1, 2)
    with working(outbox) as until:
        assert begun.wait(60)
        until.set()
        go.set()
    assert done in ([1], [1, 2])  # the second may have begun before the stop was heard
    other, seen = engine.another(), Seen()
    subscribe(other, "g", seen)
    other.drain()
    assert done + seen.values() == [1, 2]


def test_a_failing_handler_parks_its_key_in_a_worker_too(outbox: Outbox) -> None:
    seen = Seen(1)
    from penstock import Fixed

    subscribe(outbox, "g", seen, retry=Fixed(timedelta(milliseconds=50), max_retries=100_000))
    publish(outbox, 1, 2, key="a")
    publish(outbox, 3, key="b")
    with working(outbox):
        wait_until(lambda: 3 in seen.values() and seen.values().count(1) > 1, "the other key is delivered")
        assert 2 not in seen.values()
        seen.failing.clear()
        wait_until(lambda: 2 in seen.values(), "the key goes on")


def test_async_handlers_run_in_the_loop_of_the_block(outbox: Outbox) -> None:
    loops = []

    async def handler(record: Record) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    async def main() -> None:
        async with outbox.running():
            await asyncio.to_thread(publish, outbox, 1, 2)
            while len(loops) < 2:
                await asyncio.sleep(0.01)
        assert set(loops) == {asyncio.get_running_loop()}

    subscribe(outbox, "g", handler)
    asyncio.run(asyncio.wait_for(main(), 60))


def test_cancelling_all_tasks_of_the_block_loses_no_call(outbox: Outbox) -> None:
    keys = {f"k-{n}" for n in range(40)}
    done = set[str | None]()
    main: asyncio.Task[None] | None = None

    @outbox.handler(group="g", retry=Fixed(delay=timedelta(milliseconds=10), max_retries=100))
    async def handler(record: Record) -> None:
        if len(done) % 10 == 3:
            for task in asyncio.all_tasks() - {main}:
                task.cancel()
        done.add(record.key)
        await asyncio.sleep(0)

    async def deliver() -> None:
        async with outbox.running():
            with outbox.transaction() as conn:
                outbox.publish_many(conn, [{"type": "t", "value": 1, "key": key} for key in sorted(keys)])
            while done != keys:
                await asyncio.sleep(0.01)

    async def within_a_minute() -> None:
        nonlocal main
        main = asyncio.current_task()
        async with asyncio.timeout(60):
            await deliver()

    asyncio.run(within_a_minute())


def test_a_cancelled_arun_leaves_in_order(outbox: Outbox, engine: StoreEngine) -> None:
    seen = Seen()
    subscribe(outbox, "g", seen)
    publish(outbox, 1)

    async def main() -> None:
        task = asyncio.create_task(outbox.arun())
        while not seen:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), 60))
    with engine.connect() as conn:
        assert conn.execute("SELECT count(*) FROM penstock_member").fetchone()[0] == 0


def test_signal_handlers_are_put_back(outbox: Outbox) -> None:
    before = signal.getsignal(signal.SIGTERM)
    done = threading.Event()
    done.set()
    outbox.run(until=done)
    assert signal.getsignal(signal.SIGTERM) is before


def test_no_logger_but_our_own_is_touched(outbox: Outbox) -> None:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    done = threading.Event()
    done.set()
    outbox.run(until=done)
    assert (list(root.handlers), root.level) == before


def test_a_worker_needs_the_tables_of_its_version(engine: StoreEngine) -> None:
    bare = Outbox("memory://")
    with pytest.raises(SchemaMissing, match=r"outbox\.migrate\(\)"):
        bare.run()
    bare.close()
    with engine.connect() as conn:
        read = "SELECT value FROM penstock_meta WHERE name = 'schema_version'"
        version = conn.execute(read).fetchone()[0]
        conn.execute("UPDATE penstock_meta SET value = '2' WHERE name = 'schema_version'")
        conn.commit()
        with pytest.raises(SchemaUnreleased, match="have schema version 2, of an unreleased version"):
            engine.outbox.run()
        conn.execute(f"UPDATE penstock_meta SET value = '{version}' WHERE name = 'schema_version'")
        conn.commit()


def test_a_worker_of_another_process_is_not_stopped(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fork: the threads are the parent's, and waiting for them here would never end."""
    seen = Seen()
    subscribe(outbox, "g", seen)
    with working(outbox):
        publish(outbox, 1)
        wait_until(lambda: len(seen) == 1, "the worker is at work")
        with monkeypatch.context() as patch:
            patch.setattr("penstock.worker.worker.os.getpid", lambda: -1)
            for worker in outbox._workers:
                worker.stop()
        publish(outbox, 2)
        wait_until(lambda: len(seen) == 2, "it goes on")


def test_two_workers_share_and_one_goes_on_alone(outbox: Outbox, engine: StoreEngine) -> None:
    from penstock.clock import SYSTEM

    first, second, other = Seen(), Seen(), engine.another(SYSTEM)
    subscribe(outbox, "g", first)
    subscribe(other, "g", second)
    publish(outbox, 0)
    with working(outbox):
        wait_until(lambda: len(first) == 1, "the first is at work")
        with working(other):
            for value in range(1, 20):
                publish(outbox, value, key=f"k-{value}")
            wait_until(lambda: len(first) + len(second) == 20, "all are delivered")
        publish(outbox, 20)
        wait_until(lambda: 20 in first.values(), "the first goes on alone")
    assert sorted(first.values() + second.values()) == list(range(21))


def test_what_a_stopping_worker_gives_back_is_served_while_its_last_call_runs(
    outbox: Outbox, engine: StoreEngine
) -> None:
    from penstock.clock import SYSTEM

    begun, go_on, second, other = threading.Event(), threading.Event(), Seen(), engine.another(SYSTEM)

    def last_call(record: Record) -> None:
        begun.set()
        go_on.wait()

    def states() -> list[str]:
        with engine.connect() as conn:
            return sorted(row[0] for row in conn.execute("SELECT state FROM penstock_member").fetchall())

    subscribe(outbox, "g", last_call)
    subscribe(other, "g", second)
    publish(outbox, 0, key="last")
    with working(outbox) as until:
        try:
            assert begun.wait(60)
            until.set()
            wait_until(lambda: states() == ["stopping"], "it says that it stops")
            with working(other):
                for value in range(1, 20):
                    publish(outbox, value, key=f"k-{value}")
                wait_until(lambda: len(second) == 19, "the other serves the rest")
                assert states() == ["running", "stopping"]
                shown = groups.show(outbox._store, "g")
                assert (len(shown.member_ids), len(shown.stopping_ids)) == (2, 1)
        finally:
            go_on.set()
    assert states() == []


def test_a_transaction_that_rolls_back_rings_in_vain(outbox: Outbox, engine: StoreEngine) -> None:
    seen = Seen()
    subscribe(outbox, "g", seen)
    with working(outbox):
        with engine.connect() as conn:
            outbox.publish(conn, "t", 1, key="k")
            conn.rollback()
        publish_values(engine, 2)
        wait_until(lambda: seen, "the committed one is delivered")
    assert seen.values() == [2]


_HANGS = """
import os, signal, sys
from threading import Event, Thread
from penstock.worker import runnable

class Hangs:
    def start(self): Thread(target=self.signals, daemon=True).start()
    def signals(self):
        os.kill(os.getpid(), signal.SIGTERM)
        self.stops.wait()
        while True:  # Python may miss one that comes as its main thread begins to wait
            os.kill(os.getpid(), signal.SIGTERM)
            Event().wait(0.05)
    stops = Event()
    def stop(self):
        self.stops.set()
        Event().wait()
    def cut_short(self): pass
    def failure(self): return None

runnable.FORCED_SECONDS = 0.2
runnable.run(Hangs())
"""


def test_a_second_signal_ends_the_process_though_the_store_hangs() -> None:
    ended = subprocess.run([sys.executable, "-c", _HANGS], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "the store does not answer: leaving without giving the work back" in ended.stderr
