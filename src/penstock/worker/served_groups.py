"""The groups that one process serves, and the exchange of their partitions with other processes."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.log.contract import Topic
from penstock.membership.member import Member
from penstock.membership.serving import Domain

from .calling.calls import ASYNC_CALLS
from .calling.runner import Runner
from .group.delivery import GroupDelivery
from .group.transactional import TransactionalDelivery
from .handler import HandlerTask
from .known_log import LogEnds, ReadCache


class LeaseCheck:
    """Compares the lapses of a member's lease with those after which ownership was checked.

    After a lapse no handler starts until then: another member may have taken over. `may_start` is for any thread.
    """

    def __init__(self, member: Member) -> None:
        self._member, self._seen = member, member.lapses

    def may_start(self) -> bool:
        """Return whether a handler may be called now."""
        return self._member.is_live() and self._seen == self._member.lapses

    def unseen(self) -> int | None:
        """Return the number of lapses if there was one since the last `see`."""
        lapses = self._member.lapses
        return None if lapses == self._seen else lapses

    def see(self, lapses: int) -> None:
        """Record that ownership was checked after this many lapses."""
        self._seen = lapses


AnyDelivery = GroupDelivery | TransactionalDelivery

_IN_FLIGHT = 4000  # records of a group handed to handlers and not finished
_LEAST_QUEUED = 16  # of these, the records that may always wait for a handler, however slow the pace


@dataclass(slots=True, eq=False)
class RunningGroup:
    """One group on one topic: its delivery, and how many of its records are in flight.

    `units` hands them out if they commit with their cursors. `pace`: how many lately ended between two settlings.
    """

    delivery: GroupDelivery
    units: TransactionalDelivery | None
    in_flight: int = 0
    ended: int = 0
    pace: int = 0

    def may_queue(self, threads: int) -> int:
        """Return how many of its records may be in flight: those with handlers, and as many as will end soon.

        All are marked if this process dies. Of several handlers one may wait for its rate, and must hold up no other.
        """
        handlers = self.delivery.subscription.handlers
        if len(handlers) > 1 and not all(handler.is_plain for handler in handlers):
            return _IN_FLIGHT
        usual = ASYNC_CALLS if handlers[0].binding.is_async else threads
        at_once = (handlers[0].concurrency or usual) * (handlers[0].batch or 1)
        return min(at_once + max(_LEAST_QUEUED, 2 * self.pace), _IN_FLIGHT)

    def settled(self) -> None:
        """Record that all ended records are settled."""
        self.pace, self.ended = max(self.ended, self.pace // 2), 0


class ServedGroups:
    """Takes in the groups of a process; takes, releases and checks their partitions when something changes.

    The membership reports changed domains by `attend`. A step that fails is repeated in the next turn. `adopt` and
    `attend` are for any thread, the rest for the delivery loop's.
    """

    def __init__(self, member: Member, lease: LeaseCheck, runner: Runner, cache: ReadCache, ends: LogEnds) -> None:
        self._member, self._lease, self._runner, self._cache, self._ends = member, lease, runner, cache, ends
        self._groups: dict[tuple[str, str], RunningGroup] = {}
        self._domains: dict[Domain, RunningGroup] = {}
        self._new: deque[tuple[Domain, AnyDelivery, Topic]] = deque()
        self._attention: deque[Domain] = deque()

    def __iter__(self) -> Iterator[RunningGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def of(self, task: HandlerTask) -> RunningGroup:
        """Return the group of a task."""
        return self._groups[task.handler.group, task.handler.topic]

    def adopt(self, domain: Domain, delivery: AnyDelivery, topic: Topic) -> None:
        """Serve a group on a topic from the next turn on."""
        self._new.append((domain, delivery, topic))

    def attend(self, domains: Iterable[Domain]) -> None:
        """Report that partitions may have to be taken or released there."""
        self._attention.extend(domains)

    def is_live(self) -> bool:
        """Return whether handlers may be started; after a lapse, first check the ownership."""
        if not self._member.is_live():
            return False
        lapses = self._lease.unseen()
        if lapses is not None:
            for group in self:
                self._see_to(group)
            self._lease.see(lapses)
        return True

    def may_start(self) -> bool:
        """Return whether handlers may be started, as far as is known without checking the ownership."""
        return self._lease.may_start()

    def is_calm(self) -> bool:
        """Return whether no change is pending: no partition, no group, no lapse of the lease."""
        return not (
            self._new
            or self._attention
            or self._lease.unseen() is not None
            or any(group.delivery.partitions.needs_check for group in self)
        )

    def exchange(self) -> None:
        """Take in new groups; take and release the partitions that change hands."""
        while self._new:
            self._admit(*self._new.popleft())
        seen: set[Domain] = set()
        for _ in range(len(self._attention)):  # reports that arrive meanwhile are left for the next turn
            domain = self._attention[0]
            if domain not in seen and domain in self._domains:
                self._see_to(self._domains[domain])
                seen.add(domain)
            self._attention.popleft()  # only now: a failed check is repeated
        for group in self:
            if group.delivery.partitions.needs_check:
                self._see_to(group)
                group.delivery.partitions.needs_check = False
            group.delivery.release_idle()

    def update_share(self, group: RunningGroup) -> None:
        """Set the share of the group's rates to the fraction of partitions that is owned and kept."""
        delivery = group.delivery
        if delivery.subscription.has_rate:
            self._runner.change_share(delivery.subscription.group, delivery.topic, delivery.partitions.share())

    def _admit(self, domain: Domain, delivery: AnyDelivery, topic: Topic) -> None:
        units = delivery if isinstance(delivery, TransactionalDelivery) else None
        group = RunningGroup(delivery.group if isinstance(delivery, TransactionalDelivery) else delivery, units)
        key = group.delivery.subscription.group, topic.name
        if key in self._groups:
            self._replace(self._groups[key], group)
        self._groups[key] = group
        self._domains[domain] = group
        self._ends.add(topic)
        self._cache.expect(topic)
        group.delivery.reader.read_through(self._cache)
        self._attention.append(domain)

    def _replace(self, former: RunningGroup, group: RunningGroup) -> None:
        """Serve a topic that was deleted and recreated; the former one's records in flight come back here."""
        self._domains = {domain: each for domain, each in self._domains.items() if each is not former}
        group.in_flight = former.in_flight
        if former.units is not None and group.units is not None:
            group.units.expect(former.units)

    def _see_to(self, group: RunningGroup) -> None:
        self._cache.clear()
        self._ends.ring()  # records that a former owner has read: the next look finds them
        group.delivery.check()
        self._take_back(group)
        group.delivery.take_wanted(self._member.living)
        self.update_share(group)

    def _take_back(self, group: RunningGroup) -> None:
        """Take back the tasks of partitions that are lost or leaving, as far as they have not begun."""
        key = group.delivery.subscription.group, group.delivery.topic

        def is_over(task: HandlerTask) -> bool:
            handler = task.handler
            return (handler.group, handler.topic) == key and group.delivery.is_over(task)

        tasks = self._runner.take_back(is_over)
        group.in_flight -= len(tasks)
        group.delivery.untake(tasks)


