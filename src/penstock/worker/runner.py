"""Calls handlers for the worker: sync ones in a pool of threads, async ones in one event loop.

The pump, one thread, hands in tasks and fetches verdicts; it is woken when results wait, not for each of
them. Sync handlers without bounds of their own are taken from one queue, one task at a time, so that a slow
one delays no other; the rest wait at gates (`gate.py`). Threads start when they are needed first.

Invariant: a task that was begun stands in `_running` until somebody removes it; who removes it says its
verdict, and nobody else does. So a handler that ends after its timeout, or after `close`, is heard no more.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from datetime import timedelta
from itertools import zip_longest
from threading import Event, Lock, Thread
from typing import Any

from penstock import metrics
from penstock.clock import Clock
from penstock.delivery.verdict import Verdict
from penstock.errors import HandlerTimeout
from penstock.settings import Settings, setting

from .attempt import PASSED, after_answer, after_answers, after_error, count, last_try, needs_last_try
from .gate import Gate, Turn
from .handlers import Handler
from .loop import AsyncLoop
from .task import Task

log = logging.getLogger("penstock.handlers")

_MANY_RESULTS = 256  # so many are not kept waiting, even while handlers are busy
_RESULTS_SECONDS = 0.003  # nor any of them for longer
_ASYNC_CALLS = 64  # of one handler at once, unless it says another number
_LEFT_BEHIND = 4  # times the threads: so many may hang before they are replaced no more
_STUBBORN_SECONDS = 5.0  # an async handler that will not be cancelled is given up after so long
_STEP_SECONDS = 0.02
_WATCH_SECONDS = 1.0  # the watch looks at least so often while there is work
_SHORTEST_PAUSE = 0.001
_NOT_BEGUN = float("inf")  # for when a fallback began that still waits for a thread


class ProcessingSettings(Settings, room="processing"):
    """How much is done at once."""

    enabled: bool = setting(True, "Run workers here; false: they wait to be stopped and touch nothing.")
    concurrency: int = setting(8, "Threads for sync handlers, in each process.", at_least=1, at_most=1000)
    shutdown_timeout: timedelta = setting(
        timedelta(seconds=30), "How long a stop waits for handlers that run.", at_least=0
    )


class _LastTry:
    """A record that is about to be given up, on its way to its handler's fallback."""

    __slots__ = ("task", "verdict")

    def __init__(self, task: Task, verdict: Verdict) -> None:
        self.task, self.verdict = task, verdict

    @property
    def handler(self) -> Handler:
        return self.task.handler


_Running = Task | Turn | _LastTry


