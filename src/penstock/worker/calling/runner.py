"""Calls handlers for the delivery loop: sync ones in a pool of threads, async ones in one event loop.

The delivery loop, one thread, hands in tasks and fetches verdicts; it is woken when results wait, but not for each.
Threads take tasks of sync handlers without limits from the groups' queues, one at a time, so that a slow task delays no
other; the rest wait at limiters.

The way of a task: `ThreadQueue` or `Limiters` hold it until it may begin (`Permission`); `SyncCalls` in a thread of
the `ThreadPool`, or `AsyncCalls` in the loop, make the call; `Verdicts` decides on its end, and `Results` keeps the
verdict. `BegunCalls` knows whose answer counts; `Watch` and `Timeouts` give up calls that take too long, `HungCalls`
groups with many of them.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from datetime import timedelta
from math import inf
from threading import Event, Thread

from penstock.clock import SYSTEM, Clock
from penstock.delivery.verdict import Verdict
from penstock.errors import HandlerTimeout
from penstock.settings import Settings, setting

from ..handler import Handler, HandlerTask, about_record
from .calls import AsyncCalls, Limiters, RunnerState, SyncCalls
from .hung_calls import HungCalls
from .limiter import LimitedCall, Limiter
from .loop import AsyncLoop
from .thread_pool import NOT_BEGUN, BegunCall, BegunCalls, Permission, ThreadPool, ThreadQueue, tasks_of
from .verdicts import Results, Verdicts

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
    """Joins the parts that call handlers. All methods are for the delivery loop's thread, unless they say otherwise."""

    def __init__(
        self,
        *,
        threads: int,
        clock: Clock,
        wake: Callable[[], None],
        may_start: Callable[[], bool] | None = None,
        hung: HungCalls | None = None,
    ) -> None:
        """`wake` is called when results wait, `may_start` before each call; `hung` may be shared with others."""
        self._bell, self._clock, self._outstanding = Event(), clock, 0
        self._permission, self._begun = Permission(may_start), BegunCalls()
        self._hung = hung or HungCalls(threads=threads, clock=clock)
        self._results, self._queue = Results(wake, self._bell.set), ThreadQueue(threads)
        self._pool = ThreadPool(self._queue, lambda lock: sync.work(lock))
        self._loop = AsyncLoop()
        self._verdicts = Verdicts(clock, self._results, self._queue, self._begun, self._pool.wake)
        calls = self._permission, self._hung, self._begun, self._results, self._verdicts
        state = RunnerState(clock, copy_context(), *calls, self._queue, self._pool, self._loop)
        sync = SyncCalls(state)
        self._limiters = Limiters(state, sync, AsyncCalls(state), rate_is_dry=self._bell.set)
        self._timeouts = Timeouts(state, self._limiters)
        self._watch = Watch(self._bell, self._results, look=self.look, pause=self._pause, is_over=self._is_over)

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let async handlers run in a loop that the caller runs; before the first task."""
        self._loop.use(loop)

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
        if limited:
            self._limiters.submit(limited)
        self._watch.keep()

    def finished(self) -> list[tuple[HandlerTask, Verdict | None]]:
        """Return the verdicts since the last call; None: not begun, because the one before it did not pass."""
        found = self._results.take()
        self._outstanding -= len(found)
        return found

    def expect(self, *, awaited: bool) -> bool:
        """Set whether to be woken for plain passes; return whether some wait already."""
        return self._results.expect(awaited=awaited)

    def take_back(self, wanted: Callable[[HandlerTask], bool] | None = None) -> list[HandlerTask]:
        """Remove the tasks that have not begun, all or those that match, and return them."""
        wanted = wanted or (lambda task: True)
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
        """Start nothing more, wait `grace_seconds`, and return the tasks that still run: their answers are dropped."""
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


logger = logging.getLogger("penstock.handlers")

_LONGEST_LOOK_SECONDS = 1.0  # the longest time between two checks, whatever the time-outs
_STUBBORN_SECONDS = 5.0  # how long an async handler may take to be cancelled


class Timeouts:
    """Ends the wait for calls that are over their time: the record counts as failed, and the rest goes on.

    An async call is cancelled, and given up if it does not end then. The thread of a sync one is abandoned and counted
    as hung, and its later answer is dropped. From any thread.
    """

    def __init__(self, state: RunnerState, limiters: Limiters) -> None:
        self._state, self._limiters = state, limiters
        self._shortest = inf

    @property
    def look_seconds(self) -> float:
        """How long to wait between two checks while calls are under way."""
        return min(self._shortest / 4, _LONGEST_LOOK_SECONDS)

    def expect(self, handlers: Iterable[Handler]) -> None:
        """Record the time-outs of handlers that are about to be called."""
        for handler in handlers:
            self._shortest = min(self._shortest, handler.timeout or inf)

    def look(self) -> None:
        """Give up the calls that are over their time."""
        now = self._state.clock.monotonic()
        for call, since in list(self._state.begun.items()):
            limit = call.handler.timeout
            if limit is not None and now - since >= limit and not self._is_cancelled(call, now):
                self._give_up(call, limit)

    def _is_cancelled(self, call: BegunCall, now: float) -> bool:
        """Cancel an async call that is over its time; return whether it may still end by that."""
        if not isinstance(call, LimitedCall) or not call.is_async:
            return False
        if call.running is None:
            return True  # the loop is just beginning it: cancelled at the next look
        if call.cancelled_at is None:
            call.cancelled_at = now
            self._state.loop.call(call.running.cancel)
            return True
        return now - call.cancelled_at < _STUBBORN_SECONDS

    def _give_up(self, call: BegunCall, limit: float) -> None:
        if self._state.begun.pop(call, None) is None:
            return  # it has just ended
        error, verdicts = HandlerTimeout(call.handler.id, limit), self._state.verdicts
        if not isinstance(call, LimitedCall) or not call.is_async:
            self._state.hung.begin(call, call.handler, limit)
            self._state.queue.end(call.handler.group)
            self._state.pool.leave_behind()
        if isinstance(call, LimitedCall):
            verdicts.after_limited(call, None, error, limit)
            self._limiters.grant(call.limiter)
        elif isinstance(call, HandlerTask):
            verdicts.leave_out(call)
            verdicts.after_failure(call, error, limit)
        else:
            fields = about_record(call.handler, call.task.record, error=str(error))
            logger.error("the fallback of handler %s: %s", call.handler.id, error, extra=fields)
            verdicts.report(call.task, call.verdict, limit)


_IDLE_SECONDS, _IDLE_CHECKS = 1.0, 10  # without work it checks so often before it sleeps
_RESULTS_SECONDS = 0.003  # how long results that are to be announced soon wait at most


class Watch:
    """A thread that checks running calls for time-outs, rates for tokens, and the lease for a renewal.

    It also wakes the delivery loop for results that were to be announced soon. It starts with the first work, sleeps
    once there has been none for a while, and ends once it is closed and nothing runs. The bell triggers a check at
    once.
    """

    def __init__(
        self,
        bell: Event,
        results: Results,
        *,
        look: Callable[[], None],
        pause: Callable[[], float | None],
        is_over: Callable[[], bool],
    ) -> None:
        """`pause` returns how long there is nothing to check; None: until there is work again."""
        self._bell, self._results = bell, results
        self._look, self._pause, self._is_over = look, pause, is_over
        self._wait_ends, self._idle_checks, self._never = -inf, 0, Event()
        self._thread: Thread | None = None

    def keep(self) -> None:
        """Ensure that the watch runs and checks soon enough, now that there is work."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="penstock-handler-watch", daemon=True)
            self._thread.start()
        elif SYSTEM.monotonic() + (self._pause() or 0.0) >= self._wait_ends:
            return
        self._bell.set()

    def _run(self) -> None:
        while not self._is_over():
            self._bell.wait(self._next_pause())
            self._wait_ends = -inf  # what comes in from here on is seen when the next pause is computed
            self._bell.clear()
            if self._results.is_due_soon:
                self._never.wait(_RESULTS_SECONDS)
                self._results.wake_if_due()
            self._look()

    def _next_pause(self) -> float | None:
        pause = self._pause()
        self._idle_checks = 0 if pause is not None else self._idle_checks + 1
        if pause is None and self._idle_checks <= _IDLE_CHECKS:
            pause = _IDLE_SECONDS
        self._wait_ends = inf if pause is None else SYSTEM.monotonic() + pause
        again = self._pause()  # checked again: work that came in before compared with an earlier end
        if pause is None or again is None:
            return again if pause is None else pause
        return min(pause, again)
