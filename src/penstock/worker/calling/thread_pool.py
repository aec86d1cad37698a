"""Threads for sync handlers, the calls that wait for them or have begun, and how groups share them.

Threads are started when needed, asleep when idle, and replaced when they hang.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import Any

from penstock.delivery.verdict import Verdict

from ..handler import Handler, HandlerTask
from .limiter import LimitedCall, Limiter

NOT_BEGUN = float("inf")  # the start of a fallback that still waits for a thread


class FallbackCall:
    """The call of a handler's fallback for a record that is about to be given up with this verdict."""

    __slots__ = ("task", "verdict")

    def __init__(self, task: HandlerTask, verdict: Verdict) -> None:
        self.task, self.verdict = task, verdict

    @property
    def handler(self) -> Handler:
        """The handler whose fallback it is."""
        return self.task.handler


BegunCall = HandlerTask | LimitedCall | FallbackCall


class BegunCalls(dict[BegunCall, float]):
    """Each call that has begun, with the moment it began. From any thread: each step is one operation.

    Invariant: only the one that removes a call decides its outcome: a thread or the loop when the handler ends, the
    watch when its time is over, `close` when the wait is over.
    """


def tasks_of(call: BegunCall) -> list[HandlerTask]:
    """Return the tasks of a call."""
    if isinstance(call, LimitedCall):
        return call.tasks
    return [call] if isinstance(call, HandlerTask) else [call.task]


class Permission:
    """Whether a call may begin: not once the runner is closing, and not while the member has no lease.

    A call that may not begin stays in its queue, and the refusal is recorded here for the watch. From any thread.
    """

    def __init__(self, may_start: Callable[[], bool] | None) -> None:
        """`may_start` is called before each call; None: always allowed."""
        self.may_start = may_start or (lambda: True)
        self.is_closing = False
        self.was_refused = False

    def is_given(self) -> bool:
        """Return whether a call may begin now."""
        return not self.is_closing and self.may_start()

    def is_given_again(self) -> bool:
        """Return, once, that refused calls may begin now."""
        if not self.was_refused or not self.may_start():
            return False
        self.was_refused = False
        return True


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

    A call may begin while fewer than `threads` are under way, or while its group has fewer than its share: `threads`
    divided by the groups, at least one. So a single group may use all threads, and one that comes later gets its share
    beyond that number. The next call is one of the group with the fewest under way; fallbacks come first, since a
    record waits for each. From any thread.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._groups: dict[str, GroupCalls] = {}
        self._turns: list[GroupCalls] = []  # the group that had its turn last is last
        self._share, self._running, self._fallbacks = threads, 0, 0
        self._lock = Lock()

    def __bool__(self) -> bool:
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
        """Remove and return the next call, and count it; `ended`: the group whose call ended in this thread."""
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
            return sum(1 + call.more for group in self._turns for call in group.tasks if isinstance(call, HandlerTask))

    def waiting_by_group(self) -> Counter[str]:
        """Return how many records of each group wait for a thread; a granted call counts as one."""
        counts = Counter[str]()
        with self._lock:
            for name, group in self._groups.items():
                counts[name] += sum(1 + (call.more if isinstance(call, HandlerTask) else 0) for call in group.tasks)
        return +counts  # without zeros

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
            if (group.fallbacks if fallbacks else group.tasks) and (chosen is None or group.running < chosen.running):
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


class ThreadPool:
    """The threads of the pool, and the count of those abandoned in calls that hang.

    A thread starts when a call may begin and none is idle. A thread whose call is over its time is abandoned and
    replaced; if the call ends after all, it rejoins where a thread is missing. From any thread.
    """

    def __init__(self, queue: ThreadQueue, work: Callable[[Any], bool]) -> None:
        """`work` runs in each thread, with the lock it sleeps on; it returns whether the thread still belongs here."""
        self.has_ended = Event()  # set when a thread ends
        self._queue, self._work = queue, work
        self._idle: deque[Any] = deque()  # the locks that idle threads sleep on, the latest sleeper last
        self._lock, self._alive, self._made = Lock(), 0, 0

    @property
    def alive(self) -> int:
        """How many threads work or sleep, without the abandoned ones."""
        return self._alive

    def wake(self) -> None:
        """Wake or start threads for the calls that may begin now."""
        for _ in range(min(self._queue.may_begin(), self._queue.most_threads)):
            try:
                self._idle.pop().release()
            except IndexError:
                if not self._start():
                    return

    def wake_all(self) -> None:
        """Wake every thread that sleeps."""
        while self._idle:
            try:
                self._idle.pop().release()
            except IndexError:
                return

    def sleep(self, lock: Any, is_needed: Callable[[], bool]) -> None:
        """Put the thread of this lock to sleep until it is woken, unless it is needed already."""
        self._idle.append(lock)
        if is_needed():  # checked again: a call that came after the last check found no sleeping thread
            try:
                self._idle.remove(lock)
            except ValueError:
                lock.acquire()  # another thread is waking this very thread: consume that wake-up
            return
        lock.acquire()

    def leave_behind(self) -> None:
        """Go on without a thread that hangs."""
        self.give_up()
        self.wake()

    def give_up(self) -> None:
        """Stop counting a thread: it is abandoned."""
        with self._lock:
            self._alive -= 1

    def rejoin(self, *, wanted: bool) -> bool:
        """Return whether an abandoned thread whose call has ended belongs to the pool again."""
        with self._lock:
            needed = wanted and self._alive < self._queue.most_threads
            self._alive += needed
            return needed

    def _start(self) -> bool:
        if self._alive >= self._queue.most_threads:
            return False
        with self._lock:
            if self._alive >= self._queue.most_threads:
                return False
            self._alive += 1
            self._made += 1
            name = f"penstock-handler-{self._made}"
        Thread(target=self._run, name=name, daemon=True).start()
        return True

    def _run(self) -> None:
        lock = Lock()
        lock.acquire()
        if self._work(lock):
            with self._lock:
                self._alive -= 1
            self.has_ended.set()
