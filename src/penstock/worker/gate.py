"""The gate of one handler that may not simply run: it is async, takes batches, or has a bound or a rate.

Its tasks wait here, apart, and hold up no others. The gate grants turns; whoever takes one begins a call with
the tasks it is given, and ends it. All methods may be called from any thread.
"""

from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from penstock.errors import Undecodable

from .handlers import Handler
from .rate import Bucket
from .task import Task


class Turn:
    """One call of a gated handler: its tasks, and for an async one the running asyncio task."""

    __slots__ = ("cancelled_at", "gate", "ready", "running", "tasks", "undecodable")

    def __init__(self, gate: "Gate", tasks: list[Task]) -> None:
        self.gate, self.tasks, self.ready = gate, tasks, tasks
        self.undecodable: list[tuple[Task, Undecodable]] = []
        self.running: Any = None
        self.cancelled_at: float | None = None

    @property
    def handler(self) -> Handler:
        """The handler."""
        return self.gate.handler

    @property
    def is_async(self) -> bool:
        """Whether the loop runs it, not a thread."""
        return self.gate.handler.binding.is_async

    def call(self) -> Any:
        """Call the handler and return what it returns, which may have to be awaited."""
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


class Gate:
    """Which of a handler's tasks may begin. Invariant: at most `limit` turns are granted or under way."""

    def __init__(self, handler: Handler, limit: int, now: float, share: float = 1.0) -> None:
        """`share`: the part of the handler's rate that is for this process."""
        self.handler = handler
        self._limit, self._size = limit, handler.batch or 1
        self._waiting: deque[Task] = deque()
        self._alone: deque[Task] = deque()  # of batches that failed: each is called by itself
        self._turns = self.granted = 0  # granted: of the turns, those not begun yet
        self._bucket = None if handler.rate is None else Bucket(handler.rate, self._size, now, share)
        self._lock = Lock()

    def add(self, tasks: Iterable[Task]) -> None:
        """Let tasks wait."""
        with self._lock:
            self._waiting.extend(tasks)

    def grant(self, now: float) -> int:
        """Return how many more turns may be taken now, and count them as taken."""
        with self._lock:
            calls = len(self._alone) + -(-len(self._waiting) // self._size)
            if self._bucket is not None and self._bucket.due(now) > now:
                calls = 0
            granted = max(0, min(calls - self.granted, self._limit - self._turns))
            self._turns += granted
            self.granted += granted
            return granted

    def begin(self, now: float) -> Turn | None:
        """Begin a granted turn; None when nothing is left for it."""
        with self._lock:
            self.granted -= 1
            tasks = self._next(now)
            if not tasks:
                self._turns -= 1
                return None
            return Turn(self, tasks)

    def end(self) -> None:
        """End a turn that began."""
        with self._lock:
            self._turns -= 1

    def give_back(self) -> None:
        """Give back a granted turn that may not begin now."""
        with self._lock:
            self.granted -= 1
            self._turns -= 1

    def repeat_alone(self, tasks: Iterable[Task]) -> None:
        """Let each task of a batch that failed be called by itself, before all others."""
        with self._lock:
            self._alone.extend(tasks)

    def take_back(self, wanted: Callable[[Task], bool]) -> list[Task]:
        """Remove the waiting tasks that match, and return them."""
        with self._lock:
            found = list[Task]()
            for queue in (self._alone, self._waiting):
                kept = list[Task]()
                for task in queue:
                    (found if wanted(task) else kept).append(task)
                queue.clear()
                queue.extend(kept)
            return found

    def due(self, now: float) -> float | None:
        """Return when the rate lets the next task begin; None when none waits for it."""
        with self._lock:
            return self._bucket.due(now) if self._bucket is not None and len(self) else None

    def change_share(self, share: float, now: float) -> None:
        """Let another part of the handler's rate be for this process."""
        with self._lock:
            if self._bucket is not None:
                self._bucket.change_share(share, now)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._alone)

    def _next(self, now: float) -> list[Task]:
        queue, size = (self._alone, 1) if self._alone else (self._waiting, self._size)
        many = min(size, len(queue))
        if many and self._bucket is not None:
            many = self._bucket.take(many, now)
        return [queue.popleft() for _ in range(many)]
