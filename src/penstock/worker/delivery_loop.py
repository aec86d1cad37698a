"""The delivery loop: reads, hands out, collects and settles for all groups of a process, turn after turn.

It owns the groups' deliveries; no other code touches them. It has a thread of its own; a thread that has just
moved a few records may also make a turn, so that they reach their handlers sooner. One turn at a time; but
while this loop waits for the store to write results, the other thread may hand out more. Handlers run in the
runner's threads and wake it when there are results; in a trickle it fetches them itself, before it settles.
Other threads report changes of ownership (`attend`) and growth of the log (`ring`). When the database is
unavailable, the loop waits with back-off, logs it once, and goes on when the database is back.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from threading import Event, Lock, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock, own_ms
from penstock.delivery.store import Aside
from penstock.errors import Damaged, FileUnreadable
from penstock.log.contract import Log, Topic
from penstock.membership.member import Member
from penstock.membership.serving import Domain
from penstock.membership.status import MemberStatus
from penstock.outbox.sequencer import HeadEnds

from .calling.hung_calls import HungCalls
from .calling.runner import Runner
from .group import bounds
from .group.read_cache import ReadCache
from .group.trials import Trials
from .handed_over import HandedOver, TopicEntry
from .lease_check import LeaseCheck
from .log_ends import LogEnds
from .log_fields import about_record
from .served_groups import AnyDelivery, RunningGroup, ServedGroups
from .status import status_of
from .unit.unit_threads import UnitThreads
from .unsettled import FEW_RESULTS, Unsettled

logger = logging.getLogger("penstock.delivery")

_IN_FLIGHT = 4000  # tasks handed to the runner and not finished,
_LEAST_IN_FLIGHT = 500  # of each group, whatever the others have in flight
_TRIAL_SECONDS = 0.1  # how often to check whether the process is quiet, for a suspect that runs alone
_LONGEST_WAIT_SECONDS = 5.0
_LEAST_WAIT_SECONDS = 0.001
_BREATH_SECONDS = 0.0001  # lets handlers begin before the next turn: a wait of nothing would not


class DeliveryLoop:
    """Runs in a thread of its own between `start` and `stop`, turn after turn: collect results, exchange
    partitions, settle, read on, hand out, wait. It hands nothing to a group that is given up because its
    calls hang (`hung`). Its own state is when to settle and when to stop; its parts own the rest.
    """

    def __init__(
        self,
        log: Log,
        member: Member,
        clock: Clock,
        *,
        polling: PollingSettings,
        threads: int,
        trials: Trials | None = None,
        store: str = "",
        is_told: Callable[[], bool] = lambda: False,
    ) -> None:
        """`threads`: for handlers, and as many for units of work. `trials`: those of the groups it serves.

        `store`: its name in the series. `is_told`: whether a bell rings for new records in the log.
        """
        self._trials, self._threads = trials or Trials(clock), threads
        self._clock = clock
        self._wake, self._stopping = Event(), Event()
        self._backoff = Backoff("delivery", polling, is_told)
        self._ends, self._moved = LogEnds(log, self._backoff), HandedOver()
        self._cache, lease = ReadCache(log, clock), LeaseCheck(member)
        wake = self._wake.set
        self.hung = HungCalls(threads=threads, clock=clock, changed=wake, store=store)
        self._runner = Runner(
            threads=threads, clock=clock, wake=wake, may_start=lease.may_start, hung=self.hung
        )
        self._units = UnitThreads(
            threads=threads, clock=clock, wake=wake, hung=self.hung, may_start=lease.may_start
        )
        self._groups = ServedGroups(member, lease, self._runner, self._cache, self._ends)
        self._unsettled = Unsettled(gathers=own_ms(clock) is None)
        self._units_turn = 0
        self._one_turn, self._sleeps_until = Lock(), 0.0
        self._is_settling = False  # the loop's thread waits for the store, in the middle of its turn
        self._failure: Exception | None = None  # of the last turn that another thread made
        self._grace_ends: float | None = None
        self._abandoned = False
        self._thread: Thread | None = None

    # -- from other threads

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread = Thread(target=self._run, name="penstock-delivery", daemon=True)
        self._thread.start()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let async handlers run in this event loop; before `start`."""
        self._runner.use_loop(loop)

    def adopt(self, domain: Domain, delivery: AnyDelivery, topic: Topic) -> None:
        """Serve a group on a topic."""
        self._groups.adopt(domain, delivery, topic)
        self._wake.set()

    def attend(self, domains: Iterable[Domain]) -> None:
        """Report that partitions may have to be taken or released there."""
        self._groups.attend(domains)
        self._wake.set()

    def ring(self) -> None:
        """Report that the log has grown; the next look comes at once."""
        self._ends.ring()
        self._wake.set()

    def grown(self, ends: HeadEnds, entries: Sequence[TopicEntry] = (), *, few: bool = False) -> None:
        """Report how far the log has grown, and the new records if they are few: no look is needed then.

        If there are only a few records, they are handed out in the caller's thread.
        """
        if entries:
            self._moved.put(entries)  # before their ends are known; otherwise they would be read
        self._ends.grown(ends)
        if not few or not self._turn_here():
            self._wake.set()

    def running_calls(self) -> Counter[str]:
        """Return how many records of each group are with a handler."""
        calls = self._runner.calls() + self._units.calls()
        return Counter(task.handler.group for task, _ in calls)

    def status(self) -> MemberStatus:
        """Return the status of deliveries and calls, for other processes to read."""
        return status_of(
            self._clock,
            calls=self._runner.calls() + self._units.calls(),
            waiting=self._runner.waiting_by_group(),
            limited=self._runner.limited(),
            hung=self.hung,
            trial_since=self._trials.since,
            trouble=self._backoff.present_trouble,
        )

    def stop(self, grace_seconds: float) -> None:
        """Start nothing more, wait `grace_seconds` for running handlers, settle and release everything."""
        if self._grace_ends is None:  # otherwise `hurry` was called before
            self._grace_ends = self._clock.monotonic() + grace_seconds
        self._stopping.set()
        self._wake.set()

    def abandon(self, grace_seconds: float) -> None:
        """Start nothing more, wait `grace_seconds` for handlers, write nothing: others deliver it again."""
        self._abandoned = True
        self.stop(grace_seconds)

    def hurry(self) -> None:
        """Stop waiting for running handlers."""
        self._grace_ends = 0.0
        self._wake.set()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the end of the loop; return whether it has come."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    # -- the loop

    def _run(self) -> None:
        is_woken = True
        while not self._stopping.is_set():
            with self._one_turn:
                try:
                    failure, self._failure = self._failure, None
                    if failure is not None:
                        raise failure
                    pause = self._turn(timed=not is_woken)
                    self._backoff.is_well()
                except Exception as exc:
                    pause = self._backoff.trouble(exc)
                self._sleeps_until = self._clock.monotonic() + pause
            is_woken = self._wake.wait(pause)
            self._wake.clear()  # before the check of `_stopping`: a stop that comes in between is seen
        with self._one_turn:
            self._wind_down()

    def _turn_here(self) -> bool:
        """Make a turn in the caller's thread, without settling; return False if the loop must make one."""
        if not self._one_turn.acquire(blocking=False):
            return False
        try:
            if self._stopping.is_set() or (self._is_settling and not self._may_hand_out()):
                return False
            pause, self._failure = self._turn(settles=False), None
            return self._clock.monotonic() + pause >= self._sleeps_until
        except Exception as exc:
            self._failure = exc  # replaces an earlier one: the loop waits once, not once for each
            return False
        finally:
            self._one_turn.release()

    def _turn(self, *, settles: bool = True, timed: bool = False) -> float:
        """Do everything that can be done now; return how long there will be nothing to do.

        `timed`: the wait timed out, without a wake-up.
        """
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        self._collect()
        self._cache.tidy()
        self._take_moved()  # before the exchange, which clears the cache of doubtful rows
        if not self._is_settling:
            self._groups.exchange()
        if settles and self._trials.needs_settling:
            self._settle()
        elif settles and self._settling_is_due(now, timed=timed):
            self._settle(self._aside)
        if not (self._groups.may_start() if self._is_settling else self._groups.is_live()):
            return self._pause(now, now_ms)
        damage: list[Damaged | FileUnreadable] = []
        filled = self._fill(now, damage)
        self._start(damage)
        if damage:  # only now: the other groups have their records
            raise damage[0]
        if filled and any(group.delivery.is_behind for group in self._groups):
            pause = _BREATH_SECONDS
        else:
            pause = self._pause(now, now_ms)
        return 0.0 if self._runner.expect(awaited=not self._may_gather()) else pause

    def _collect(self) -> None:
        """Record results. Raises the store's error that undid a unit, after all results are recorded."""
        results, pressing = self._runner.finished(), False
        handler, group = None, None
        for task, verdict in results:
            if task.handler is not handler or group is None:  # most often all results are of one
                handler, group = task.handler, self._groups.of(task)
            group.in_flight -= 1
            group.ended += 1
            pressing |= group.delivery.finish(task, verdict)
        self._unsettled.add(len(results), self._clock.monotonic(), pressing=pressing)
        trouble: Exception | None = None
        for unit in self._units.finished():
            self._unsettled.add(len(unit.tasks), self._clock.monotonic(), pressing=True)
            group = self._groups.of(unit.tasks[0])
            group.in_flight -= len(unit.tasks)
            assert group.units is not None
            try:
                group.units.conclude(unit)
            except Exception as exc:
                trouble = exc
        if trouble is not None:
            raise trouble

    def _settling_is_due(self, now: float, *, timed: bool = False) -> bool:
        return bool(self._unsettled) and (
            self._unsettled.is_due(now, busy=self._is_anything_in_flight(), timed=timed)
            or any(group.delivery.is_held_up for group in self._groups)
        )

    def _may_gather(self) -> bool:
        """Return whether nothing waits for plain passes: they are fetched when they are due."""
        if not self._unsettled.may_wait or self._trials.alone is not None or self._trials.is_asked:
            return False
        return all(
            group.in_flight < FEW_RESULTS
            and (group.units is None or not group.in_flight)
            and group.delivery.is_all_out(group.in_flight)
            for group in self._groups
        )

    def _is_anything_in_flight(self) -> bool:
        return any(group.in_flight for group in self._groups)

    def _settle(self, aside: Aside = nullcontext) -> None:
        self._unsettled.clear(self._clock.monotonic())  # first: results that arrive meanwhile count anew
        try:
            for group in self._groups:
                group.settled()
                group.delivery.settle(aside)
                self._groups.tell_share(group)
        except BaseException:
            self._unsettled.add(1, self._clock.monotonic(), pressing=True)
            raise
        self._trials.settled()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Let another thread make turns while this one, in its turn, waits for the store."""
        self._is_settling = True
        self._one_turn.release()
        try:
            yield
        finally:
            self._one_turn.acquire()
            self._is_settling = False

    def _may_hand_out(self) -> bool:
        """Return whether a turn may run beside a settling: it would have nothing to write."""
        return (
            self._groups.is_calm()
            and not self._trials.is_busy
            and all(group.units is None and group.delivery.is_plain for group in self._groups)
        )

    def _take_moved(self) -> None:
        self._cache.offer(self._moved.fetch())

    def _fill(self, now: float, damage: list[Damaged | FileUnreadable]) -> bool:
        """Read on, up to the known ends of the log; return whether there was anything.

        Damage that prevents a read is added to `damage`: only its group waits for it.
        """
        looked = self._ends.refresh(now)
        self._take_moved()
        filled = False
        for group in self._groups:
            topic_id = group.delivery.topic_id
            try:
                filled |= group.delivery.fill(self._ends.of(topic_id), self._ends.news(topic_id))
            except (Damaged, FileUnreadable) as exc:
                damage.append(exc)
        self._ends.told()  # only now: a group that missed them because another failed gets them next time
        if filled:  # skipped records are settled, too
            held_back = any(group.delivery.is_held_back for group in self._groups)
            if held_back or not self._unsettled:
                self._unsettled.add(1, now, pressing=held_back)
        if looked:
            self._ends.plan_next(now, found=filled)
        return filled

    def _start(self, damage: list[Damaged | FileUnreadable]) -> None:
        trials = self._trials
        if trials.is_overdue:
            for group in self._groups:
                group.delivery.suspects.end_alone()
            trials.open()
        if trials.alone is not None:
            return
        if trials.is_asked:
            self._take_back()
            if not trials.grant(quiet=not self._is_anything_in_flight() and not self.hung.any_hangs()):
                return
        self._start_groups(damage)
        if trials.turn() is not None:
            trials.withdraw()

    def _take_back(self) -> None:
        """Take back tasks that have not begun."""
        for task in self._runner.take_back():
            group = self._groups.of(task)
            group.in_flight -= 1
            group.delivery.untake([task])

    def _start_groups(self, damage: list[Damaged | FileUnreadable]) -> None:
        """Hand out runnable records; a group whose waiting records are damaged waits, the others do not."""
        share = max(_LEAST_IN_FLIGHT, _IN_FLIGHT // max(1, len(self._groups)))
        for group in self._groups:
            if group.units is not None or self._is_given_up(group):
                continue
            room = min(share, group.may_queue(self._threads)) - group.in_flight
            try:
                writes = not self._is_settling
                tasks = group.delivery.start(room, bounds.RUN, writes=writes) if room > 0 else []
            except (Damaged, FileUnreadable) as exc:
                damage.append(exc)
                continue
            if tasks:
                group.in_flight += sum(1 + task.more for task in tasks)
                self._runner.submit(tasks)
        self._start_units(damage)

    def _start_units(self, damage: list[Damaged | FileUnreadable]) -> None:
        """Share the threads among the groups that commit with their cursors, each turn another first."""
        groups = [
            (each, each.units)
            for each in self._groups
            if each.units is not None and not self._is_given_up(each)
        ]
        self._units_turn += 1
        first = self._units_turn % len(groups) if groups else 0
        in_turn = groups[first:] + groups[:first]
        for left, (group, delivery) in zip(range(len(groups), 0, -1), in_turn, strict=True):
            try:
                units = delivery.start_units(self._units.room(delivery.out, left=left, groups=len(groups)))
            except (Damaged, FileUnreadable) as exc:
                damage.append(exc)
                continue
            group.in_flight += sum(len(unit.tasks) for unit in units)
            self._units.submit(units)

    def _is_given_up(self, group: RunningGroup) -> bool:
        return group.delivery.subscription.group in self.hung.given_up

    def _pause(self, now: float, now_ms: int) -> float:
        """Return how long until something is due; work that is due already waits for a result."""
        if self._settling_is_due(now):
            return 0.0
        until = [max(self._ends.next_look, now + _LEAST_WAIT_SECONDS)]
        if (settling := self._unsettled.due(now)) is not None:
            until.append(settling)
        if self._trials.alone is not None or self._trials.is_asked:
            until.append(now + _TRIAL_SECONDS)
        for group in self._groups:
            if group.delivery.barriers.next_look is not None:
                until.append(group.delivery.barriers.next_look)
            due_ms = group.delivery.next_due_ms()
            if due_ms is not None and due_ms > now_ms:
                until.append(now + (due_ms - now_ms) / 1000)
        return min(max(0.0, min(until) - now), _LONGEST_WAIT_SECONDS)

    # -- the end

    def _wind_down(self) -> None:
        """Let running handlers end, settle, release; never fail."""
        self._runner.expect(awaited=True)
        if self._abandoned:
            self._units.close(0.0)
            self._runner.close(max(0.0, (self._grace_ends or 0.0) - self._clock.monotonic()))
            return
        for group in self._groups:
            group.delivery.let_go()
        self._take_back()
        while self._is_anything_in_flight() and self._clock.monotonic() < (self._grace_ends or 0.0):
            self._wake.clear()
            self._quietly(self._collect)
            if self._is_anything_in_flight():
                self._wake.wait(0.05)
            self._quietly(self._each(lambda group: group.delivery.release_idle()))
        running, in_units = self._runner.close(0.0), self._units.close(0.0)
        self._quietly(self._collect)
        for task in running:
            self._groups.of(task).delivery.interrupt(task)
        for unit in in_units:
            units = self._groups.of(unit.tasks[0]).units
            assert units is not None
            units.interrupt(unit)
        for task in running + [unit.tasks[unit.called - 1] for unit in in_units if unit.called]:
            logger.warning(
                "handler %s still runs on %s %s after the grace period; it will be delivered again",
                task.handler.id,
                task.record.type or "record",
                task.record.id,
                extra=about_record(task.handler, task.record),
            )
        # Without a settling nothing is released: the next owner must know that some records come again.
        if self._quietly(self._settle) or self._quietly(self._settle):
            self._quietly(self._each(lambda group: group.delivery.release()))

    def _each(self, step: Callable[[RunningGroup], None]) -> Callable[[], None]:
        def all_of_them() -> None:
            for group in self._groups:
                step(group)

        return all_of_them

    def _quietly(self, step: Callable[[], None]) -> bool:
        """Run a step and return whether it succeeded."""
        try:
            step()
        except Exception as exc:
            self._backoff.warn_once(
                exc, "could not settle all; what is left is delivered again by another, after the lease"
            )
            return False
        return True
