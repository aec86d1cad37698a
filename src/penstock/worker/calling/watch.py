"""The watch: a thread that checks periodically while handlers run."""

from collections.abc import Callable
from threading import Event, Thread

from .results import Results

_RESULTS_SECONDS = 0.003  # how long results that are to be announced soon wait at most


class Watch:
    """A thread that checks running calls for time-outs, rates for tokens, and the lease for a renewal.

    It also wakes the delivery loop for results that were to be announced soon. It starts with the first work,
    sleeps while there is none, and ends once it is closed and nothing runs any more. The caller decides when
    to check; the bell triggers a check at once.
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
        self._asleep, self._never = False, Event()
        self._thread: Thread | None = None

    def keep(self) -> None:
        """Ensure that the watch runs, now that there is work."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="penstock-handler-watch", daemon=True)
            self._thread.start()
        elif not self._asleep:
            return
        self._bell.set()

    def _run(self) -> None:
        while not self._is_over():
            self._bell.wait(self._next_pause())
            self._asleep = False
            self._bell.clear()
            if self._results.is_promised:
                self._never.wait(_RESULTS_SECONDS)
                self._results.keep_promise()
            self._look()

    def _next_pause(self) -> float | None:
        pause = self._pause()
        if pause is None:
            self._asleep = True
            pause = self._pause()  # checked again: work that came in before saw a watch that was awake
        return pause
