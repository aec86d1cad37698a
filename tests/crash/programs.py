"""The programs that crash tests start: `python -m tests.crash.programs NAME ARGUMENTS-AS-JSON`.

Each says what it does in lines of JSON on its standard output.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Collection
from contextlib import closing
from datetime import timedelta
from threading import Lock
from typing import Any

from penstock import Fixed, Record, points
from penstock.clock import SYSTEM
from penstock.delivery.retention import Retention
from penstock.delivery.retention_rule import RetentionSettings
from penstock.log.sql.heads import Fence
from penstock.log.store import store_of
from penstock.membership.member import ClusterSettings
from penstock.model.schedule import CatchUpWord
from penstock.operate import erase as erasing
from penstock.outbox.sequencer import Pass, Sequencer
from penstock.worker.worker import Worker, WorkerPlan
from tests.crash.clocks import ShiftedClock, SleepwalkingClock
from tests.crash.diary import WORKED, Delivered
from tests.crash.store import Store, a_service, running
from tests.crash.waiting import wait_until

PR_SET_PDEATHSIG = 1  # linux/prctl.h
TRADED = ["eight", "three"]
MOST_CYCLES = 20
EFFECT = "INSERT INTO effect VALUES (:topic, :place, :at, :name)"


def say(**words: Any) -> None:
    """Say something to the test."""
    print(json.dumps(words), flush=True)


def await_word() -> None:
    """Say that all is ready, and wait for the test to say something."""
    say(ready=True)
    sys.stdin.readline()


def count_up(url: str, topic: str, key: str, until: int, shift_seconds: int) -> None:
    """Publish versions of one key, each after the last commit, until so many are there; at least one."""
    store = Store(url, clock=ShiftedClock(timedelta(seconds=shift_seconds)))
    with closing(store), closing(store.connect()) as conn:
        await_word()
        count = 0
        while True:
            store.begin(conn)
            lock = "UPDATE counter SET version = version WHERE topic = ? AND name = ? RETURNING version"
            if conn.execute(store.sql(lock), (topic, key)).fetchall()[0][0] >= until and count:
                break
            store.publish_next(conn, topic, key)
            conn.commit()
            count += 1
        say(published=count)


def sequence(url: str, lease_seconds: float, stop_at: str | None, sleepwalking: bool) -> None:
    """Run a sequencing service until told to stop; say each pass that moved something or was fenced.

    With `stop_at` the process stops itself, as SIGSTOP does, when it first comes to that point.
    """
    passes = Sequencer.sequence

    def said(self: Sequencer, fence: Fence, rung: Collection[int] | None = None, *, expects: bool = False) -> Pass:
        done = passes(self, fence, rung, expects=expects)
        if done.moved or done.fenced:
            say(moved=done.moved, fenced=done.fenced)
        return done

    Sequencer.sequence = said  # type: ignore[method-assign]
    if stop_at is not None:
        points.arm(stop_at, points.pause)
    lease = timedelta(seconds=lease_seconds)
    clock = SleepwalkingClock() if sleepwalking else SYSTEM
    with (
        closing(Store(url)) as store,
        closing(store.database(lease=lease)) as database,
        running(a_service(database, lease=lease, clock=clock)),
    ):
        await_word()


def trade(url: str, seed: int, kill_at: str, visit: int, serving: bool, diary: str) -> None:
    """Publish, sequence and deliver, again and again, until killed at the n-th visit of a point.

    Sequencing is done by a service or by `drain`; the handler writes each delivery into the diary, a file.
    """
    rng = random.Random(seed)
    with closing(Store(url)) as store, open(diary, "ab", buffering=0) as pages:

        def remember(record: Record) -> None:
            pages.write(f"{record.topic} {record.partition} {record.offset}\n".encode())

        for topic in TRADED:
            store.outbox.handler(group="reader", topic=topic, id=topic)(remember)
        points.arm(kill_at, points.kill, visit=visit)
        for _ in range(MOST_CYCLES):
            if serving:
                with closing(store.database()) as database, running(a_service(database, batch=5)):
                    _trade_a_little(store, rng)
                    wait_until(lambda: store.waiting() == 0, "the service has moved everything")
            else:
                _trade_a_little(store, rng)
            store.outbox.drain()
        say(visited=False)


def _trade_a_little(store: Store, rng: random.Random) -> None:
    with closing(store.connect()) as conn:
        for _ in range(5):
            store.begin(conn)
            for _ in range(rng.randint(1, 3)):
                store.publish_next(conn, rng.choice(TRADED), f"k-{rng.randrange(5)}")
            if rng.random() < 0.2:
                conn.rollback()
            else:
                conn.commit()


def share(url: str, seconds: float, seed: int) -> None:
    """Publish into a SQLite file that others write too, a service beside it; each transaction writes first.

    The connection has the thirty seconds of patience that the docs advise. Between transactions the program
    does something else for a moment: SQLite does not let writers queue, and two that never pause were seen to
    keep each other waiting for nine seconds.
    """
    rng, committed = random.Random(seed), 0
    with (
        closing(Store(url)) as store,
        closing(store.database()) as database,
        closing(store.connect()) as conn,
        running(a_service(database)),
    ):
        await_word()
        end = time.monotonic() + seconds
        while time.monotonic() < end or not committed:
            conn.execute(rng.choice(["BEGIN IMMEDIATE", "BEGIN"]))
            for _ in range(rng.randint(1, 3)):
                store.publish_next(conn, rng.choice(TRADED), f"k-{rng.randrange(48)}")
            if rng.random() < 0.15:
                conn.rollback()
            else:
                conn.commit()
                committed += 1
            time.sleep(rng.uniform(0, 0.002))
        say(committed=committed)


def work(url: str, diary: str, lease_seconds: float, handles: list[str], work_ms: float) -> None:
    """Run a worker until told to stop; each delivery is written into the diary, a file, as it begins.

    A record whose value says "kill" takes the process with it.
    """
    settings = cluster_of(lease := timedelta(seconds=lease_seconds))
    rng = random.Random(os.getpid())
    with closing(Store(url)) as store, open(diary, "ab", buffering=0) as pages:

        def remember(record: Record) -> None:
            line = Delivered(
                time.monotonic_ns(),
                os.getpid(),
                record.partition or 0,
                record.offset or 0,
                record.fence or 0,
                record.redelivered,
                record.key or "",
                str(record.type),
            )
            pages.write(line.text().encode())
            if record.value == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(rng.uniform(0, work_ms / 500))

        for match in handles:
            store.outbox.handler(match, group="readers", topic=WORKED, id=match)(remember)
        with closing(store.database(lease=lease)) as database:
            handlers = store.outbox._handlers
            worker = Worker(store_of(database), handlers, SYSTEM, WorkerPlan(cluster=settings, dedicated=True))
            worker.start()
            await_word()
            worker.stop(grace_seconds=10)
            say(stopped=True, lapses=worker._member.lapses)


def serve_types(url: str, types: list[str], kill_at: str | None = None, visit: int = 1) -> None:
    """Run a worker with a handler for each of some types until told to stop; say what they are given.

    Says what is warned of in the sharing of groups, too. With `kill_at` it kills itself at that point.
    """
    saying = Lock()

    def tell(**words: Any) -> None:
        with saying:
            say(**words)

    def handle(record: Record) -> None:
        marks = {"late": record.late, "redelivered": record.redelivered}
        tell(type=record.type, offset=[record.partition, record.offset], key=record.key, **marks)

    def warn(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            tell(warning=record.getMessage())
        return False

    for name in ("penstock.membership", "penstock.delivery"):
        logging.getLogger(name).addFilter(warn)
    settings = cluster_of(lease := timedelta(seconds=60))
    with closing(Store(url)) as store, closing(store.database(lease=lease)) as database:
        for type in types:
            store.outbox.handler(type, group="app", topic="eight", id=type)(handle)
        if kill_at is not None:
            points.arm(kill_at, points.kill, visit=visit)
        worker = Worker(store_of(database), store.outbox._handlers, SYSTEM, WorkerPlan(cluster=settings))
        worker.start()
        await_word()
        worker.stop(grace_seconds=10)


def cluster_of(lease: timedelta) -> ClusterSettings:
    """Return settings by which members find one another quickly, also those with a long lease."""
    short = min(lease, timedelta(seconds=2))
    return ClusterSettings.load(
        lease_ttl=lease, heartbeat_interval=short * 0.15, gather_joins=short / 10, rebalance_interval=short
    )


def tick(url: str, every: float, catch_up: CatchUpWord, kill_at: str | None, visit: int) -> None:
    """Run a worker with a schedule until told to stop; with `kill_at`, until it comes to that point."""
    if kill_at is not None:
        points.arm(kill_at, points.kill, visit=visit)
    with closing(Store(url)) as store:
        store.outbox.every(every, type="tick.due", catch_up=catch_up)(lambda at: {"at": at})
        cluster = cluster_of(timedelta(seconds=2))
        worker = Worker(
            store.outbox.store,
            store.outbox.handlers,
            SYSTEM,
            WorkerPlan(cluster=cluster, dedicated=True),
            periodic=store.outbox._tick_source(),
        )
        worker.start()
        await_word()
        worker.stop(grace_seconds=10)


def keep_books(url: str, lease_seconds: float, kill_at: str | None, visit: int, stop_at: str | None) -> None:
    """Run a worker whose handler keeps books in its own transaction, until killed or told to stop.

    With `stop_at` the process stops itself, as SIGSTOP does, when it first comes to that point.
    """
    settings = cluster_of(lease := timedelta(seconds=lease_seconds))
    if kill_at is not None:
        points.arm(kill_at, points.kill, visit=visit)
    if stop_at is not None:
        points.arm(stop_at, points.pause)
    with closing(Store(url)) as store:
        bookkeeper(store)
        with closing(store.database(lease=lease)) as database:
            worker = Worker(store_of(database), store.outbox._handlers, SYSTEM, WorkerPlan(cluster=settings))
            worker.start()
            await_word()
            worker.stop(grace_seconds=10)
            say(stopped=True)


def bookkeeper(store: Store) -> None:
    """Register a handler that writes a row for each record and publishes another, in one transaction.

    Every other record goes through a session of SQLAlchemy's. Some records fail the first time, after they
    have written: that must leave nothing behind.
    """
    from sqlalchemy import text  # half of the time that a program takes to start, so only here

    from penstock.sqlalchemy import session_on

    failed: set[str] = set()
    effect = text(EFFECT)
    retry = Fixed(delay=timedelta(milliseconds=10), max_retries=3)
    write = store.sql("INSERT INTO effect VALUES (?, ?, ?, ?)")

    @store.outbox.handler("counted", group="books", topic=TRADED[0], transaction=True, retry=retry)
    def keep(record: Record) -> None:
        assert record.offset is not None
        if record.offset % 2:
            record.tx.execute(write, (record.topic, record.partition, record.offset, record.key))
            store.outbox.publish(record.tx, "kept", {"of": record.id}, key=record.key, topic="wide")
        else:
            with session_on(record.tx) as session:
                place = {"place": record.partition, "at": record.offset}
                session.execute(effect, {"topic": record.topic, "name": record.key} | place)
                store.outbox.publish(session, "kept", {"of": record.id}, key=record.key, topic="wide")
        if record.value["version"] % 7 == 0 and record.id not in failed:
            failed.add(record.id)
            raise ValueError("the first time fails")


def trim(url: str, kill_at: str, visit: int) -> None:
    """Delete what need not be kept, a few records at a time, until killed at the n-th visit of a point."""
    points.arm(kill_at, points.kill, visit=visit)
    settings = RetentionSettings.load(batch_size=4, batches_per_pass=2)
    with closing(Store(url)) as store, closing(store.database()) as database:
        retention = Retention(store_of(database), settings, SYSTEM)
        while retention.run().full:
            pass
        say(visited=False)


def erase_owner(url: str, owner: str, batch: int, kill_at: str, visit: int) -> None:
    """Erase an owner until killed at the n-th visit of a point."""
    points.arm(kill_at, points.kill, visit=visit)
    erasing.BATCH = batch
    with closing(Store(url)) as store, closing(store.database()) as database:
        erasing.erase(database, owner)
        say(visited=False)


PROGRAMS: dict[str, Callable[..., None]] = {
    "tick": tick,
    "keep_books": keep_books,
    "count_up": count_up,
    "sequence": sequence,
    "trade": trade,
    "share": share,
    "work": work,
    "serve_types": serve_types,
    "trim": trim,
    "erase_owner": erase_owner,
}


def die_with_the_test() -> None:
    """Let the kernel end this process with the test's, however that ends, and even if this one is stopped."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    die_with_the_test()
    PROGRAMS[sys.argv[1]](**json.loads(sys.argv[2]))
