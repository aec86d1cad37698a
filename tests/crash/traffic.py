"""Traffic: many writers with overlapping transactions, contending sequencers, and direct appends.

Everything here may go wrong in the ways of real systems: transactions wait inside, roll back, take their
transaction id early or late; slots change owners in the middle of moves; a second sequencer works with the
very same fence as the first.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from penstock.log.sql.heads import Fence
from penstock.model.record import Record
from tests.crash.store import Store, a_sequencer, a_service, running

WRITERS = 8
WRITERS_OF_A_FILE = 3  # it has one at a time and no queue: of many, some would wait for longer than they may
ROLLED_BACK = 0.15
FEWEST_APPENDED = 20
LONGEST_DELAY_SECONDS = 0.004


class Undone(Exception):
    """A writer changed its mind."""


class Traffic:
    """Writers of one run, and what they rolled back or appended straight to the log."""

    def __init__(self, store: Store, *, topics: Sequence[str], keys: Sequence[str], seed: int) -> None:
        self.store, self.seed = store, seed
        self.places = [(topic, key) for topic in topics for key in keys]
        self.topics = topics
        self.rolled_back: list[str] = []
        self.appended: list[str] = []
        self.moved_by_double = 0
        self.broken = Event()  # something beside the writers has failed

    def write(self, events: int) -> None:
        """Let all writers publish until they have committed so many events; raise what one of them raises.

        They go on until everything beside them has had its turn, however late the machine gives it one.
        """
        count = WRITERS if self.store.on_postgres else WRITERS_OF_A_FILE
        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(self._write, number, events // count) for number in range(count)]:
                done.result()

    def is_contended(self) -> bool:
        """Return whether there were rollbacks and direct appends, and two have sequenced by one fence.

        In a file there is one writer at a time, and the first sequencer may be the only one.
        """
        moved_twice = bool(self.moved_by_double) or not self.store.on_postgres
        return moved_twice and bool(self.rolled_back) and len(self.appended) >= FEWEST_APPENDED

    @contextmanager
    def contention(self) -> Iterator[None]:
        """Run two sequencing services, a double of one of them, direct appends and changes of owner."""
        beat = timedelta(milliseconds=50)
        with ExitStack() as stack:
            for _ in range(2):
                database = self.store.database()
                stack.callback(database.close)
                stack.enter_context(running(a_service(database, beat=beat, batch=200)))
            for work in (self._double, self._append, self._change_owners):
                stack.enter_context(_repeated(work, self.broken))
            yield

    def _write(self, number: int, events: int) -> None:
        rng = random.Random(f"{self.seed}/{number}")
        with closing(self.store.connect()) as conn:
            committed = 0
            while committed < events or not (self.is_contended() or self.broken.is_set()):
                # Sorted, so that two writers never wait for each other in a circle.
                places = sorted(rng.sample(self.places, rng.randint(1, 3)))
                ids: list[str] = []
                try:
                    self._transact(conn, rng, places, ids)
                    committed += len(ids)
                except Undone:
                    conn.rollback()
                    self.rolled_back += ids
                if not self.store.on_postgres:  # the others, who have no queue, get a chance
                    time.sleep(rng.uniform(0, LONGEST_DELAY_SECONDS))

    def _transact(self, conn: Any, rng: random.Random, places: list[tuple[str, str]], ids: list[str]) -> None:
        self.store.begin(conn)
        if self.store.on_postgres and rng.random() < 0.5:
            conn.execute("SELECT pg_current_xact_id()")
        _delay(rng)
        for topic, key in places:
            ids.append(self.store.publish_next(conn, topic, key))
            _delay(rng)
        if rng.random() < ROLLED_BACK:
            raise Undone
        conn.commit()

    def _double(self, stopping: Event) -> None:
        """Sequence with the same owner and the same epochs as somebody else, as after a lost answer."""
        with closing(self.store.database()) as database:
            sequencer = a_sequencer(database)
            while not stopping.wait(0.002):
                slots = self.store.rows("SELECT owner, slot, epoch FROM penstock_slot WHERE owner IS NOT NULL")
                if slots:
                    owner = slots[0][0]
                    epochs = {slot: epoch for who, slot, epoch in slots if who == owner}
                    self.moved_by_double += sequencer.sequence(Fence(owner, epochs)).moved

    def _append(self, stopping: Event) -> None:
        """Append straight to the log, to several partitions at once."""
        rng = random.Random(f"{self.seed}/append")
        while not stopping.wait(0.005):
            records = [Record(str(uuid4()), None, b"{}", "appended", (), 0) for _ in range(rng.randint(1, 12))]
            self.store.outbox.log.append(rng.choice(self.topics), records)
            self.appended += [record.id for record in records]

    def _change_owners(self, stopping: Event) -> None:
        """Give an eighth of the slots to a member at random, as assignment will do."""
        rng = random.Random(f"{self.seed}/owners")
        part = "slot % 8 = ?" if not self.store.on_postgres else "mod(slot, 8) = ?"
        lock = f"SELECT slot FROM penstock_slot WHERE {part} ORDER BY slot FOR UPDATE"
        while not stopping.wait(0.05):
            with self.store.connection() as conn:
                members = [row[0] for row in conn.execute("SELECT id FROM penstock_member").fetchall()]
                if members:
                    eighth = rng.randrange(8)
                    if self.store.on_postgres:
                        conn.execute(self.store.sql(lock), (eighth,))
                    change = f"UPDATE penstock_slot SET owner = ?, epoch = epoch + 1 WHERE {part}"
                    conn.execute(self.store.sql(change), (rng.choice(members), eighth))
                conn.commit()


def _delay(rng: random.Random) -> None:
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0, LONGEST_DELAY_SECONDS))


@contextmanager
def _repeated(work: Callable[[Event], None], broken: Event) -> Iterator[None]:
    """Run `work` in a thread until the block ends; what it raised is raised there."""
    stopping = Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work(stopping)
        except BaseException as exc:
            failures.append(exc)
            broken.set()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
    if failures:
        raise failures[0]
