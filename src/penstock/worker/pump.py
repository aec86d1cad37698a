"""The pump: one loop that reads, hands out, collects and settles for all groups of a process.

It owns the engines; nobody else touches them. Handlers run in the runner's threads and wake it when there are
results. Who should own what is told from outside (`attend`), and so is that the log has grown (`ring`). A
database that is away stops nothing for good: the loop waits with backoff, says so once, and goes on.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from threading import Event, Thread

from penstock.clock import Clock
from penstock.log.contract import Log, Topic
from penstock.membership.member import Member
from penstock.membership.serving import Domain
from penstock.outbox.sequencer import Ends

from .calling.runner import Runner
from .engine import Engine
from .patience import Patience, PollingSettings
from .shelf import Shelf
from .task import Task
from .transactional import TransactionalEngine
from .units import Units

log = logging.getLogger("penstock.delivery")

_IN_FLIGHT = 4000  # tasks handed to the runner and not finished,
_LEAST_IN_FLIGHT = 500  # shared among the groups; but so many of each: none takes the place of another
_RUN = 100  # records of one key that a handler gets one after the other, without a word in between
_SETTLE_RESULTS = 2000  # results that are settled at once,
_SETTLE_SECONDS = 0.02  # and how long the first of them waits while handlers are busy
_LONGEST_WAIT_SECONDS = 5.0
_LEAST_WAIT_SECONDS = 0.001
_BREATH_SECONDS = 0.0001  # lets handlers begin before the next turn: a wait of nothing would not


class Pump:
    """Runs in a thread of its own between `start` and `stop`."""

    def __init__(
        self,
        log: Log,
        member: Member,
        clock: Clock,
        *,
        polling: PollingSettings,
        runner: Callable[[Callable[[], None], Callable[[], bool]], Runner],
        unit_threads: int,
    ) -> None:
        self._log, self._member, self._clock = log, member, clock
        self._wake, self._stopping = Event(), Event()
        self._runner = runner(self._wake.set, self._may_start)
        self._units = Units(threads=unit_threads, clock=clock, wake=self._wake.set)
        self._engines: dict[tuple[str, str], Engine] = {}
        self._topics: dict[str, Topic] = {}
        self._domains: dict[Domain, Engine] = {}
        self._new: deque[tuple[Domain, Engine, Topic]] = deque()
        self._attention: deque[Domain] = deque()
        self._patience = Patience("delivery", polling)
        self._rung = True
        self._next_look = 0.0
        self._ends: dict[str, dict[int, int]] = {}
        self._grown: deque[Ends] = deque()
        self._shelf = Shelf(log, clock)
        self._in_flight = self._unsettled = self._units_turn = 0
        self._first_result = 0.0
        self._lapses = member.lapses
        self._grace_ends: float | None = None
        self._thread: Thread | None = None

    # -- from other threads

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread = Thread(target=self._run, name="penstock-delivery", daemon=True)
        self._thread.start()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let async handlers run in this event loop; before `start`."""
        self._runner.use_loop(loop)

    def adopt(self, domain: Domain, engine: Engine, topic: Topic) -> None:
        """Take in the engine of a group on a topic."""
        self._new.append((domain, engine, topic))
        self._wake.set()

    def attend(self, domains: Iterable[Domain]) -> None:
        """Say that something may have to be taken or released there."""
        self._attention.extend(domains)
        self._wake.set()

    def ring(self) -> None:
        """Say that the log has grown; the next look comes at once."""
        self._rung = True
        self._wake.set()

    def grown(self, ends: Ends) -> None:
        """Say how far the log has grown: no look is needed to know it."""
        self._grown.append(ends)
        self._wake.set()

    def stop(self, grace_seconds: float) -> None:
        """Start nothing more, wait so long for what runs, settle it and give everything back."""
        if self._grace_ends is None:  # else somebody was in a hurry already
            self._grace_ends = self._clock.monotonic() + grace_seconds
        self._stopping.set()
        self._wake.set()

    def hurry(self) -> None:
        """Wait no longer for what runs."""
        self._grace_ends = 0.0
        self._wake.set()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the end of the loop; return whether it has come."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    # -- the loop

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                pause = self._turn()
                self._patience.is_well()
            except Exception as exc:
                pause = self._patience.trouble(exc)
            self._wake.wait(pause)
        self._wind_down()

    def _turn(self) -> float:
        """Do what can be done now; return how long there will be nothing to do."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        self._collect()
        self._exchange()
        if self._unsettled and self._settling_is_due(now):
            self._settle()
        if not self._is_live():
            return self._pause(now, now_ms)
        filled = self._fill(now)
        self._start()
        return _BREATH_SECONDS if filled else self._pause(now, now_ms)

    def _collect(self) -> None:
        results = self._runner.finished()
        for task, verdict in results:
            engine = self._engine_of(task)
            engine.finish(task, verdict)
            engine.in_flight -= 1
        self._came_back(len(results))
        trouble: Exception | None = None
        for unit in self._units.finished():
            self._came_back(len(unit.tasks))
            engine = self._engine_of(unit.tasks[0])
            assert isinstance(engine, TransactionalEngine)
            try:
                engine.conclude(unit)
            except Exception as exc:
                trouble = exc
        if trouble is not None:
            raise trouble

    def _came_back(self, count: int) -> None:
        if not count:
            return
        if not self._unsettled:
            self._first_result = self._clock.monotonic()
        self._unsettled += count
        self._in_flight -= count

    def _settling_is_due(self, now: float) -> bool:
        return (
            not self._in_flight
            or self._unsettled >= _SETTLE_RESULTS
            or now - self._first_result >= _SETTLE_SECONDS
            or any(engine.is_held_up for engine in self._engines.values())
        )

    def _settle(self) -> None:
        for engine in self._engines.values():
            engine.settle()
            self._tell_share(engine)
        self._unsettled = 0

    def _fill(self, now: float) -> bool:
        """Read on, as far as the log is known to go; look how far that is when rung or when it is time."""
        looked = self._rung or now >= self._next_look
        if looked:
            self._rung = False
            for name, topic in self._topics.items():
                self._ends[name] = self._log.ends(topic)
        self._grow()
        self._shelf.tidy()
        filled = False
        for engine in self._engines.values():
            filled |= engine.fill(self._ends[engine.topic])
        if filled and not self._unsettled:  # what no handler wants is settled, too
            self._unsettled, self._first_result = 1, now
        if looked:
            self._next_look = now + (self._patience.active() if filled else self._patience.idle())
        return filled

    def _grow(self) -> None:
        """Take in how far the log is said to have grown."""
        names = {topic.id: name for name, topic in self._topics.items()} if self._grown else {}
        while self._grown:
            for (topic_id, partition), end in self._grown.popleft().items():
                if topic_id in names:
                    known = self._ends[names[topic_id]]
                    known[partition] = max(end, known.get(partition, 0))

    def _start(self) -> None:
        share = max(_LEAST_IN_FLIGHT, _IN_FLIGHT // max(1, len(self._engines)))
        for engine in self._engines.values():
            if isinstance(engine, TransactionalEngine):
                continue
            room = share - engine.in_flight
            tasks = engine.start(room, _RUN) if room > 0 else []
            if tasks:
                count = sum(1 + task.more for task in tasks)
                engine.in_flight += count
                self._in_flight += count
                self._runner.submit(tasks)
        self._start_units()

    def _start_units(self) -> None:
        """Share the free threads among the groups that commit with their cursors, each turn another first."""
        engines = [each for each in self._engines.values() if isinstance(each, TransactionalEngine)]
        self._units_turn += 1
        first = self._units_turn % len(engines) if engines else 0
        for left, engine in zip(range(len(engines), 0, -1), engines[first:] + engines[:first], strict=True):
            units = engine.start_units(-(-self._units.free() // left))
            self._in_flight += sum(len(unit.tasks) for unit in units)
            self._units.submit(units)

    def _pause(self, now: float, now_ms: int) -> float:
        """Return how long until something is due; what is due already waits for a result."""
        until = [max(self._next_look, now + _LEAST_WAIT_SECONDS)]
        if self._unsettled:
            until.append(self._first_result + _SETTLE_SECONDS)
        for engine in self._engines.values():
            due_ms = engine.next_due_ms()
            if due_ms is not None and due_ms > now_ms:
                until.append(now + (due_ms - now_ms) / 1000)
        return min(max(0.0, min(until) - now), _LONGEST_WAIT_SECONDS)

    # -- ownership

    def _is_live(self) -> bool:
        """Return whether this member may start handlers; after a lapse it asks first what it still owns."""
        if not self._member.is_live():
            return False
        if self._lapses != self._member.lapses:
            lapses = self._member.lapses
            for engine in self._engines.values():
                self._see_to(engine)
            self._lapses = lapses
        return True

    def _may_start(self) -> bool:
        return self._member.is_live() and self._lapses == self._member.lapses

    def _exchange(self) -> None:
        """Take in new engines; take and release what has changed hands."""
        while self._new:
            domain, engine, topic = self._new.popleft()
            self._engines[engine.subscription.group, engine.topic] = engine
            self._topics[topic.name] = topic
            self._ends.setdefault(topic.name, {})
            self._domains[domain] = engine
            self._shelf.expect(topic)
            engine.read_through(self._shelf)
            self._attention.append(domain)
        seen: set[Domain] = set()
        while self._attention:
            domain = self._attention[0]
            if domain not in seen and domain in self._domains:
                self._see_to(self._domains[domain])
                seen.add(domain)
            self._attention.popleft()  # only now: what fails is seen to again
        for engine in self._engines.values():
            if engine.needs_check:
                self._see_to(engine)
                engine.needs_check = False
            engine.release_idle()

    def _see_to(self, engine: Engine) -> None:
        self._shelf.clear()
        engine.check()
        self._take_back(engine)
        engine.take_wanted(self._member.living)
        self._tell_share(engine)
        self._rung = True

    def _tell_share(self, engine: Engine) -> None:
        """Let handlers have the share of their rate that goes with what is owned and kept."""
        if engine.subscription.has_rate:
            self._runner.change_share(engine.subscription.group, engine.topic, engine.share())

    def _take_back(self, engine: Engine) -> None:
        """Take back the tasks of partitions that are lost or to be let go, as far as they have not begun."""
        key = engine.subscription.group, engine.topic

        def is_over(task: Task) -> bool:
            handler = task.handler
            return (handler.group, handler.topic) == key and engine.is_over(task)

        tasks = self._runner.take_back(is_over)
        self._in_flight -= len(tasks)
        engine.in_flight -= len(tasks)
        engine.untake(tasks)

    def _engine_of(self, task: Task) -> Engine:
        return self._engines[task.handler.group, task.handler.topic]

    # -- the end

    def _wind_down(self) -> None:
        """Let what runs come to its end, settle, give back; never fail."""
        for engine in self._engines.values():
            engine.let_go()
        for task in self._runner.take_back(None):
            self._in_flight -= 1
            self._engine_of(task).untake([task])
        while self._in_flight and self._clock.monotonic() < (self._grace_ends or 0.0):
            self._wake.clear()
            self._quietly(self._collect)
            if self._in_flight:
                self._wake.wait(0.05)
            self._quietly(self._give_back_idle)
        running, in_units = self._runner.close(0.0), self._units.close(0.0)
        self._quietly(self._collect)
        for task in running:
            self._engine_of(task).interrupt(task)
        for task in running + in_units:
            log.warning(
                "handler %s still runs on %s %s after the grace period; it will be delivered again",
                task.handler.id,
                task.record.type,
                task.record.id,
            )
        if self._quietly(self._settle) or self._quietly(self._settle):  # else: not given back, but lost,
            self._quietly(self._release)  # so that whoever takes over knows that some come again

    def _give_back_idle(self) -> None:
        for engine in self._engines.values():
            engine.release_idle()

    def _release(self) -> None:
        for engine in self._engines.values():
            engine.release()

    def _quietly(self, step: Callable[[], None]) -> bool:
        """Take a step and return whether it went well."""
        try:
            step()
        except Exception as exc:
            self._patience.said_once(
                exc, "could not settle all; what is left is delivered again by another, after the lease"
            )
            return False
        return True
