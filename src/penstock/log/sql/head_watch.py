"""Watches all heads of a database for all waiting readers in this process.

Writes of this process are reported at once. For writes of other processes a thread waits for the bell and
polls the heads, less often while idle.
"""

import logging
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.database.bell_listener import LOGGED, BellConnection, notify_others
from penstock.errors import Error
from penstock.redaction import words

from .heads import Raised
from .log import SqlLog

logger = logging.getLogger("penstock.heads")
HeadMoved = Callable[[int, int], None]


class HeadWatch:
    """Watches between the first `watch` and `stop`. Safe from any thread."""

    def __init__(self, log: SqlLog) -> None:
        self._log, self._polling = log, PollingSettings.load()
        self._watchers: list[HeadMoved] = []
        self._ends: dict[tuple[int, int], int] = {}
        self._lock, self._stopping = Lock(), Event()
        self._bell = BellConnection(log.database, self._polling)
        self._thread: Thread | None = None
        self._notify_due = Event()
        self._notifier: Thread | None = None

    def watch(self, moved: HeadMoved) -> Callable[[], None]:
        """Call `moved` for each partition whose end rises; return a function that stops it."""
        with self._lock:
            self._watchers.append(moved)
            if self._thread is None:
                self._bell.start()
                self._thread = Thread(target=self._run, name="penstock-heads", daemon=True)
                self._thread.start()

        def stop() -> None:
            with self._lock:
                if moved in self._watchers:
                    self._watchers.remove(moved)

        return stop

    def raised(self, heads: Sequence[Raised]) -> None:
        """Report heads raised by this process; another thread notifies the workers elsewhere."""
        if not heads:
            return
        for each in heads:
            self._report(each.topic_id, each.partition, each.base + each.added)
        if self._log.database.dialect.notifies:
            with self._lock:
                if self._notifier is None:
                    self._notifier = Thread(target=self._notify, name="penstock-heads-bell", daemon=True)
                    self._notifier.start()
            self._notify_due.set()

    def look_soon(self, places: Sequence[tuple[int, int]] = ()) -> None:
        """Read the heads at once, after a change that is only partly known here; `places` have risen."""
        with self._lock:
            watchers = tuple(self._watchers)
        for topic_id, partition in places:  # otherwise a reader woken by a commit would still see the old end
            for moved in watchers:
                moved(topic_id, partition)
        self._bell.wake()
        if self._notifier is not None or self._log.database.dialect.notifies:
            notify_others(self._log.database, LOGGED)

    def stop(self) -> None:
        """Stop the threads."""
        self._stopping.set()
        self._bell.stop()
        self._notify_due.set()
        for thread in (self._thread, self._notifier):
            if thread is not None:
                thread.join()

    def _notify(self) -> None:
        while not self._stopping.is_set():
            self._notify_due.wait()
            self._notify_due.clear()
            notify_others(self._log.database, LOGGED)

    def _run(self) -> None:
        backoff = Backoff("heads", self._polling, lambda: self._bell.hears)
        while not self._stopping.is_set():
            try:
                found = self._look()
                backoff.is_well()
                pause = backoff.active() if found else backoff.idle()
            except Exception as exc:
                if not isinstance(exc, Error):
                    logger.debug("cannot read the heads: %s", words(exc))
                pause = backoff.trouble(exc)
            self._bell.wait(pause)
        self._bell.close()

    def _look(self) -> bool:
        rows = self._log.database.look(lambda tx: tx.rows("log", "heads_every"))
        found = False
        for topic_id, partition, _, end in rows:
            if self._ends.get((topic_id, partition), 0) < end:
                found = True
                self._report(topic_id, partition, end)
        return found

    def _report(self, topic_id: int, partition: int, end: int) -> None:
        with self._lock:
            known = self._ends.get((topic_id, partition), 0)
            self._ends[topic_id, partition] = max(known, end)
            watchers = tuple(self._watchers)
        if end > known:
            for moved in watchers:
                moved(topic_id, partition)
