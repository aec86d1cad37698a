"""What waits for a thread, shared fairly among groups."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import zip_longest

from ..task import HandlerTask
from .limiter import Limiter
from .under_way import FallbackCall


class ThreadQueue(deque[HandlerTask | Limiter]):
    """Tasks in the order in which threads take them; a limiter stands for one call that it has granted.

    Fallbacks are apart and come first: a record waits for its verdict. Threads take from the left at any
    time; the other methods are for the delivery loop's thread. Each step is one deque operation, so nothing
    is lost or taken twice.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fallbacks: deque[FallbackCall] = deque()

    def add(self, tasks: Sequence[HandlerTask], *, threads: int) -> None:
        """Add the tasks of one group, alternating with those of other groups if more wait than threads run.

        Otherwise a group with many slow tasks would keep the others waiting behind all of them. What is
        queued is of different keys, so its order does not matter.
        """
        if not tasks or len(self) <= threads or not self._ends_with_another(tasks[0].handler.group):
            self.extend(tasks)
            return
        before = list[HandlerTask | Limiter]()
        with suppress(IndexError):  # the threads take from it meanwhile
            while True:
                before.append(self.popleft())
        for one, other in zip_longest(before, tasks):
            if one is not None:
                self.append(one)
            if other is not None:
                self.append(other)

    def take_back(self, wanted: Callable[[HandlerTask], bool]) -> list[HandlerTask]:
        """Remove the tasks that match, with those that follow them in their runs, and return them."""
        found, kept = list[HandlerTask](), list[HandlerTask | Limiter]()
        for _ in range(len(self)):
            try:
                item = self.popleft()
            except IndexError:  # a thread was quicker
                break
            if isinstance(item, HandlerTask) and wanted(item):
                found.extend(item.run())
            else:
                kept.append(item)
        self.extend(kept)
        return found

    def count_tasks(self) -> int:
        """Return how many tasks wait, with those that follow them; granted calls are not counted."""
        return sum(1 + item.more for item in list(self) if isinstance(item, HandlerTask))

    def waiting_by_group(self) -> Counter[str]:
        """Return how many records of each group wait for a thread; a granted call counts as one."""
        found = Counter[str]()
        for item in list(self):
            found[item.handler.group] += 1 + (item.more if isinstance(item, HandlerTask) else 0)
        return found

    def _ends_with_another(self, group: str) -> bool:
        """Return whether the last item is of another group: then those before it may be, too."""
        try:
            last = self[-1]
        except IndexError:
            return False
        return isinstance(last, Limiter) or last.handler.group != group
