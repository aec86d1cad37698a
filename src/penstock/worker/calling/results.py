"""The way back: verdicts from the threads and the event loop to the delivery loop."""

from collections import deque
from collections.abc import Callable

from penstock import metrics
from penstock.delivery.verdict import Verdict

from ..handler import Handler
from ..task import HandlerTask
from .attempt import count

_MANY = 256  # with this many results the delivery loop is woken, even while handlers are busy

TaskResult = tuple[HandlerTask, Verdict | None, float]  # with the seconds it took; None: not begun


class Results:
    """Verdicts that wait to be fetched, and whether the delivery loop knows of them.

    The loop is woken at once when no more results are expected or many wait, and otherwise soon, so that one
    wake-up serves several. `put` and `tell` are for any thread, `take` for the delivery loop's,
    `keep_promise` for the watch's.
    """

    def __init__(self, wake: Callable[[], None], wake_soon: Callable[[], None]) -> None:
        """`wake` wakes the delivery loop; `wake_soon` has the watch call `keep_promise` in a moment."""
        self._waiting: deque[TaskResult] = deque()
        self._wake, self._wake_soon = wake, wake_soon
        self.put = self._waiting.append  # not a method of ours: it is called for every record
        self.is_told = False  # the delivery loop is awake, or about to be
        self.is_promised = False
        self._is_awaited = True

    def expect(self, *, awaited: bool) -> bool:
        """Set whether to wake the loop for plain passes; otherwise it fetches them itself soon.

        Return whether results wait for which it would have been woken.
        """
        self._is_awaited = awaited
        return awaited and bool(self._waiting)  # checked last: a result that comes later wakes the loop

    def tell(self, more: bool, *, plain: bool = False) -> None:
        """Wake the delivery loop, at once or soon; `more`: other results are likely to follow.

        `plain`: the record has simply passed, at its first attempt.
        """
        if plain and not self._is_awaited and len(self._waiting) < _MANY:
            return
        if not more or len(self._waiting) >= _MANY:
            self.is_told = True
            self._wake()
        elif not self.is_promised:
            self.is_promised = True
            self._wake_soon()

    def keep_promise(self) -> None:
        """Wake the delivery loop if it was to be woken soon and has not been woken since."""
        self.is_promised = False
        if self._waiting and not self.is_told:
            self.is_told = True
            self._wake()

    def take(self) -> list[tuple[HandlerTask, Verdict | None]]:
        """Remove and return the results since the last call, and count them in the metrics."""
        self.is_told = False  # before the look: a result that comes after it wakes the loop again
        popleft = self._waiting.popleft
        results = [popleft() for _ in range(len(self._waiting))]
        by_handler: dict[Handler, tuple[list[Verdict], list[float]]] = {}
        handler, verdicts, durations = None, list[Verdict](), list[float]()
        for task, verdict, seconds in results:
            if verdict is None:
                continue
            if task.handler is not handler:  # most often all results are of one
                handler = task.handler
                verdicts, durations = by_handler.setdefault(handler, ([], []))
            verdicts.append(verdict)
            durations.append(seconds)
        for handler, (verdicts, durations) in by_handler.items():
            count(handler, verdicts)
            metrics.HANDLER_SECONDS.observe(*durations, group=handler.group, handler=handler.id)
        return [(task, verdict) for task, verdict, _ in results]
