"""The groups that one process serves, and the exchange of their partitions with other processes."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.log.contract import Topic
from penstock.membership.member import Member
from penstock.membership.serving import Domain

from .calling.limiters import ASYNC_CALLS
from .calling.runner import Runner
from .group.delivery import GroupDelivery
from .group.read_cache import ReadCache
from .group.transactional import TransactionalDelivery
from .lease_check import LeaseCheck
from .log_ends import LogEnds
from .task import HandlerTask

AnyDelivery = GroupDelivery | TransactionalDelivery

_IN_FLIGHT = 4000  # records of a group handed to handlers and not finished
_LEAST_QUEUED = 16  # of these, records that wait for a handler, however few end


@dataclass(slots=True, eq=False)
class RunningGroup:
    """One group on one topic: its delivery, and how many of its records are handed on and have not ended.

    `units`: what hands it out if its handlers commit with their cursors. `ended` counts those that have ended
    since the last settling, `pace` is how many lately ended from one to the next.
    """

    delivery: GroupDelivery
    units: TransactionalDelivery | None
    in_flight: int = 0
    ended: int = 0
    pace: int = 0

    def may_queue(self, threads: int) -> int:
        """Return how many of its records may be in flight: with handlers, and as many as these end soon.

        What waits for a handler is marked, like what is with one, if this process dies. Of several handlers
        one may have to wait for its rate, and must not keep the others back.
        """
        handlers = self.delivery.subscription.handlers
        if len(handlers) > 1 and not all(handler.is_plain for handler in handlers):
            return _IN_FLIGHT
        usual = ASYNC_CALLS if handlers[0].binding.is_async else threads
        at_once = (handlers[0].concurrency or usual) * (handlers[0].batch or 1)
        return min(at_once + max(_LEAST_QUEUED, 2 * self.pace), _IN_FLIGHT)

    def settled(self) -> None:
        """Take note that what has ended is settled."""
        self.pace, self.ended = max(self.ended, self.pace // 2), 0


class ServedGroups:
    """Takes in the groups of a process; takes, releases and checks their partitions when something changes.

    What should be owned is decided by the membership; it says where to look by `attend`. What fails is tried
    again in the next turn. `adopt` and `attend` are for any thread, the rest for the delivery loop's.
    """

    def __init__(
        self, member: Member, lease: LeaseCheck, runner: Runner, cache: ReadCache, ends: LogEnds
    ) -> None:
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
        """Say that something may have to be taken or released there."""
        self._attention.extend(domains)

    def is_live(self) -> bool:
        """Return whether handlers may be started; after a lapse it asks first what it still owns."""
        if not self._member.is_live():
            return False
        lapses = self._lease.unseen()
        if lapses is not None:
            for group in self:
                self._see_to(group)
            self._lease.see(lapses)
        return True

    def may_start(self) -> bool:
        """Return whether handlers may be started, as far as is known without asking what it still owns."""
        return self._lease.may_start()

    def is_calm(self) -> bool:
        """Return whether nothing is known to come or go: no partition, no group, no lapse of the lease."""
        return not (
            self._new
            or self._attention
            or self._lease.unseen() is not None
            or any(group.delivery.needs_check for group in self)
        )

    def exchange(self) -> None:
        """Take in new groups; take and release what has changed hands."""
        while self._new:
            self._admit(*self._new.popleft())
        seen: set[Domain] = set()
        for _ in range(len(self._attention)):  # what is said meanwhile is newer than what is seen
            domain = self._attention[0]
            if domain not in seen and domain in self._domains:
                self._see_to(self._domains[domain])
                seen.add(domain)
            self._attention.popleft()  # only now: what fails is seen to again
        for group in self:
            if group.delivery.needs_check:
                self._see_to(group)
                group.delivery.checked()
            group.delivery.release_idle()

    def tell_share(self, group: RunningGroup) -> None:
        """Let handlers have the share of their rate that goes with what is owned and kept."""
        delivery = group.delivery
        if delivery.subscription.has_rate:
            self._runner.change_share(delivery.subscription.group, delivery.topic, delivery.share())

    def _admit(self, domain: Domain, delivery: AnyDelivery, topic: Topic) -> None:
        if isinstance(delivery, TransactionalDelivery):
            group = RunningGroup(delivery.group, delivery)
        else:
            group = RunningGroup(delivery, None)
        key = group.delivery.subscription.group, topic.name
        if key in self._groups:
            self._replace(self._groups[key], group)
        self._groups[key] = group
        self._domains[domain] = group
        self._ends.add(topic)
        self._cache.expect(topic)
        group.delivery.read_through(self._cache)
        self._attention.append(domain)

    def _replace(self, former: RunningGroup, group: RunningGroup) -> None:
        """Serve a topic that was deleted and made anew; what still runs of the former one comes back here."""
        self._domains = {domain: each for domain, each in self._domains.items() if each is not former}
        group.in_flight = former.in_flight
        if former.units is not None and group.units is not None:
            group.units.expect(former.units)

    def _see_to(self, group: RunningGroup) -> None:
        self._cache.clear()
        self._ends.ring()  # what a former owner has read is there: the next look finds it
        group.delivery.check()
        self._take_back(group)
        group.delivery.take_wanted(self._member.living)
        self.tell_share(group)

    def _take_back(self, group: RunningGroup) -> None:
        """Take back the tasks of partitions that are lost or to be let go, as far as they have not begun."""
        key = group.delivery.subscription.group, group.delivery.topic

        def is_over(task: HandlerTask) -> bool:
            handler = task.handler
            return (handler.group, handler.topic) == key and group.delivery.is_over(task)

        tasks = self._runner.take_back(is_over)
        group.in_flight -= len(tasks)
        group.delivery.untake(tasks)
