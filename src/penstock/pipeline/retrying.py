"""How long a pipeline that was interrupted is tried again, and after which pauses. No I/O."""

from penstock.clock import SYSTEM, Clock
from penstock.errors import Error

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0


class Retrying:
    """The tries since something last went well. Each pause is twice the last; each sentence is said once."""

    def __init__(self, limit_seconds: float, clock: Clock = SYSTEM) -> None:
        self._limit, self._clock = limit_seconds, clock
        self.went_well()

    def went_well(self) -> None:
        """Forget what failed before."""
        self._since: float | None = None
        self._pause, self._said = _FIRST_SECONDS, ""

    def pause_after(self, error: Error) -> float | None:
        """Return how long to wait before the next try; None: there is none."""
        if not error.retryable:
            return None
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._limit:
            return None
        pause = min(self._pause, self._since + self._limit - now)
        self._pause = min(2 * self._pause, _LONGEST_SECONDS)
        return pause

    def is_new(self, error: Error) -> bool:
        """Return whether an error was not said since something went well, and take it as said."""
        said, self._said = self._said, str(error)
        return said != self._said
