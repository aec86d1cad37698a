"""Records that the sequencer of this process has just moved, on their way to the groups that it serves."""

from collections import deque
from collections.abc import Sequence
from threading import Lock

from penstock.log.entry import Entry

HAND_OVER_BYTES = 64_000  # moved at once: more is not handed over
_WAITING_BYTES = 1_000_000  # not fetched yet: more is dropped, and read from the log
_OBJECT_BYTES = 140  # memory of an entry beside its counted size

TopicEntry = tuple[int, Entry]  # a record and the id of its topic


class HandedOver:
    """A queue with a bound in bytes: records beyond it are dropped, since the log has them. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[TopicEntry] = deque()
        self._bytes, self._lock = 0, Lock()

    def put(self, entries: Sequence[TopicEntry]) -> None:
        """Hand over records whose move is known to have committed."""
        size = sum(entry.size + _OBJECT_BYTES for _, entry in entries)
        with self._lock:
            if self._bytes + size <= _WAITING_BYTES:
                self._waiting.extend(entries)
                self._bytes += size

    def fetch(self) -> list[TopicEntry]:
        """Return the waiting records, and forget them."""
        if not self._waiting:
            return []
        with self._lock:
            found = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
        return found
