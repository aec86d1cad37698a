"""`drain`: sequence and deliver all that is due now, then return. For tests, cron jobs, small programs.

This process takes the slots and partitions that no living member owns, moves the staged events, and hands each group
its records one after the other in the caller's thread. A failed record waits for a later drain, with its lane. Events
that handlers publish meanwhile, and the ticks due when it begins, are drained too.
"""

from contextlib import suppress
from dataclasses import dataclass

from penstock.clock import Clock, steady
from penstock.delivery.groups import measure_unread
from penstock.delivery.lane import LaneId
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Dead, Parked, Passed, Verdict
from penstock.errors import CursorBeyondEnd, Damaged, FileUnreadable
from penstock.log.contract import Topic
from penstock.log.store import Store
from penstock.membership.member import ClusterSettings, Member
from penstock.outbox.periodic.rows import PeriodicSettings
from penstock.outbox.sequencer import Sequencer, SequencerSettings

from .calling.loop import InlineCalls
from .calling.runner import ProcessingSettings
from .calling.verdicts import attempt
from .group.delivery import GroupDelivery, topic_of
from .group.transactional import TransactionalDelivery
from .group.unit_threads import count_unit
from .handler import HandlerTask, Subscription
from .handlers import Handlers
from .ticker import Ticker, TickSource, take_due

_TASKS = 500  # handed out before they are settled together


@dataclass(slots=True)
class Counts:
    """The counts of a drain. `parked`: lanes of handed-out records that now wait for a retry or a person."""

    sequenced: int = 0
    delivered: int = 0
    retried: int = 0
    parked: int = 0
    dead: int = 0


