"""A crew of worker processes that are killed and stopped, started again and resumed, and their store."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import psycopg

from penstock import Outbox
from tests.conformance.engines import connect
from tests.crash.children import ROOT, SOURCE
from tests.faults.arrivals import AHEAD, GROUPS, HELD, NOTES, TOPIC, URL, Arrival, Place, read

PARTITIONS, KEYS = 32, 200
LEASE_SECONDS = 2.0
LONG_LEASE_SECONDS = 600  # no heartbeat is missed in a test
_LEASES = ("lease_until_ms", "host_lease_until_ms")  # by the database's clock, and by the host's
SETTINGS = {
    "PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL": "0.3",
    "PENSTOCK_CLUSTER_GATHER_JOINS": "0.2",
    "PENSTOCK_CLUSTER_REBALANCE_INTERVAL": "1",
}
_COMMAND = [sys.executable, "-c", "from penstock.cli import main; main()", "worker", "tests.faults.shop:outbox"]
_ENDS = "SELECT partition, next_offset FROM penstock_head h JOIN penstock_topic t ON t.id = h.topic_id"
_CURSORS = (
    'SELECT g.name, c.partition, c."offset" FROM penstock_cursor c '
    "JOIN penstock_group g ON g.id = c.group_id JOIN penstock_topic t ON t.id = c.topic_id"
)
_ONE = f" WHERE t.name = '{TOPIC}'"


class FaultStore:
    """The store of a run: its topic, the table of effects, and what is known of it."""

    def __init__(self, url: str) -> None:
        self.url = url
        with closing(Outbox(url)) as outbox:
            outbox.migrate()
            outbox.log.create_topic(TOPIC, partitions=PARTITIONS)
        self.rows("CREATE TABLE effect (place integer NOT NULL, at integer NOT NULL)")

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        with closing(connect(self.url)) as conn:
            cursor = conn.execute(statement)
            found = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            conn.commit()
            return found

    def places(self) -> set[Place]:
        """Return where all records of the topic stand."""
        return {(number, offset) for number, end in self.rows(_ENDS + _ONE) for offset in range(end)}

    def owners(self) -> list[tuple[Any, ...]]:
        """Return who owns the partitions of each group, and in which epoch."""
        return sorted(self.rows("SELECT group_id, partition, owner, epoch FROM penstock_cursor"))

    def publish(self, *keys: str) -> int:
        """Add a record for each key in one transaction; return how many."""
        events = [{"type": "t", "value": 1, "key": key} for key in keys]
        with closing(Outbox(self.url)) as outbox, outbox.transaction() as conn:
            outbox.publish_many(conn, events, topic=TOPIC)
        return len(events)

    def end_lease(self, pid: int) -> None:
        """Let others believe that a process is gone, as if its lease had just run out."""
        ends = ", ".join(f"{each} = {each} - {1000 * LONG_LEASE_SECONDS}" for each in _LEASES)
        self.rows(f"UPDATE penstock_member SET {ends} WHERE pid = {pid}")

    def waiting(self) -> set[Place]:
        """Return where the records stand that cursors have passed and that are still to be handled."""
        return set(self.rows('SELECT partition, "offset" FROM penstock_lane_entry'))

    def left(self) -> list[tuple[Any, ...]]:
        """Return what still waits, by group and reason, and what was given up: for the word of a failure."""
        return [
            *self.rows("SELECT group_id, state, reason, count(*) FROM penstock_lane GROUP BY 1, 2, 3"),
            *self.rows("SELECT group_id, 'dead', reason, count(*) FROM penstock_dead GROUP BY 1, 2, 3"),
        ]

    def is_drained(self, published: int, waiting: int = 0) -> bool:
        """Return whether so many are in the log, and every group has handled all but so many."""
        ends = dict(self.rows(_ENDS + _ONE))
        cursors = {(group, number): offset for group, number, offset in self.rows(_CURSORS + _ONE)}
        return (
            sum(ends.values()) == published
            and all(cursors.get((group, each), 0) == end for group in GROUPS for each, end in ends.items())
            and len(self.waiting()) == waiting
        )


class Traffic:
    """Publishes in a thread of its own, a few events in each transaction; counts what committed."""

    def __init__(self, store: FaultStore) -> None:
        self._store, self._stopping = store, Event()
        self._special: deque[dict[str, Any]] = deque()
        self.published = 0
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def add(self, *events: dict[str, Any]) -> None:
        """Publish these among the others, in one transaction."""
        self._special.extend(events)

    def _run(self) -> None:
        rng = random.Random(1)
        with closing(Outbox(self._store.url)) as outbox:
            while not self._stopping.wait(0.1):
                count = rng.randint(1, 9)
                events = [{"type": "t", "value": 1, "key": f"k-{rng.randrange(KEYS)}"} for _ in range(count)]
                events += [self._special.popleft() for _ in range(len(self._special))]
                self._publish(outbox, events)

    def _publish(self, outbox: Outbox, events: list[dict[str, Any]]) -> None:
        while True:
            try:
                with outbox.transaction() as conn:
                    outbox.publish_many(conn, events, topic=TOPIC)
                break
            except (sqlite3.OperationalError, psycopg.OperationalError):
                pass  # one that is stopped holds the file; nothing was committed
        self.published += len(events)


class Crew:
    """Worker processes on a store. Those that die are started again by `tend`, whoever ended them."""

    def __init__(
        self,
        store: FaultStore,
        folder: Path,
        count: int,
        *,
        has_clock: bool = False,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """`has_clock`: the time of day of its machine is the test's to set."""
        self._env = (
            os.environ
            | SETTINGS
            | {
                "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}",
                URL: store.url,
                NOTES: str(folder / "notes"),
                HELD: str(folder),
                "PENSTOCK_CLUSTER_LEASE_TTL": str(lease_seconds),
            }
        )
        self._clock = folder / "ahead"
        if has_clock:
            self.set_clock(0)
            self._env[AHEAD] = str(self._clock)
        self._folder, self._stack = folder, ExitStack()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._resumes: dict[subprocess.Popen[bytes], float] = {}
        self._count = count
        self.deaths = 0

    def __enter__(self) -> Self:
        self._said = self._stack.enter_context((self._folder / "said").open("ab"))
        served = self.tend_until(lambda: {each.group for each in self.arrivals()} == set(GROUPS), 120)
        assert served, self.said()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._workers:
            each.kill()
            each.wait()
        self._stack.close()

    def arrivals(self) -> list[Arrival]:
        """Return what all of them have noted."""
        return read(self._folder / "notes")

    def said(self) -> str:
        """Return what all of them have logged."""
        return (self._folder / "said").read_text("utf-8", "replace")

    def tend(self) -> None:
        """Start those that are missing, resume those that were stopped for long enough."""
        for each in [each for each in self._workers if each.poll() is not None]:
            self._workers.remove(each)
            self._resumes.pop(each, None)
            self.deaths += 1
        while len(self._workers) < self._count:
            self._workers.append(subprocess.Popen(_COMMAND, cwd=self._folder, env=self._env, stderr=self._said))
        for each, moment in list(self._resumes.items()):
            if time.monotonic() >= moment:
                self._resume(each)

    def tend_for(self, seconds: float) -> None:
        """Tend for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tend()
            time.sleep(0.05)

    def tend_until(self, condition: Callable[[], object], seconds: float) -> bool:
        """Tend until something has come; return whether it did in time."""
        end = time.monotonic() + seconds
        while not (come := bool(condition())) and time.monotonic() < end:
            self.tend_for(0.1)
        return come

    def kill(self, rng: random.Random) -> None:
        """End one of them without a word."""
        rng.choice(self._workers).kill()

    def set_clock(self, seconds: int) -> None:
        """Set the time of day of all of them, so far from the right one."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._clock)  # whole: they read it all the time

    def stop_past_its_lease(self, rng: random.Random) -> None:
        """Stop one of them where it stands, until another has had the time to take over."""
        victim = rng.choice(self._workers)
        victim.send_signal(signal.SIGSTOP)
        self._resumes[victim] = time.monotonic() + LEASE_SECONDS + rng.uniform(0.5, 2.0)

    def hold(self, number: int, what: str) -> Path:
        """Hold some threads of one of them until the returned file is removed: `membership` or `handlers`."""
        path = self._folder / f"{self.pid(number)}.{what}"
        path.touch()
        return path

    def pid(self, number: int) -> int:
        """Return the process id of one of them."""
        return self._workers[number].pid

    def tend_until_resumed(self) -> None:
        """Tend until none of them is stopped."""
        while self._resumes:
            self.tend_for(0.1)

    def stop(self) -> list[int]:
        """Ask all to end, and return how they did."""
        for each in self._workers:
            each.terminate()
        ended = [each.wait(60) for each in self._workers]
        self._workers = []
        return ended

    def _resume(self, worker: subprocess.Popen[bytes]) -> None:
        del self._resumes[worker]
        worker.send_signal(signal.SIGCONT)
