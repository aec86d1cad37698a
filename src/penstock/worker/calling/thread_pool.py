"""Threads for sync handlers: started when needed, asleep when idle, replaced when they hang."""

from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any

from .thread_queue import ThreadQueue


class ThreadPool:
    """The threads that work, and those that were left behind in calls that hang.

    A thread starts when a call may begin and none is idle. One whose call is over its time is left behind and
    replaced; if its call ends after all, it joins again where a thread is missing. How many may be left
    behind is decided by `HungCalls`. The pool counts and wakes threads; what they do is the function that it
    is given. Methods are for any thread.
    """

    def __init__(self, queue: ThreadQueue, work: Callable[[Any], bool]) -> None:
        """`work` is what each thread runs, with the lock it sleeps on.

        It returns whether the thread still belongs to the pool then.
        """
        self.has_ended = Event()  # set when a thread ends
        self._queue, self._work = queue, work
        self._idle: deque[Any] = deque()  # the locks that idle threads sleep on, the latest sleeper last
        self._lock, self._alive, self._made = Lock(), 0, 0

    @property
    def alive(self) -> int:
        """How many threads work or sleep, without those that were left behind."""
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
        """Let the thread of this lock sleep until it is woken, unless it is needed already."""
        self._idle.append(lock)
        if is_needed():  # asked again: what came in after the last look found nobody asleep
            try:
                self._idle.remove(lock)
            except ValueError:
                lock.acquire()  # somebody is waking this very thread: take that
            return
        lock.acquire()

    def leave_behind(self) -> None:
        """Go on without a thread that hangs."""
        self.give_up()
        self.wake()

    def give_up(self) -> None:
        """Count a thread no longer: it is left behind."""
        with self._lock:
            self._alive -= 1

    def rejoin(self, *, wanted: bool) -> bool:
        """Ask, for a thread that was left behind and has come back, whether it is one of the pool again."""
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
