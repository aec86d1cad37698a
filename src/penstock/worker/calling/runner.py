"""Calls handlers for the delivery loop: sync ones in a pool of threads, async ones in one event loop.

The delivery loop, one thread, hands in tasks and fetches verdicts; it is woken when results wait, but not for
each result. Threads take tasks of sync handlers without limits from the groups' queues, one at a time, so
that a slow task delays no other; the rest wait at limiters.

| part            | owns                                                                   |
|-----------------|------------------------------------------------------------------------|
| `Permission`    | whether calls may begin                                                |
| `ThreadQueue`   | the calls that wait for a thread, and which of them may begin          |
| `ThreadPool`    | the threads: how many, and which of them sleep                         |
| `HungCalls`     | the abandoned threads, and the groups that are given up                |
| `SyncCalls`     | the calls made in threads                                              |
| `AsyncCalls`    | the calls made in the event loop                                       |
| `Limiters`      | tasks that wait for a bound, batch or rate; the groups' rate shares      |
| `BegunCalls`    | the calls that have begun, and so whose answer counts                  |
| `Verdicts`      | the consequences of how a call ended                                   |
| `Results`       | the verdicts that wait for the delivery loop                           |
| `Timeouts`      | the handling of calls that take too long                               |
| `Watch`         | the thread that checks for them                                        |
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import copy_context
from datetime import timedelta
from threading import Event

from penstock.clock import Clock
from penstock.delivery.verdict import Verdict
from penstock.settings import Settings, setting

from ..handler import HandlerTask
from .async_calls import AsyncCalls
from .begun_calls import NOT_BEGUN, BegunCalls, Permission, tasks_of
from .hung_calls import HungCalls
from .limiter import LimitedCall, Limiter
from .limiters import Limiters
from .loop import AsyncLoop
from .sync_calls import SyncCalls
from .thread_pool import ThreadPool, ThreadQueue
from .timeouts import Timeouts, Watch
from .verdicts import Results, RunnerState, Verdicts

_STEP_SECONDS = 0.02
_SHORTEST_PAUSE = 0.001


class ProcessingSettings(Settings, room="processing"):
    """How much is done at once."""

    enabled: bool = setting(True, "Run workers here; false: they wait to be stopped and touch nothing.")
    concurrency: int = setting(
        8,
        "Threads for sync handlers, in each process. Divided by its groups it is the share of each, at least "
        "one: while slow calls of other groups hold all threads, a group still gets so many, in new ones.",
        at_least=1,
        at_most=1000,
    )
    shutdown_timeout: timedelta = setting(
        timedelta(seconds=30), "How long a stop waits for handlers that run.", at_least=0
    )
    catch_up: timedelta = setting(
        timedelta(hours=1),
        "How old records may be that a group passed over and gets late, once it has a handler for them.",
        at_least=0,
    )
    error_text: str = setting(
        "redacted",
        "What reasons and logs say of an error: redacted (without the values that validation and database "
        "errors quote), full, or type (the names of the classes alone).",
        choices=("redacted", "full", "type"),
    )


class Runner:
    """Joins the parts that call handlers, and is the only part that the delivery loop uses.

    Its own state is one count: the tasks that were handed in and not returned yet. All methods are for one
    thread, the delivery loop's, unless they say otherwise.
    """

    def __init__(
        self,
        *,
        threads: int,
        clock: Clock,
        wake: Callable[[], None],
        may_start: Callable[[], bool] | None = None,
        hung: HungCalls | None = None,
    ) -> None:
        """`wake` is called from other threads when results wait; `may_start` before each call begins.

        `hung`: the counter of calls that hang, if it is shared with others.
        """
        self._bell, self._clock, self._outstanding = Event(), clock, 0
        self._permission, self._begun = Permission(may_start), BegunCalls()
        self._hung = hung or HungCalls(threads=threads, clock=clock)
        self._results, self._queue = Results(wake, self._bell.set), ThreadQueue(threads)
        self._pool = ThreadPool(self._queue, lambda lock: sync.work(lock))
        self._loop = AsyncLoop()
        self._verdicts = Verdicts(clock, self._results, self._queue, self._begun, self._pool.wake)
        state = RunnerState(
            clock=clock,
            context=copy_context(),
            permission=self._permission,
            hung=self._hung,
            begun=self._begun,
            results=self._results,
            verdicts=self._verdicts,
            queue=self._queue,
            pool=self._pool,
            loop=self._loop,
        )
        sync = SyncCalls(state)
        self._limiters = Limiters(state, sync, AsyncCalls(state), rate_is_dry=self._bell.set)
        self._timeouts = Timeouts(state, self._limiters)
        self._watch = Watch(self._bell, self._results, look=self.look, pause=self._pause, is_over=self._is_over)

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let async handlers run in a loop that the caller runs; before the first task."""
        self._loop.use(loop)

    def share(self, group: str, topic: str) -> float | None:
        """Return the fraction of its rates that a group may use here, if it was set."""
        return self._limiters.share(group, topic)

    def change_share(self, group: str, topic: str, share: float) -> None:
        """Set the fraction of a topic's partitions that a group owns here: it may use that part of a rate."""
        self._limiters.change_share(group, topic, share)

    def submit(self, tasks: Sequence[HandlerTask]) -> None:
        """Have handlers called for the tasks of one group, as soon as there is room."""
        self._outstanding += sum(1 + task.more for task in tasks)
        handlers = {task.handler for task in tasks}
        self._timeouts.expect(handlers)
        plain, limited = tasks, list[HandlerTask]()
        if not all(handler.is_plain for handler in handlers):
            plain = [task for task in tasks if task.handler.is_plain]
            limited = [task for task in tasks if not task.handler.is_plain]
        self._queue.add(plain)
        self._pool.wake()
        self._limiters.submit(limited)
        self._watch.keep()

    def finished(self) -> list[tuple[HandlerTask, Verdict | None]]:
        """Return the verdicts that have come in since the last call; never waits.

        None: the task was not begun, because the one before it in its run did not pass.
        """
        found = self._results.take()
        self._outstanding -= len(found)
        return found

    def expect(self, *, awaited: bool) -> bool:
        """Set whether to be woken for plain passes; return whether some wait already."""
        return self._results.expect(awaited=awaited)

    def take_back(self, wanted: Callable[[HandlerTask], bool] | None = None) -> list[HandlerTask]:
        """Remove the tasks that have not begun, all or those that match, and return them."""
        wanted = wanted or _any
        found = self._queue.take_back(wanted) + self._limiters.take_back(wanted)
        self._outstanding -= len(found)
        if not self._permission.is_closing:
            self._pool.wake()
        return found

    def waiting(self) -> int:
        """Return how many tasks have not begun."""
        return self._queue.count_tasks() + self._limiters.waiting()

    def running(self) -> int:
        """Return how many tasks have begun and are not fetched by `finished` yet."""
        return max(0, self._outstanding - self.waiting())

    def calls(self) -> list[tuple[HandlerTask, float]]:
        """Return the tasks in a call, and since when. From any thread."""
        begun = list(self._begun.items())
        return [(task, since) for call, since in begun if since != NOT_BEGUN for task in tasks_of(call)]

    def waiting_by_group(self) -> Counter[str]:
        """Return how many records of each group wait for a thread. From any thread."""
        return self._queue.waiting_by_group()

    def limited(self) -> list[tuple[Limiter, int, float | None]]:
        """Return the limiters that tasks wait at, how many, and how long the rate is dry. From any thread."""
        return self._limiters.dry(self._clock.monotonic())

    def close(self, grace_seconds: float) -> list[HandlerTask]:
        """Start nothing more, wait `grace_seconds` for running calls, and return the tasks that still run.

        Their later answers are dropped. `take_back` and `finished` still return the tasks and verdicts left.
        """
        self._permission.is_closing = True
        self._pool.wake_all()
        for _ in range(int(grace_seconds / _STEP_SECONDS) + 1):
            if not self._begun and not self._pool.alive:
                break
            self._pool.has_ended.wait(_STEP_SECONDS if grace_seconds else 0)
            self._pool.has_ended.clear()
            self._pool.wake_all()
        self._hung.close()
        left = self._give_up()
        self._loop.stop(1.0)
        self._bell.set()
        self._outstanding -= len(left)
        return left

    def look(self) -> None:
        """End calls that are over their time, begin calls that a rate or a new lease allows. Any thread."""
        self._timeouts.look()
        again = self._permission.is_given_again()
        if again:
            self._pool.wake()
        self._limiters.look(all=again)

    def _give_up(self) -> list[HandlerTask]:
        """Stop waiting for running calls, and return their tasks."""
        left = list[HandlerTask]()
        for call in list(self._begun):
            since = self._begun.pop(call, None)
            if since is None:
                continue
            left += tasks_of(call)
            self._verdicts.leave_out(call)
            in_thread = not isinstance(call, LimitedCall) or not call.is_async
            if in_thread and since != NOT_BEGUN:
                self._pool.give_up()
        return left

    def _is_over(self) -> bool:
        return self._permission.is_closing and not self._begun

    def _pause(self) -> float | None:
        """Return how long there is nothing to check; None without any work."""
        if not self._outstanding:
            return None
        now = self._clock.monotonic()
        pause, due = self._timeouts.look_seconds, self._limiters.next_due(now)
        return max(_SHORTEST_PAUSE, pause if due is None else min(due - now, pause))


def _any(task: HandlerTask) -> bool:
    return True