class Runner:
    """Runs handlers. All methods are for one thread, the pump's, unless they say otherwise."""

    def __init__(
        self,
        *,
        threads: int,
        clock: Clock,
        wake: Callable[[], None],
        may_start: Callable[[], bool] | None = None,
    ) -> None:
        """`wake` is called from other threads when results wait; `may_start` before each call begins."""
        self._size, self._clock, self._wake = threads, clock, wake
        self._may_start = may_start
        self._context = copy_context()
        self._queue: deque[Task | Gate] = deque()
        self._last_tries: deque[_LastTry] = deque()
        self._gates: dict[str, Gate] = {}
        self._shares: dict[tuple[str, str], float] = {}  # of the rates, by group and topic
        self._running: dict[_Running, float] = {}  # each with the moment it began
        self._results: deque[tuple[Task, Verdict | None, float]] = deque()
        self._told = self._promised = self._held_back = self._closing = False
        self._idle: deque[Any] = deque()  # the locks that idle threads sleep on, the latest sleeper last
        self._pool_lock, self._alive, self._left, self._made = Lock(), 0, 0, 0
        self._loop = AsyncLoop()
        self._watch: Thread | None = None
        self._bell, self._quiet, self._watch_sleeps = Event(), Event(), False
        self._shortest = _WATCH_SECONDS  # of the timeouts seen so far
        self._outstanding = 0  # handed in and not handed out again

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let async handlers run in a loop that others run; before the first task."""
        self._loop.use(loop)

    def change_share(self, group: str, topic: str, share: float) -> None:
        """Say which part of a topic's partitions a group has here: so much of its rates is for us."""
        if self._shares.get((group, topic)) == share:
            return
        self._shares[group, topic] = share
        for gate in list(self._gates.values()):
            if (gate.handler.group, gate.handler.topic) == (group, topic):
                gate.change_share(share, self._clock.monotonic())
                self._grant(gate)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Let handlers be called for tasks, as soon as there is room."""
        self._outstanding += sum(1 + task.more for task in tasks)
        handlers = {task.handler for task in tasks}
        for handler in handlers:
            self._shortest = min(self._shortest, handler.timeout_seconds or _WATCH_SECONDS)
        if all(handler.is_plain for handler in handlers):
            self._enqueue(tasks)
            self._rouse(len(tasks))
        else:
            self._submit_apart(tasks)
        if self._watch_sleeps or self._watch is None:
            self._keep_watch()

    def finished(self) -> list[tuple[Task, Verdict | None]]:
        """Return the verdicts that have come in since the last call; never waits.

        None: it was not begun, since the one before it in its run did not pass.
        """
        self._told = False  # before the look: a result that comes after it wakes the pump again
        results, found = self._results, list[tuple[Task, Verdict | None]]()
        by_handler: dict[Handler, tuple[list[Verdict], list[float]]] = {}
        for _ in range(len(results)):
            task, verdict, seconds = results.popleft()
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
        self._outstanding -= len(found)
        return found

    def take_back(self, wanted: Callable[[Task], bool] | None = None) -> list[Task]:
        """Remove the tasks that have not begun, all or those that match, and return them."""
        wanted = wanted or _any
        found, kept = list[Task](), list[Task | Gate]()
        for _ in range(len(self._queue)):
            try:
                item = self._queue.popleft()
            except IndexError:  # a thread was quicker
                break
            if isinstance(item, Task) and wanted(item):
                found.extend(item.run())
            else:
                kept.append(item)
        self._queue.extend(kept)
        for gate in self._gates.values():
            found += gate.take_back(wanted)
        self._outstanding -= len(found)
        if kept and not self._closing:
            self._rouse(len(kept))
        return found

    def waiting(self) -> int:
        """Return how many tasks have not begun."""
        gates = list(self._gates.values())
        turns = sum(gate.granted for gate in gates if not gate.handler.binding.is_async)
        following = sum(item.more for item in list(self._queue) if isinstance(item, Task))
        return max(0, len(self._queue) - turns) + following + sum(map(len, gates))

    def running(self) -> int:
        """Return how many tasks have begun and are not fetched by `finished` yet."""
        return max(0, self._outstanding - self.waiting())

    def close(self, grace_seconds: float) -> list[Task]:
        """Start nothing more, wait so long for what runs, and return the tasks that still run then.

        What those answer later is dropped. `take_back` and `finished` still give what is there.
        """
        self._closing = True
        self._rouse_all()
        for _ in range(int(grace_seconds / _STEP_SECONDS) + 1):
            if not self._running and not self._alive:
                break
            self._quiet.wait(_STEP_SECONDS if grace_seconds else 0)
            self._quiet.clear()
            self._rouse_all()
        left = list[Task]()
        for item in list(self._running):
            since = self._running.pop(item, None)
            if since is not None:
                left += _tasks_of(item)
                self._leave_out(item)
                in_thread = not isinstance(item, Turn) or not item.is_async
                if in_thread and since != _NOT_BEGUN:
                    with self._pool_lock:
                        self._alive, self._left = self._alive - 1, self._left + 1
        self._loop.stop(1.0)
        self._bell.set()
        self._outstanding -= len(left)
        return left

    def look(self) -> None:
        """End what is over its time, begin what its rate or a new lease lets begin. From any thread."""
        now = self._clock.monotonic()
        for item, since in list(self._running.items()):
            limit = item.handler.timeout_seconds
            if limit is not None and now - since >= limit:
                self._time_out(item, limit, now)
        again = self._held_back and self._may_begin()
        if again:
            self._held_back = False
            self._rouse(len(self._queue))
        for gate in list(self._gates.values()):
            if again or gate.handler.rate is not None:
                self._grant(gate)

    def _submit_apart(self, tasks: Sequence[Task]) -> None:
        gated: dict[str, list[Task]] = {}
        plain = []
        for task in tasks:
            if task.handler.is_plain:
                plain.append(task)
            else:
                gated.setdefault(task.handler.id, []).append(task)
        self._enqueue(plain)
        self._rouse(len(plain))
        now = self._clock.monotonic()
        for id, some in gated.items():
            gate = self._gates.get(id)
            if gate is None:
                handler = some[0].handler
                usual = _ASYNC_CALLS if handler.binding.is_async else self._size
                share = self._shares.get((handler.group, handler.topic), 1.0)
                gate = self._gates[id] = Gate(handler, handler.concurrency or usual, now, share)
            gate.add(some)
            self._grant(gate)

    def _enqueue(self, tasks: Sequence[Task]) -> None:
        """Let tasks wait for a thread; between those of other groups, one by one, not behind them all.

        The tasks of a group that is slow may be many; what is queued is of different keys, so its order is
        nobody's concern.
        """
        queue = self._queue
        if not tasks or len(queue) <= self._size or not self._is_other(tasks[0].handler.group):
            queue.extend(tasks)
            return
        before = list[Task | Gate]()
        with suppress(IndexError):  # the threads take from it meanwhile
            while True:
                before.append(queue.popleft())
        for one, other in zip_longest(before, tasks):
            if one is not None:
                queue.append(one)
            if other is not None:
                queue.append(other)

    def _is_other(self, group: str) -> bool:
        """Return whether the last that waits is of another group: then those before it may be, too."""
        try:
            last = self._queue[-1]
        except IndexError:
            return False
        return isinstance(last, Gate) or last.handler.group != group

    # Threads

    def _rouse(self, many: int) -> None:
        """Wake or start threads for so many calls; fewer when all are busy."""
        for _ in range(min(many, self._size)):
            try:
                self._idle.pop().release()
            except IndexError:
                if not self._spawn():
                    return

    def _rouse_all(self) -> None:
        while self._idle:
            try:
                self._idle.pop().release()
            except IndexError:
                return

    def _spawn(self) -> bool:
        if self._alive >= self._size:
            return False
        with self._pool_lock:
            if self._alive >= self._size or self._alive + self._left >= (1 + _LEFT_BEHIND) * self._size:
                return False
            self._alive += 1
            self._made += 1
            name = f"penstock-handler-{self._made}"
        Thread(target=self._work, name=name, daemon=True).start()
        return True

    def _rest(self, bed: Any) -> None:
        """Sleep until there may be something to do."""
        self._idle.append(bed)
        if self._last_tries or self._closing or (self._queue and not self._held_back):
            try:  # it came between the look and lying down
                self._idle.remove(bed)
            except ValueError:
                bed.acquire()  # somebody is waking this very thread: take that
            return
        bed.acquire()

    def _work(self) -> None:
        """One thread: take one item after the other, rest when there is none."""
        bed = Lock()
        bed.acquire()
        queue, last_tries, results, running = self._queue, self._last_tries, self._results, self._running
        may_start, monotonic, clock = self._may_start, self._clock.monotonic, self._clock
        copied = self._context.copy
        now = monotonic()
        following: Task | None = None
        item: Task | Gate
        while True:
            if last_tries and following is None:
                if not self._try_last():
                    return
                now = monotonic()
            if self._closing:
                if following is not None:
                    queue.appendleft(following)
                break
            if following is not None:
                item, following = following, None
            else:
                try:
                    item = queue.popleft()
                except IndexError:
                    self._rest(bed)
                    now = monotonic()
                    continue
            if may_start is not None and not may_start():
                self._hold_back(item)
                self._rest(bed)
                now = monotonic()
                continue
            if not isinstance(item, Task):
                if not self._take_turn(item, now):
                    return
                now = monotonic()
                continue
            handler, record = item.handler, item.record
            running[item] = now
            try:
                answer = copied().run(handler.binding.call, record)
                if answer is None:
                    verdict: Verdict = PASSED
                else:
                    if inspect.isawaitable(answer):
                        answer = self._loop.answer(_given, answer)
                    verdict = after_answer(handler, record, answer, failures=item.failures, clock=clock)
            except BaseException as error:
                verdict = after_error(handler, record, error, failures=item.failures, clock=clock)
            began, now = now, monotonic()
            if running.pop(item, None) is None:
                if not self._came_late(item):
                    return
            elif verdict is PASSED:
                results.append((item, verdict, now - began))
                following = item.next
                if not self._told:
                    self._tell(following is not None or bool(queue))
            else:
                self._leave_out(item)  # first: the verdict may have this one handed out again at once
                self._finish(item, verdict, now - began)
        with self._pool_lock:
            self._alive -= 1
        self._quiet.set()

    def _hold_back(self, item: Task | Gate) -> None:
        """Put back what may not begin now; `look` or the next `submit` comes back to it."""
        if isinstance(item, Task):
            self._queue.appendleft(item)
        else:
            item.give_back()
        self._held_back = True  # last: a look in between would take the flag down and find nothing

    def _take_turn(self, gate: Gate, now: float) -> bool:
        """Make one call of a gated sync handler; return whether this thread is still of the pool."""
        turn = gate.begin(now)
        if turn is None:
            self._bell.set()  # its rate has given all it had: the watch says when it goes on
            return True
        self._running[turn] = now
        answer, error = None, None
        try:
            answer = self._loop.answer(self._context.copy().run, turn.call)
        except BaseException as raised:
            error = raised
        if self._running.pop(turn, None) is None:
            return self._came_late(turn)
        self._conclude(turn, answer, error, self._clock.monotonic() - now)
        more = self._granted(gate)
        self._queue.extend([gate] * more)
        self._rouse(more - 1)  # the first is for this thread
        return True

    def _try_last(self) -> bool:
        """Call the fallback of a record that would be given up; return as `_take_turn` does."""
        try:
            last = self._last_tries.popleft()
        except IndexError:
            return True
        task = last.task
        began = self._running[last] = self._clock.monotonic()
        verdict = last_try(self._loop, task.handler, task.record, last.verdict)
        if self._running.pop(last, None) is None:
            return self._came_late(task)
        self._report(task, verdict, self._clock.monotonic() - began)
        return True

    def _came_late(self, item: Task | Turn) -> bool:
        """Say that an answer is dropped; return whether this thread, replaced meanwhile, is needed again."""
        for task in item.tasks if isinstance(item, Turn) else [item]:
            log.warning(
                "handler %s ended on %s %s (key %r) after it was given up; what it answered is dropped",
                task.handler.id,
                task.record.type,
                task.record.id,
                task.record.key,
            )
        with self._pool_lock:
            self._left -= 1
            needed = self._alive < self._size and not self._closing
            self._alive += needed
            return needed

    # The loop

    def _grant(self, gate: Gate) -> None:
        """Let a gate's tasks begin, as many as may. From any thread."""
        turns = self._granted(gate)
        if turns and gate.handler.binding.is_async:
            self._loop.call(self._begin, gate, turns)
        elif turns:
            self._queue.extend([gate] * turns)
            self._rouse(turns)

    def _granted(self, gate: Gate) -> int:
        """Return how many turns a gate grants now; the watch sees to those that wait for their rate."""
        turns = 0 if self._closing else gate.grant(self._clock.monotonic())
        if gate.handler.rate is not None and not turns and len(gate):
            self._bell.set()
        return turns

    def _begin(self, gate: Gate, turns: int) -> None:
        """Begin calls of an async handler. In the loop's thread."""
        for _ in range(turns):
            if self._closing or not self._may_begin():
                gate.give_back()
                self._held_back = True
                continue
            now = self._clock.monotonic()
            turn = gate.begin(now)
            if turn is None:
                self._bell.set()
            else:
                self._running[turn] = now
                turn.running = self._loop.task(self._await(turn, now), self._context.copy())

    async def _await(self, turn: Turn, began: float) -> None:
        answer, error = None, None
        try:
            answer = turn.call()
            if inspect.isawaitable(answer):
                answer = await answer
        except BaseException as raised:  # a cancellation too: it is ours, or the handler's own failure
            error = raised
        if turn.cancelled_at is not None:
            error = HandlerTimeout(turn.handler.id, turn.handler.timeout_seconds or 0)
        if self._running.pop(turn, None) is not None:
            self._conclude(turn, answer, error, self._clock.monotonic() - began)
            self._begin(turn.gate, self._granted(turn.gate))
        elif not self._closing:
            log.warning(
                "async handler %s ended after it was given up; its answer is dropped", turn.handler.id
            )

    # Results, from any thread

    def _conclude(self, turn: Turn, answer: Any, error: BaseException | None, seconds: float) -> None:
        """End a turn: say the verdicts on its tasks, or let each be called alone."""
        clock, ready = self._clock, turn.ready
        turn.gate.end()
        for task, undecodable in turn.undecodable:
            verdict = after_error(task.handler, task.record, undecodable, failures=task.failures, clock=clock)
            self._finish(task, verdict, 0.0)
        each = seconds / max(1, len(ready))
        if error is not None and len(ready) > 1:
            log.warning(
                "handler %s failed on a batch of %d: %r; each is called alone",
                turn.handler.id,
                len(ready),
                error,
            )
            turn.gate.repeat_alone(ready)
        elif error is not None:
            for task in ready:
                verdict = after_error(task.handler, task.record, error, failures=task.failures, clock=clock)
                self._finish(task, verdict, each)
        elif ready:
            asked = [(task.record, task.failures) for task in ready]
            verdicts = after_answers(ready[0].handler, asked, answer, clock)
            for task, verdict in zip(ready, verdicts, strict=True):
                self._finish(task, verdict, each)

    def _finish(self, task: Task, verdict: Verdict, seconds: float) -> None:
        """Hand a verdict to the pump, or the record to its handler's fallback."""
        if needs_last_try(task.handler, verdict, task.failures):
            last = _LastTry(task, verdict)
            self._running[last] = _NOT_BEGUN
            self._last_tries.append(last)
            self._rouse(1)
        else:
            self._report(task, verdict, seconds)

    def _leave_out(self, item: _Running) -> None:
        """Hand back those that follow a task in its run and will not be begun."""
        if isinstance(item, Task) and item.next is not None:
            for task in item.next.run():
                self._results.append((task, None, 0.0))
            if not self._told:  # the verdict on the first may be long in coming: it may have a fallback
                self._tell(bool(self._queue))

    def _report(self, task: Task, verdict: Verdict, seconds: float) -> None:
        self._results.append((task, verdict, seconds))
        if not self._told:
            gate = None if task.handler.is_plain else self._gates.get(task.handler.id)
            self._tell(bool(self._queue) or (gate is not None and len(gate) > 0))

    def _tell(self, more: bool) -> None:
        """Wake the pump: at once if nothing more is to come or many results wait, else soon."""
        if not more or len(self._results) >= _MANY_RESULTS or self._watch is None:
            self._told = True
            self._wake()
        elif not self._promised:
            self._promised = True
            self._bell.set()

    # Watching

    def _may_begin(self) -> bool:
        return self._may_start is None or self._may_start()

    def _time_out(self, item: _Running, limit: float, now: float) -> None:
        """End the wait for one call: an async one is cancelled, the thread of a sync one left behind."""
        if isinstance(item, Turn) and item.is_async:
            if item.running is None:
                return  # the loop is just beginning it
            if item.cancelled_at is None:
                item.cancelled_at = now
                self._loop.call(item.running.cancel)
                return
            if now - item.cancelled_at < _STUBBORN_SECONDS:
                return
        if self._running.pop(item, None) is None:
            return  # it has just ended
        error = HandlerTimeout(item.handler.id, limit)
        if isinstance(item, Turn):
            if not item.is_async:
                self._leave_behind()
            self._conclude(item, None, error, limit)
            self._grant(item.gate)
        elif isinstance(item, Task):
            self._leave_behind()
            verdict = after_error(item.handler, item.record, error, failures=item.failures, clock=self._clock)
            self._leave_out(item)
            self._finish(item, verdict, limit)
        else:
            self._leave_behind()
            log.error("the fallback of handler %s: %s", item.handler.id, error)
            self._report(item.task, item.verdict, limit)

    def _leave_behind(self) -> None:
        with self._pool_lock:
            self._alive -= 1
            self._left += 1
            stuck = self._alive + self._left >= (1 + _LEFT_BEHIND) * self._size
        if stuck:
            log.error("%d handlers hang beyond their timeout; no more threads are started", self._left)
        self._rouse(len(self._queue))

    def _keep_watch(self) -> None:
        if self._watch is None:
            self._watch = Thread(target=self._watching, name="penstock-handler-watch", daemon=True)
            self._watch.start()
        self._bell.set()

    def _watching(self) -> None:
        """The watch's thread: looks now and then while there is work, sleeps while there is none."""
        while not self._closing or self._running:
            self._bell.wait(self._pause())
            self._watch_sleeps = False
            self._bell.clear()
            if self._promised:
                self._quiet.wait(_RESULTS_SECONDS)
                self._promised = False
                if self._results and not self._told:
                    self._told = True
                    self._wake()
            self.look()

    def _pause(self) -> float | None:
        """Return how long the watch may sleep: None for until the bell rings."""
        if not self._outstanding:
            self._watch_sleeps = True
            if not self._outstanding:
                return None
        now = self._clock.monotonic()
        due = [each for gate in list(self._gates.values()) if (each := gate.due(now)) is not None]
        soonest = min(due, default=now + _WATCH_SECONDS) - now
        return max(_SHORTEST_PAUSE, min(soonest, self._shortest / 4, _WATCH_SECONDS))


def _tasks_of(item: _Running) -> list[Task]:
    if isinstance(item, Turn):
        return item.tasks
    return [item] if isinstance(item, Task) else [item.task]


def _any(task: Task) -> bool:
    return True


def _given(answer: Any) -> Any:
    return answer
