"""Threads for sync handlers: started when needed, asleep when idle, replaced when they hang."""

from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any

from .thread_queue import ThreadQueue


class ThreadPool:
    """The threads of the pool, and the count of those abandoned in calls that hang.

    A thread starts when a call may begin and none is idle. A thread whose call is over its time is abandoned
    and replaced; if its call ends after all, it rejoins the pool where a thread is missing. `HungCalls`
    decides how many may be abandoned. The pool counts and wakes threads; the function it is given does the
    work. Methods are for any thread.
    """

    def __init__(self, queue: ThreadQueue, work: Callable[[Any], bool]) -> None:
        """`work` runs in each thread, with the lock that the thread sleeps on.

        It returns whether the thread still belongs to the pool at its end.
        """
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
