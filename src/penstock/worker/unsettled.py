"""What has ended and is not settled yet, and when it is to be: soon under load, with others in a trickle."""

_MOST_RESULTS = 2000  # results that are settled at once,
_BUSY_SECONDS = 0.02  # and how long the first of them waits while handlers are busy
FEW_RESULTS = 100  # fewer that have passed may wait for others,
GATHER_SECONDS = 0.1  # so long since the last settling. If the process dies meanwhile, they come again


class Unsettled:
    """Counts results and says when they are due. One thread, the delivery loop's.

    A settling is a transaction. In a trickle there would be one for each record, so a few that have simply
    passed wait for others if there was a settling just before. What has failed, or may be a repetition, does
    not wait: it is settled as soon as nothing else is about to end.
    """

    def __init__(self, *, gathers: bool = True) -> None:
        """`gathers`: whether results may wait for others; not by a clock that a test moves."""
        self._gather_seconds = GATHER_SECONDS if gathers else 0.0
        self._count, self._since, self._is_pressing = 0, 0.0, False
        self._settled, self._has_results = -self._gather_seconds, False

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, count: int, now: float, *, pressing: bool = False, handled: bool = True) -> None:
        """Take note of results; pressing ones let nothing wait for others.

        `handled`: by a handler; else they are records that no handler wants, if there are any.
        """
        if count and not self._count:
            self._since = now
        self._count += count
        self._is_pressing |= pressing
        self._has_results |= handled and count > 0

    def clear(self, now: float) -> None:
        """Take note that all is settled."""
        if self._has_results:
            self._settled = now
        self._count, self._is_pressing, self._has_results = 0, False, False

    def is_due(self, now: float, *, busy: bool) -> bool:
        """Return whether it is time to settle; busy: other results are on their way."""
        if not self._count:
            return False
        if now < self._waits_until():
            return False
        return not busy or self._count >= _MOST_RESULTS or now >= self._since + _BUSY_SECONDS

    def due(self, now: float) -> float | None:
        """Return when to ask again whether it is time, if there is anything."""
        if not self._count:
            return None
        return max(self._waits_until(), self._since + _BUSY_SECONDS if now >= self._waits_until() else 0.0)

    def _waits_until(self) -> float:
        """Return until when the results wait for others."""
        may_wait = self._count < FEW_RESULTS and not self._is_pressing
        return self._settled + self._gather_seconds if may_wait else 0.0
