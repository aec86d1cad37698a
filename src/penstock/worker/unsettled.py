"""The results that are not settled yet, and when they are due: soon under load, together in a trickle."""

_MOST_RESULTS = 2000  # results that are settled at once,
_BUSY_SECONDS = 0.02  # and how long the first of them waits while handlers are busy
FEW_RESULTS = 100  # fewer that have passed may wait for others,
GATHER_SECONDS = 0.1  # this long since they were handed out. If the process dies meanwhile, they come again


class Unsettled:
    """Counts results and decides when they are due. One thread at a time, the delivery loop's.

    A settling is a transaction. In a trickle there would be one for each record, so a few plain passes wait
    for others, no longer than a moment after the first of them was handed out. A result that failed, or may
    be a repetition, does not wait: it is settled as soon as nothing else is about to end.
    """

    def __init__(self, *, gathers: bool = True) -> None:
        """`gathers`: whether results may wait for others; not with a clock that a test moves."""
        self._gather_seconds = GATHER_SECONDS if gathers else 0.0
        self._count, self._since, self._is_pressing = 0, 0.0, False
        self._begun: float | None = None  # when the first unsettled record was handed out
        self._settled = -1.0

    def __bool__(self) -> bool:
        return self._count > 0

    def begin(self, now: float) -> None:
        """Record that records are handed out: their results are due a moment later."""
        if self._begun is None:
            self._begun = now

    def add(self, count: int, now: float, *, pressing: bool = False) -> None:
        """Record results; if one is pressing, none waits for others."""
        if count:
            self.begin(now)
            if not self._count:
                self._since = now
        self._count += count
        self._is_pressing |= pressing

    def clear(self, now: float) -> None:
        """Record that all is settled."""
        self._count, self._is_pressing, self._begun, self._settled = 0, False, None, now

    @property
    def may_wait(self) -> bool:
        """Whether the results so far, and a few more, wait for others; then they are due at a set time."""
        return 0 < self._count < FEW_RESULTS and not self._is_pressing and self._gather_seconds > 0

    def is_due(self, now: float, *, busy: bool, timed: bool = False) -> bool:
        """Return whether it is time to settle; busy: other results are on their way.

        `timed`: a timer caused this check, so settling now saves another wake-up.
        """
        if not self._count:
            return False
        if self.may_wait:
            assert self._begun is not None
            return now >= self._begun + self._gather_seconds * (0.5 if timed else 1.0)
        return not busy or self._count >= _MOST_RESULTS or now >= self._since + _BUSY_SECONDS

    def due(self, now: float) -> float | None:
        """Return when to check again whether it is time.

        Also a moment after a settling: in a trickle there are new results by then.
        """
        if self.may_wait:
            assert self._begun is not None
            return self._begun + self._gather_seconds
        if self._count:
            return self._since + _BUSY_SECONDS
        again = self._settled + self._gather_seconds
        return again if now < again else None
