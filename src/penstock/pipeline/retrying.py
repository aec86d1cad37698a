"""The back-off of an interrupted pipeline: how long it is retried, and after which pauses. No I/O."""

from penstock.clock import SYSTEM, Clock
from penstock.errors import Error

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0


class Retrying:
    """The retries since the last success. Each pause doubles the one before; each message is logged once."""

    def __init__(self, limit_seconds: float, clock: Clock = SYSTEM) -> None:
        self._limit, self._clock = limit_seconds, clock
        self.went_well()

    def went_well(self) -> None:
        """Forget earlier failures."""
        self._since: float | None = None
        self._pause, self._said = _FIRST_SECONDS, ""

    def pause_after(self, error: Error) -> float | None:
        """Return the pause before the next try; None: do not retry."""
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
        """Return whether an error's message differs from the last one, and record it."""
        said, self._said = self._said, str(error)
        return said != self._said
