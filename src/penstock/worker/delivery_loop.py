"""The delivery loop: what is done in a turn, for all groups of a process.

Only the thread that has the turn (`turn.py`) touches the groups' deliveries and calls its methods, but for those that
report something. Handlers run in the runner's threads, which post a turn when there are results; in a trickle the turn
that settles fetches them. When the database is unavailable, turns wait with back-off.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock, own_ms
from penstock.errors import Damaged, FileUnreadable
from penstock.log.contract import Log, Topic
from penstock.membership.member import Member
from penstock.membership.serving import Domain, MemberStatus
from penstock.outbox.move import MOST_RECORDS
from penstock.outbox.sequencer import HeadEnds, Pass

from .calling.hung_calls import HungCalls
from .calling.runner import Runner
from .group import bounds
from .group.delivery import GroupDelivery
from .group.suspects import Trials
from .group.unit_threads import UnitThreads
from .handler import about_record
from .known_log import LogEnds, MovedRecords, ReadCache, TopicEntry
from .served_groups import FEW_RESULTS, AnyDelivery, LeaseCheck, RunningGroup, ServedGroups, Unsettled
from .status import status_of
from .turn import Turn, TurnSteps

logger = logging.getLogger("penstock.delivery")

_IN_FLIGHT = 4000  # tasks handed to the runner and not finished,
_LEAST_IN_FLIGHT = 500  # of each group, whatever the others have in flight
_TRIAL_SECONDS = 0.1  # how often to check whether the process is quiet, for a suspect that runs alone
_LONGEST_WAIT_SECONDS = 5.0
_LEAST_WAIT_SECONDS = 0.001
_BREATH_SECONDS = 0.0001  # lets handlers begin before the next turn: a wait of nothing would not


class DeliveryLoop:
    """Has turns made between `start` and `stop`: collect, exchange partitions, settle, read on, hand out."""

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
        unread: Callable[[HeadEnds], object] = lambda ends: None,
    ) -> None:
        """`threads`: for handlers, and for units. `is_told`: a bell rings. `unread`: topics grew that none reads."""
        self._trials, self._threads = trials or Trials(clock), threads
        self._clock = clock
        self._backoff = Backoff("delivery", polling, is_told)
        self._turn = Turn(self, clock, self._backoff)
        self._ends, self._moved = LogEnds(log, self._backoff), MovedRecords()
        self._cache, lease = ReadCache(log, clock), LeaseCheck(member)
        wake = self._turn.posted.set  # not a method of ours: threads call it for every record
        self.hung = HungCalls(threads=threads, clock=clock, changed=wake, store=store)
        self._runner = Runner(threads=threads, clock=clock, wake=wake, may_start=lease.may_start, hung=self.hung)
        self._units = UnitThreads(threads=threads, clock=clock, wake=wake, hung=self.hung, may_start=lease.may_start)
        self._groups = ServedGroups(member, lease, self._runner, self._cache, self._ends)
        self._unsettled = Unsettled(gathers=own_ms(clock) is None)
        self._units_turn, self._unread = 0, unread
        self._grace_ends: float | None = None
        self._abandoned = False

    # -- from other threads

    def start(self) -> None:
        """Begin; returns at once."""
        self._turn.start()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let async handlers run in this event loop; before `start`."""
        self._runner.use_loop(loop)

    def adopt(self, domain: Domain, delivery: AnyDelivery, topic: Topic) -> None:
        """Serve a group on a topic."""
        self._groups.adopt(domain, delivery, topic)
        self._turn.post()

    def attend(self, domains: Iterable[Domain]) -> None:
        """Report that partitions may have to be taken or released there."""
        self._groups.attend(domains)
        self._turn.post()

    def ring(self) -> None:
        """Report that the log has grown; the next look comes at once."""
        self._ends.ring()
        self._turn.post()

    def grown(self, ends: HeadEnds, entries: Sequence[TopicEntry] = (), *, few: bool = False) -> None:
        """Report how far the log has grown, and the new records if they are few: then hand them out in this thread."""
        if entries:
            self._moved.put(entries)  # before their ends are known; otherwise they would be read
        self._ends.grown(ends)
        if not few or not self._turn.take():
            self._turn.post()

    def moved(self, done: Pass) -> None:
        """Take in a pass of this process's sequencer; one that moved nothing looked for another's records."""
        if not done.moved:
            self.ring()
            return
        self.grown(done.ends, done.entries, few=done.moved <= MOST_RECORDS)
        if not self._ends.has(done.ends):
            self._unread(done.ends)

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
        if self._grace_ends is None:  # otherwise `cut_short` was called before
            self._grace_ends = self._clock.monotonic() + grace_seconds
        self._turn.stop()

    def abandon(self, grace_seconds: float) -> None:
        """Start nothing more, wait `grace_seconds` for handlers, write nothing: others deliver it again."""
        self._abandoned = True
        self.stop(grace_seconds)

    def cut_short(self) -> None:
        """Stop waiting for running handlers."""
        self._grace_ends = 0.0
        self._turn.post()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the end of the loop; return whether it has come."""
        return self._turn.join(seconds)

    # -- a turn

    def own(self, *, timed: bool) -> TurnSteps:
        """Do everything that can be done now."""
        self._take_in()
        self._groups.exchange()
        if self._trials.needs_settling or self._settling_is_due(self._clock.monotonic(), timed=timed):
            yield from self._settle_beside()
        return self._hand_out(beside=False)

    def guest(self, *, beside: bool) -> float | None:
        """Do what can be done without a settlement; beside a settlement nothing that may need a write."""
        if beside and not self._may_hand_out():
            return None
        self._take_in()
        if not beside:
            self._groups.exchange()
        return self._hand_out(beside=beside)

    def _take_in(self) -> None:
        self._collect()
        self._cache.tidy()
        self._take_moved()  # before the exchange, which clears the cache of doubtful rows

    def _hand_out(self, *, beside: bool) -> float:
        """Read on and hand out; return how long there will be nothing to do."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        if not (self._groups.may_start() if beside else self._groups.is_live()):
            return self._pause(now, now_ms)
        damage: list[Damaged | FileUnreadable] = []
        filled = self._fill(now, damage)
        self._start(damage, writes=not beside)
        if damage:  # only now: the other groups have their records
            raise damage[0]
        if filled and any(group.delivery.reader.is_behind for group in self._groups):
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
        for unit in self._units.finished() if self._units.ended else ():
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
            or any(group.delivery.reader.is_held_up for group in self._groups)
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

    def _settle_beside(self) -> TurnSteps:
        """Settle, and let others have the turn while the store writes."""
        self._unsettled.clear(self._clock.monotonic())  # first: results that arrive meanwhile count anew
        try:
            for is_new in (False, True):  # first those that could not be written before
                groups = [group.delivery for group in self._groups if self._plan(group, is_new=is_new)]
                if groups:
                    try:
                        yield partial(_write_all, groups)
                    finally:
                        for each in groups:
                            each.settlements.confirm()
            for group in self._groups:
                group.delivery.reader.let_rest()
                self._groups.update_share(group)
        except BaseException:
            self._unsettled.add(1, self._clock.monotonic(), pressing=True)
            raise
        self._trials.settled()
        return 0.0

    @staticmethod
    def _plan(group: RunningGroup, *, is_new: bool) -> bool:
        """Plan the settlement of a group, or find an earlier one; return whether there is one to write."""
        if not is_new:
            return group.delivery.settlements.has_unwritten
        group.settled()
        group.delivery.count_passed_over()
        return group.delivery.settlements.plan()

    def _settle(self) -> None:
        self._unsettled.clear(self._clock.monotonic())
        try:
            for group in self._groups:
                group.settled()
                group.delivery.settle()
        except BaseException:
            self._unsettled.add(1, self._clock.monotonic(), pressing=True)
            raise
        self._trials.settled()

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
        """Read on, up to the known ends of the log; return whether there was anything. `damage` holds up its group."""
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

    def _start(self, damage: list[Damaged | FileUnreadable], *, writes: bool) -> None:
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
        self._start_groups(damage, writes=writes)
        if trials.turn() is not None:
            trials.withdraw()

    def _take_back(self) -> None:
        for task in self._runner.take_back():
            group = self._groups.of(task)
            group.in_flight -= 1
            group.delivery.untake([task])

    def _start_groups(self, damage: list[Damaged | FileUnreadable], *, writes: bool) -> None:
        """Hand out runnable records; a group whose waiting records are damaged waits, the others do not."""
        share = max(_LEAST_IN_FLIGHT, _IN_FLIGHT // max(1, len(self._groups)))
        for group in self._groups:
            if group.units is not None or self._is_given_up(group):
                continue
            room = min(share, group.may_queue(self._threads)) - group.in_flight
            try:
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
        groups = [(each, each.units) for each in self._groups if each.units is not None and not self._is_given_up(each)]
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

    def end(self) -> None:
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
            self._turn.posted.clear()
            self._quietly(self._collect)
            if self._is_anything_in_flight():
                self._turn.posted.wait(0.05)
            self._quietly(self._release_idle)
        running, in_units = self._runner.close(0.0), self._units.close(0.0)
        self._quietly(self._collect)
        for task in running:
            self._groups.of(task).delivery.interrupt(task)
        for unit in in_units:
            units = self._groups.of(unit.tasks[0]).units
            assert units is not None
            units.interrupt(unit)
        for task in running + [unit.tasks[unit.called - 1] for unit in in_units if unit.called]:
            record = task.record
            fields = about_record(task.handler, record)
            logger.warning(
                "handler %s still runs on %s %s after the grace period; it will be delivered again",
                task.handler.id,
                record.type or "record",
                record.id,
                extra=fields,
            )
        # Without a settling nothing is released: the next owner must know that some records come again.
        if self._quietly(self._settle) or self._quietly(self._settle):
            self._quietly(self._release)

    def _release_idle(self) -> None:
        for group in self._groups:
            group.delivery.release_idle()

    def _release(self) -> None:
        for group in self._groups:
            group.delivery.release()

    def _quietly(self, step: Callable[[], object]) -> bool:
        try:
            step()
        except Exception as exc:
            left = "could not settle all; what is left is delivered again by another, after the lease"
            self._backoff.warn_once(exc, left)
            return False
        return True


def _write_all(groups: Sequence[GroupDelivery]) -> None:
    for group in groups:
        group.settlements.write()
