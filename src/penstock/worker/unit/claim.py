"""Who ends a unit of work."""

from threading import Lock

from ..task import HandlerTask


class Claim:
    """Decides, once, who ends a unit: itself, by committing, or whoever has waited long enough for it.

    `current` is what the unit handles now, and since when. Whoever gives up waiting claims the unit for that
    very call, so a handler and its fallback are decided on apart. From any thread.
    """

    def __init__(self) -> None:
        self.current: tuple[HandlerTask, float] | None = None
        self._is_taken, self._lock = False, Lock()

    @property
    def is_taken(self) -> bool:
        """Whether it is decided."""
        return self._is_taken

    def take(self, seen: tuple[HandlerTask, float] | None = None) -> bool:
        """Claim the unit; return whether that is granted. `seen`: only if this is still what is handled."""
        with self._lock:
            if self._is_taken or (seen is not None and seen is not self.current):
                return False
            self._is_taken = True
            return True

    def reopen(self) -> None:
        """Go on after all: from here on somebody else may end it again, when that takes too long."""
        with self._lock:
            self.current, self._is_taken = None, False