_MOST_RESULTS = 2000  # results that are settled at once,
_BUSY_SECONDS = 0.02  # and how long the first of them waits while handlers are busy
FEW_RESULTS = 100  # fewer that have passed may wait for others,
GATHER_SECONDS = 0.1  # this long since they were handed out. If the process dies meanwhile, they come again


class Unsettled:
    """Counts results and decides when they are due: soon under load, together in a trickle.

    A settling is a transaction. In a trickle there would be one for each record, so a few plain passes wait for others,
    no longer than a moment after the first was handed out. A result that failed, or may be a repetition, is settled as
    soon as nothing else is about to end. One thread at a time.
    """

    def __init__(self, *, gathers: bool = True) -> None:
        """`gathers`: whether results may wait for others; not with a clock that a test moves."""
        self._gather_seconds = GATHER_SECONDS if gathers else 0.0
        self._count, self._since, self._is_pressing = 0, 0.0, False
        self._begun: float | None = None  # when the first unsettled record was handed out
        self._settled = -1.0

    def __bool__(self) -> bool:
        return self._count > 0

    def begin(self, now: float) -> None:
        """Record that records are handed out: their results are due a moment later."""
        if self._begun is None:
            self._begun = now

    def add(self, count: int, now: float, *, pressing: bool = False) -> None:
        """Record results; if one is pressing, none waits for others."""
        if count:
            self.begin(now)
            if not self._count:
                self._since = now
        self._count += count
        self._is_pressing |= pressing

    def clear(self, now: float) -> None:
        """Record that all is settled."""
        self._count, self._is_pressing, self._begun, self._settled = 0, False, None, now

    @property
    def may_wait(self) -> bool:
        """Whether the results so far, and a few more, wait for others; then they are due at a set time."""
        return 0 < self._count < FEW_RESULTS and not self._is_pressing and self._gather_seconds > 0

    def is_due(self, now: float, *, busy: bool, timed: bool = False) -> bool:
        """Return whether to settle; `busy`: other results come soon. `timed`: a timer came, so it saves a wake-up."""
        if not self._count:
            return False
        if self.may_wait:
            assert self._begun is not None
            return now >= self._begun + self._gather_seconds * (0.5 if timed else 1.0)
        return not busy or self._count >= _MOST_RESULTS or now >= self._since + _BUSY_SECONDS

    def due(self, now: float) -> float | None:
        """Return when to check again; also a moment after a settling: in a trickle there are new results by then."""
        if self.may_wait:
            assert self._begun is not None
            return self._begun + self._gather_seconds
        if self._count:
            return self._since + _BUSY_SECONDS
        again = self._settled + self._gather_seconds
        return again if now < again else None
