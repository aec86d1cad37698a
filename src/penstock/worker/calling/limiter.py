"""The limiter of one handler that not every free thread may call: async, in batches, or with a bound or a rate."""

from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from penstock.errors import Undecodable

from ..handler import Handler, HandlerTask
from .rate import Bucket


class LimitedCall:
    """One call of such a handler: its tasks, and for an async handler the running asyncio task."""

    __slots__ = ("cancelled_at", "limiter", "ready", "running", "tasks", "undecodable")

    def __init__(self, limiter: "Limiter", tasks: list[HandlerTask]) -> None:
        self.limiter, self.tasks, self.ready = limiter, tasks, tasks
        self.undecodable: list[tuple[HandlerTask, Undecodable]] = []
        self.running: Any = None
        self.cancelled_at: float | None = None

    @property
    def handler(self) -> Handler:
        """The handler."""
        return self.limiter.handler

    @property
    def is_async(self) -> bool:
        """Whether the loop runs it, not a thread."""
        return self.limiter.handler.binding.is_async

    def call(self) -> Any:
        """Call the handler and return its result, which may have to be awaited."""
        binding = self.tasks[0].handler.binding
        if binding.call_many is None:
            return binding.call(self.tasks[0].record)
        ready, events = [], []
        for task in self.tasks:
            try:
                event = None if binding.decode is None else binding.decode(task.record)
            except Undecodable as error:
                self.undecodable.append((task, error))
            else:
                ready.append(task)
                events.append(event)
        self.ready = ready
        return binding.call_many([task.record for task in ready], events) if ready else None


class Limiter:
    """The waiting tasks of one handler, and how many of them may begin: they wait here and hold up no others.

    The thread or loop that makes a granted call begins it with the tasks it gets, and ends it. Invariant: at most
    `limit` calls are granted or under way. From any thread.
    """

    def __init__(
        self,
        handler: Handler,
        limit: int,
        now: float,
        *,
        share: float = 1.0,
        rate_is_dry: Callable[[], None] = lambda: None,
    ) -> None:
        """`share`: the part of its rate for this process. `rate_is_dry`: called when tasks wait only for the rate."""
        self.handler, self._rate_is_dry = handler, rate_is_dry
        self.limit = limit
        self._size = handler.batch or 1
        self._waiting: deque[HandlerTask] = deque()
        self._alone: deque[HandlerTask] = deque()  # of batches that failed: each is called alone
        self._calls = self._granted = 0  # granted: of the calls, those not begun yet
        self._bucket = None if handler.rate is None else Bucket(handler.rate, self._size, now, share)
        self._lock = Lock()

    def add(self, tasks: Iterable[HandlerTask]) -> None:
        """Add waiting tasks."""
        with self._lock:
            self._waiting.extend(tasks)

    def grant(self, now: float) -> int:
        """Return how many more calls may be made now, and count them as granted."""
        with self._lock:
            calls = len(self._alone) + -(-len(self._waiting) // self._size)
            if self._bucket is not None and self._bucket.due(now) > now:
                calls = 0
            granted = max(0, min(calls - self._granted, self.limit - self._calls))
            self._calls += granted
            self._granted += granted
        if self._bucket is not None and not granted and len(self):
            self._rate_is_dry()
        return granted

    def begin(self, now: float) -> LimitedCall | None:
        """Begin a granted call; None when no task is left for it, or the rate has no token."""
        with self._lock:
            self._granted -= 1
            tasks = self._next(now)
            if tasks:
                return LimitedCall(self, tasks)
            self._calls -= 1
        self._rate_is_dry()
        return None

    def end(self) -> None:
        """End a call that began."""
        with self._lock:
            self._calls -= 1

    def give_back(self) -> None:
        """Give back a granted call that may not begin now."""
        with self._lock:
            self._granted -= 1
            self._calls -= 1

    def repeat_alone(self, tasks: Iterable[HandlerTask]) -> None:
        """Have each task of a batch that failed called alone, before all others."""
        with self._lock:
            self._alone.extend(tasks)

    def take_back(self, wanted: Callable[[HandlerTask], bool]) -> list[HandlerTask]:
        """Remove the waiting tasks that match, and return them."""
        with self._lock:
            found = list[HandlerTask]()
            for queue in (self._alone, self._waiting):
                kept = list[HandlerTask]()
                for task in queue:
                    (found if wanted(task) else kept).append(task)
                queue.clear()
                queue.extend(kept)
            return found

    def due(self, now: float) -> float | None:
        """Return when the rate allows the next task; None when none waits for it."""
        with self._lock:
            return self._bucket.due(now) if self._bucket is not None and len(self) else None

    def status(self, now: float) -> tuple[int, float | None] | None:
        """Return how many tasks wait only for this limiter, and until when the rate is dry; None when none does."""
        with self._lock:
            if not len(self):
                return None
            due = None if self._bucket is None else self._bucket.due(now)
            if due is not None and due > now:
                return len(self), due
            return (len(self), None) if self._calls - self._granted >= self.limit else None

    def change_share(self, share: float, now: float) -> None:
        """Set the fraction of the handler's rate that is for this process."""
        with self._lock:
            if self._bucket is not None:
                self._bucket.change_share(share, now)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._alone)

    def _next(self, now: float) -> list[HandlerTask]:
        queue, size = (self._alone, 1) if self._alone else (self._waiting, self._size)
        many = min(size, len(queue))
        if many and self._bucket is not None:
            many = self._bucket.take(many, now)
        return [queue.popleft() for _ in range(many)]
