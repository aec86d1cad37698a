"""The watch: a thread that looks now and then while handlers run."""

from collections.abc import Callable
from threading import Event, Thread

from .results import Results

_RESULTS_SECONDS = 0.003  # results that are to be told soon wait no longer


class Watch:
    """A thread that checks what runs: for time-outs, rates, and a lease that was renewed.

    It also wakes the delivery loop for results that were to be told soon. It starts with the first work,
    sleeps while there is none, and ends once it is closed and nothing runs any more. When to look is the
    caller's to say; the bell makes it look at once.
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
        """`pause` says how long there is nothing to look at; None: until there is work again."""
        self._bell, self._results = bell, results
        self._look, self._pause, self._is_over = look, pause, is_over
        self._asleep, self._never = False, Event()
        self._thread: Thread | None = None

    def keep(self) -> None:
        """See to it that the watch is kept, now that there is work."""
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
            pause = self._pause()  # asked again: work that came in before saw a watch that was awake
        return pause
