"""The claim on ending a unit of work."""

from threading import Lock

from ..task import HandlerTask


class Claim:
    """Decides, once, who ends a unit: the unit itself, by committing, or a thread that waited long enough.

    `current` is the task that the unit handles now, and since when. A thread that gives up waiting claims the
    unit for that very call, so a handler and its fallback are decided separately. From any thread.
    """

    def __init__(self) -> None:
        self.current: tuple[HandlerTask, float] | None = None
        self._is_taken, self._lock = False, Lock()

    @property
    def is_taken(self) -> bool:
        """Whether a claim was granted."""
        return self._is_taken

    def take(self, seen: tuple[HandlerTask, float] | None = None) -> bool:
        """Claim the unit; return whether that is granted. `seen`: only if this is still the current call."""
        with self._lock:
            if self._is_taken or (seen is not None and seen is not self.current):
                return False
            self._is_taken = True
            return True

    def reopen(self) -> None:
        """Go on after all: from here on another thread may claim it again, when it takes too long."""
        with self._lock:
            self.current, self._is_taken = None, False
