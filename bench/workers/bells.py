"""The bare things that a worker's wake-up is held against: a notification, and a thread that is woken."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from threading import Event, Thread

import psycopg

from bench.errors import NotMeasured
from bench.stores import Store

CHANNEL = "bench"
_SPAWN = multiprocessing.get_context("spawn")
_LONGEST_SECONDS = 60


class Listener:
    """A process that listens to PostgreSQL; made by `listener`."""

    def __init__(self, words: Connection) -> None:
        self._words = words

    def heard_ns(self) -> int:
        """Wait for the next notification and return when it was heard. Raises NotMeasured."""
        if not self._words.poll(_LONGEST_SECONDS):
            raise NotMeasured("no notification came")
        return int(self._words.recv())


@contextmanager
def listener(url: str) -> Iterator[Listener]:
    """Start a process that listens, and end it with the block."""
    ours, its = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_listen, args=(url, its), daemon=True)
    process.start()
    its.close()
    try:
        ours.recv()
        yield Listener(ours)
    finally:
        ours.close()
        process.terminate()
        process.join()


def _listen(url: str, words: Connection) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"LISTEN {CHANNEL}")
        words.send("ready")
        for _ in conn.notifies():
            words.send(time.monotonic_ns())


class Sleeper:
    """A thread that, when woken, makes one query and notes when it has the answer; made by `sleeper`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._woken, self._awake, self._ending = Event(), Event(), False
        self._moment_ns = 0
        self.thread = Thread(target=self._run, daemon=True)

    def wake(self) -> int:
        """Wake it and return the moment its query was answered."""
        self._awake.clear()
        self._woken.set()
        if not self._awake.wait(_LONGEST_SECONDS):
            raise NotMeasured("the thread did not wake up")
        return self._moment_ns

    def end(self) -> None:
        """Let the thread end."""
        self._ending = True
        self._woken.set()
        self.thread.join()

    def _run(self) -> None:
        with closing(self._store.connect(autocommit=True)) as conn:
            while True:
                self._woken.wait()
                self._woken.clear()
                if self._ending:
                    return
                conn.execute("SELECT max(seq) FROM penstock_staged").fetchall()
                self._moment_ns = time.monotonic_ns()
                self._awake.set()


@contextmanager
def sleeper(store: Store) -> Iterator[Sleeper]:
    """Start the thread, and end it with the block."""
    made = Sleeper(store)
    made.thread.start()
    try:
        yield made
    finally:
        made.end()