class Drain:
    """One drain of one outbox."""

    def __init__(self, store: Store, handlers: Handlers, clock: Clock, periodic: TickSource | None = None) -> None:
        self._store, self._log = store, store.log
        self._handlers, self._clock = handlers, steady(clock)
        self._settings, self._processing = ClusterSettings.load(), ProcessingSettings.load()
        self._member = Member(store.database, self._settings, clock)
        self._sequencer = Sequencer(store, SequencerSettings.load(), clock)
        self._deliveries: dict[tuple[str, int], GroupDelivery] = {}
        self._units: dict[GroupDelivery, TransactionalDelivery] = {}
        self._calls, self._counts = InlineCalls(), Counts()
        self._parked: set[tuple[str, str | None, LaneId]] = set()
        self._damage: Damaged | FileUnreadable | CursorBeyondEnd | None = None
        self._next_beat = 0.0
        self._ticker: Ticker | None = None
        if periodic is not None and len(periodic.schedules):
            self._ticker = Ticker(store.database, periodic, self._clock, PeriodicSettings.load())

    def run(self) -> Counts:
        """Drain until a whole round finds nothing to do.

        Raises Damaged, FileUnreadable or CursorBeyondEnd for records that cannot be read or are lost, once all others
        are delivered.
        """
        self._member.join()
        try:
            if self._ticker is not None:
                take_due(self._ticker, self._beat)
            with self._calls:
                while self._sequence() | self._deliver():
                    pass
            measure_unread(self._store)
            if self._damage is not None:
                raise self._damage
        finally:
            self._member.leave()
        return self._counts

    def _sequence(self) -> bool:
        self._beat()
        self._member.take()
        moved = 0
        while (done := self._sequencer.sequence(self._member.fence)).moved:
            moved += done.moved
        self._counts.sequenced += moved
        return moved > 0

    def _deliver(self) -> bool:
        worked = [self._deliver_to(each) for each in self._handlers.subscriptions()]
        return any(worked)

    def _deliver_to(self, subscription: Subscription) -> bool:
        topic = topic_of(self._log, subscription)
        if topic is None:
            return False
        delivery = self._delivery(subscription, topic)
        worked = False
        try:
            delivery.take(self._member.living)
            while len(delivery.partitions) and self._read_and_work(delivery, topic):
                worked = True
                if delivery.is_paused():
                    break
            self._damage = delivery.reader.stopped or self._damage
            delivery.count_passed_over(now=True)
            delivery.settle()
        except BaseException:
            with suppress(Exception):  # without a settling nothing is released: some come again, marked
                delivery.settle()
                delivery.release()
            raise
        delivery.release()
        return worked

    def _read_and_work(self, delivery: GroupDelivery, topic: Topic) -> bool:
        """Read on and hand out; return whether there was anything. Each partition is tried, if one is damaged."""
        worked = False
        for _ in range(topic.partitions):
            try:
                return delivery.fill(self._log.ends(topic)) | self._work(delivery) | worked
            except (Damaged, FileUnreadable) as exc:
                self._damage = exc
                worked |= self._work(delivery)
        return worked

    def _delivery(self, subscription: Subscription, topic: Topic) -> GroupDelivery:
        known = self._deliveries.get((subscription.group, topic.id))
        if known is None:
            store = GroupStore(
                self._store,
                self._clock,
                group=subscription.group,
                topic=topic,
                owner=self._member.id,
                from_start=subscription.start == "earliest",
                catch_up=subscription.catch_up(self._processing.catch_up),
                gone=self._member.gone,
            )
            known = GroupDelivery(self._log, store, subscription, self._clock, barrier_seconds=0.0)
            self._deliveries[subscription.group, topic.id] = known
            if subscription.is_transactional:
                self._units[known] = TransactionalDelivery(self._store.database, store, known, self._clock)
        return known

    def _work(self, delivery: GroupDelivery) -> bool:
        """Hand out records that may run now and settle them in batches; return whether there was anything."""
        units = self._units.get(delivery)
        if units is not None:
            return self._work_units(units)
        done = 0
        while done < _TASKS and self._member.is_live() and (tasks := delivery.start(_TASKS)):
            for number, task in enumerate(tasks):
                if not self._member.is_live():  # another may have taken over; settling will find out
                    delivery.untake(tasks[number:])
                    break
                self._beat()
                try:
                    verdict = attempt(self._calls, task.handler, task.record, failures=task.failures, clock=self._clock)
                except BaseException:  # Ctrl-C: this record comes again; those before it are settled and do not
                    delivery.interrupt(task)
                    delivery.untake(tasks[number + 1 :])
                    with suppress(Exception):
                        delivery.settle()
                    raise
                self._count(task, verdict)
                delivery.finish(task, verdict)
            done += len(tasks)
        delivery.settle()
        return done > 0 or bool(delivery.reader.unreported)

    def _work_units(self, delivery: TransactionalDelivery) -> bool:
        done = 0
        while done < _TASKS and self._member.is_live() and (units := delivery.start_units(1)):
            for unit in units:
                self._beat()
                unit.work()
                count_unit(unit)
                for task, verdict in unit.verdicts():
                    self._count(task, verdict)
                    done += 1
                delivery.conclude(unit)
        delivery.group.settle()
        return done > 0 or bool(delivery.group.reader.unreported)

    def _beat(self) -> None:
        """Renew the lease when that is due; a slow handler must not cost us the other partitions."""
        now = self._clock.monotonic()
        if now >= self._next_beat or not self._member.is_live():
            self._next_beat = now + self._settings.heartbeat_interval.total_seconds()
            self._member.heartbeat()

    def _count(self, task: HandlerTask, verdict: Verdict) -> None:
        lane = (task.handler.group, task.record.topic, task.lane)
        waits = isinstance(verdict, Parked) or (isinstance(verdict, Dead) and verdict.hold)
        (self._parked.add if waits else self._parked.discard)(lane)
        self._counts.retried += isinstance(verdict, Parked)
        self._counts.dead += isinstance(verdict, Dead)
        self._counts.delivered += isinstance(verdict, Passed)
        self._counts.parked = len(self._parked)
