"""The way back: verdicts from the threads and the event loop to the delivery loop."""

from collections import deque
from collections.abc import Callable

from penstock import metrics
from penstock.delivery.verdict import Verdict

from ..handler import Handler
from ..task import HandlerTask
from .attempt import count

_MANY = 256  # with this many results the delivery loop is woken, even while handlers are busy

TaskResult = tuple[HandlerTask, Verdict | None, float]  # with the seconds it took; None: it was not begun


class Results:
    """Verdicts that wait to be fetched, and whether the delivery loop knows of them.

    It is woken at once when no more results are to be expected or many wait, and otherwise soon, so that one
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

    def tell(self, more: bool) -> None:
        """Wake the delivery loop, at once or soon; `more`: other results are likely to follow."""
        if not more or len(self._waiting) >= _MANY:
            self.is_told = True
            self._wake()
        elif not self.is_promised:
            self.is_promised = True
            self._wake_soon()

    def keep_promise(self) -> None:
        """Wake the delivery loop if it was to be woken soon and nobody has done so since."""
        self.is_promised = False
        if self._waiting and not self.is_told:
            self.is_told = True
            self._wake()

    def take(self) -> list[tuple[HandlerTask, Verdict | None]]:
        """Remove and return what has come in since the last call, and count it in the metrics."""
        self.is_told = False  # before the look: a result that comes after it wakes the loop again
        waiting, found = self._waiting, list[tuple[HandlerTask, Verdict | None]]()
        by_handler: dict[Handler, tuple[list[Verdict], list[float]]] = {}
        for _ in range(len(waiting)):
            task, verdict, seconds = waiting.popleft()
            found.append((task, verdict))
            if verdict is None:
                continue
            counted = by_handler.get(task.handler)
            if counted is None:
                counted = by_handler[task.handler] = ([], [])
            counted[0].append(verdict)
            counted[1].append(seconds)
        for handler, (verdicts, durations) in by_handler.items():
            count(handler, verdicts)
            metrics.HANDLER_SECONDS.observe(*durations, group=handler.group, handler=handler.id)
        return found
