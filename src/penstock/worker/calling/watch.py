"""The watch: a thread that checks periodically while handlers run."""

from collections.abc import Callable
from math import inf
from threading import Event, Thread

from penstock.clock import SYSTEM

from .results import Results

_IDLE_SECONDS, _IDLE_CHECKS = 1.0, 10  # without work it checks so often before it sleeps
_RESULTS_SECONDS = 0.003  # how long results that are to be announced soon wait at most


class Watch:
    """A thread that checks running calls for time-outs, rates for tokens, and the lease for a renewal.

    It also wakes the delivery loop for results that were to be announced soon. It starts with the first work,
    sleeps once there has been none for a while, so that single events do not wake it, and ends once it is
    closed and nothing runs any more. The caller decides when to check; the bell triggers a check at once.
    """

    def __init__(
        self,
        bell: Event,
        results: Results,
        *,
        look: Callable[[], None],
        pause: Callable[[], float | None],
        is_over: Callable[[], bool],
    ) -> None:
        """`pause` returns how long there is nothing to check; None: until there is work again."""
        self._bell, self._results = bell, results
        self._look, self._pause, self._is_over = look, pause, is_over
        self._wait_ends, self._idle_checks, self._never = -inf, 0, Event()
        self._thread: Thread | None = None

    def keep(self) -> None:
        """Ensure that the watch runs and checks soon enough, now that there is work."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="penstock-handler-watch", daemon=True)
            self._thread.start()
        elif SYSTEM.monotonic() + (self._pause() or 0.0) >= self._wait_ends:
            return
        self._bell.set()

    def _run(self) -> None:
        while not self._is_over():
            self._bell.wait(self._next_pause())
            self._wait_ends = -inf  # what comes in from here on is seen when the next pause is computed
            self._bell.clear()
            if self._results.is_promised:
                self._never.wait(_RESULTS_SECONDS)
                self._results.keep_promise()
            self._look()

    def _next_pause(self) -> float | None:
        pause = self._pause()
        self._idle_checks = 0 if pause is not None else self._idle_checks + 1
        if pause is None and self._idle_checks <= _IDLE_CHECKS:
            pause = _IDLE_SECONDS
        self._wait_ends = inf if pause is None else SYSTEM.monotonic() + pause
        again = self._pause()  # checked again: work that came in before compared with an earlier end
        if pause is None or again is None:
            return again if pause is None else pause
        return min(pause, again)
