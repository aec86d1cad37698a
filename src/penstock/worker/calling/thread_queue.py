"""The calls that wait for a thread, and how the threads are shared among groups."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from threading import Lock

from ..task import HandlerTask
from .limiter import Limiter
from .under_way import FallbackCall

QueuedCall = HandlerTask | Limiter | FallbackCall  # a limiter stands for one call that it has granted


class GroupCalls:
    """The calls of one group that wait for a thread, and how many threads work for it."""

    __slots__ = ("fallbacks", "running", "tasks")

    def __init__(self) -> None:
        self.tasks: deque[HandlerTask | Limiter] = deque()
        self.fallbacks: deque[FallbackCall] = deque()
        self.running = 0


class ThreadQueue:
    """The calls that wait for a thread, group by group, and which of them is next.

    A call may begin while fewer than `threads` are under way, or while its own group has fewer than its
    share: `threads` divided by the groups, at least one. So a single group may use all threads, and a group
    that comes later need not wait for slow calls of others: it gets its share in threads beyond that number.
    The next call is one of the group that has the fewest under way; fallbacks come first, since a record
    waits for each. Queued calls are of different keys, so their order does not matter. From any thread.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._groups: dict[str, GroupCalls] = {}
        self._turns: list[GroupCalls] = []  # the group that had its turn last is last
        self._share, self._running, self._fallbacks = threads, 0, 0
        self._lock = Lock()

    def __bool__(self) -> bool:
        """Return whether a task or a granted call waits."""
        return any(group.tasks for group in self._turns)

    @property
    def most_threads(self) -> int:
        """How many calls may be under way at once, with every group's share."""
        return self.threads + (len(self._turns) - 1) * self._share if self._turns else self.threads

    def add(self, calls: Sequence[HandlerTask | Limiter]) -> None:
        """Add calls of one group."""
        if calls:
            with self._lock:
                self._group(calls[0].handler.group).tasks.extend(calls)

    def add_fallback(self, call: FallbackCall) -> None:
        """Add a fallback."""
        with self._lock:
            self._group(call.handler.group).fallbacks.append(call)
            self._fallbacks += 1

    def take(self, ended: str | None, *, fallbacks_only: bool) -> QueuedCall | None:
        """Remove and return the next call that may begin, and count it as under way.

        `ended`: the group of the call that has just ended in the calling thread.
        """
        with self._lock:
            if ended is not None:
                own = self._groups[ended]
                if own.running <= self._share and own.tasks and not (self._fallbacks or fallbacks_only):
                    return own.tasks.popleft()  # no more than its share: the place remains its own
                own.running -= 1
                self._running -= 1
            if self._fallbacks and (group := self._next(fallbacks=True)) is not None:
                self._fallbacks -= 1
                self._begin(group)
                return group.fallbacks.popleft()
            if fallbacks_only or (group := self._next(fallbacks=False)) is None:
                return None
            self._begin(group)
            return group.tasks.popleft()

    def put_back(self, task: HandlerTask) -> None:
        """Return a taken task to the queue, before all others of its group."""
        with self._lock:
            self._end(task.handler.group)
            self._groups[task.handler.group].tasks.appendleft(task)

    def end(self, group: str) -> None:
        """Stop counting a call: it has ended, was given up, or may not begin."""
        with self._lock:
            self._end(group)

    def resume(self, group: str) -> None:
        """Count a call again whose abandoned thread has rejoined, until that thread takes its next call."""
        with self._lock:
            self._begin(self._groups[group])

    def may_begin(self, *, fallbacks_only: bool = False) -> int:
        """Return how many of the calls that wait may begin now."""
        with self._lock:
            waiting = owed = 0
            for group in self._turns:
                calls = len(group.fallbacks) if fallbacks_only else len(group.fallbacks) + len(group.tasks)
                waiting += calls
                owed += max(0, min(calls, self._share - group.running))
            return max(owed, min(waiting, self.threads - self._running))

    def take_back(self, wanted: Callable[[HandlerTask], bool]) -> list[HandlerTask]:
        """Remove the tasks that match, with those that follow them in their runs, and return them."""
        found = list[HandlerTask]()
        with self._lock:
            for group in self._turns:
                kept = list[HandlerTask | Limiter]()
                for call in group.tasks:
                    if isinstance(call, HandlerTask) and wanted(call):
                        found.extend(call.run())
                    else:
                        kept.append(call)
                group.tasks = deque(kept)
        return found

    def count_tasks(self) -> int:
        """Return how many tasks wait, with those that follow them; granted calls are not counted."""
        with self._lock:
            return sum(
                1 + call.more
                for group in self._turns
                for call in group.tasks
                if isinstance(call, HandlerTask)
            )

    def waiting_by_group(self) -> Counter[str]:
        """Return how many records of each group wait for a thread; a granted call counts as one."""
        with self._lock:
            return Counter(
                {
                    name: sum(1 + (call.more if isinstance(call, HandlerTask) else 0) for call in group.tasks)
                    for name, group in self._groups.items()
                    if group.tasks
                }
            )

    def _group(self, name: str) -> GroupCalls:
        known = self._groups.get(name)
        if known is None:
            known = self._groups[name] = GroupCalls()
            self._turns.append(known)
            self._share = max(1, self.threads // len(self._turns))
        return known

    def _next(self, *, fallbacks: bool) -> GroupCalls | None:
        """Return the group with the fewest calls under way of those that may begin one."""
        chosen: GroupCalls | None = None
        for group in self._turns:
            if (group.fallbacks if fallbacks else group.tasks) and (
                chosen is None or group.running < chosen.running
            ):
                chosen = group
        if chosen is None or self._running < self.threads or chosen.running < self._share:
            return chosen
        return None

    def _begin(self, group: GroupCalls) -> None:
        self._running += 1
        group.running += 1
        if len(self._turns) > 1:
            self._turns.remove(group)
            self._turns.append(group)

    def _end(self, group: str) -> None:
        self._groups[group].running -= 1
        self._running -= 1
