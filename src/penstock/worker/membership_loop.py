"""The membership loop: one thread that keeps the member alive and rebalances with the other members.

It renews the lease whatever handlers do, finds topics, computes shares, exchanges slots itself and has the delivery
loop exchange cursors. Other threads only read the member's fence, its liveness, and the living members.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock
from penstock.database.migrations import SchemaWatch
from penstock.errors import SchemaError
from penstock.log.contract import Log, Topic
from penstock.membership.filters import filter_of
from penstock.membership.member import ClusterSettings
from penstock.membership.serving import SLOTS, Domain, MemberStatus, ServedGroup, Serves
from penstock.membership.sharing import SharingMember
from penstock.outbox.sequencer import HeadEnds

from .delivery_loop import DeliveryLoop
from .group.delivery import topic_of
from .handler import Subscription
from .served_groups import AnyDelivery

logger = logging.getLogger("penstock.membership")

_STRANGER = (
    "group %s is served here for %s, and by member %s for %s: they have nothing in common, so what one of them "
    "handles is passed over while the other has the partitions; if they are two programs, give each a group name "
    "of its own"
)
_LOOK_SECONDS = 1.5
_MEASURE_SECONDS = 60.0

NewDelivery = Callable[[Subscription, Topic], tuple[int, AnyDelivery]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingPlan:
    """The groups, filters and schedules of a worker, and how it shares them. `pins`: the partitions it may own."""

    cluster: ClusterSettings
    polling: PollingSettings
    subscriptions: Sequence[Subscription]
    filters: Mapping[str, tuple[str, ...]]
    pins: frozenset[int] | None = None
    schedules: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MembershipCalls:
    """The calls that the membership loop makes to its worker, and when; all in the loop's thread."""

    new_delivery: NewDelivery  # a group's topic was found: make its delivery, and return the group's id with it
    refused: Callable[[SchemaError], object]  # once, when this code cannot use the tables; then nothing is written
    measure: Callable[[], object]  # once a minute, for series of the whole store
    gained: Callable[[], object]  # there are more slots to sequence than before
    given_up: Callable[[], frozenset[str]]  # each turn: the groups that cannot be served now
    status: Callable[[], MemberStatus]  # each heartbeat: the status of this process
    joined: Callable[[int], object]  # once, with the number of members at that time
    announce: Callable[[Sequence[str]], object]  # groups wait for their topics: make them, so that they can be paused


class MembershipLoop:
    """Renews the lease, finds topics, computes shares, exchanges slots. Only this loop changes the member."""

    def __init__(
        self,
        member: SharingMember,
        log: Log,
        delivery: DeliveryLoop,
        clock: Clock,
        plan: ServingPlan,
        calls: MembershipCalls,
        schema: SchemaWatch,
    ) -> None:
        self._member, self._log, self._delivery, self._clock = member, log, delivery, clock
        self._plan, self._calls, self._schema = plan, calls, schema
        self._waiting = list(plan.subscriptions)
        self._announced: set[str] = set()
        self._left_out: frozenset[str] = frozenset()
        self._groups: dict[str, tuple[int, list[int]]] = {}
        self._warned: set[str] = set()  # groups that another program seems to serve, too
        self._served: list[tuple[Subscription, int]] = []  # no longer waiting, with the topic's id
        self._look_for_deleted = False
        self._backoff = Backoff("membership", plan.polling)
        self._look_seconds = min(_LOOK_SECONDS, plan.cluster.heartbeat_interval.total_seconds())
        self._joined, self._unsure = False, True
        self._next_beat = self._next_rebalance = self._next_measure = 0.0
        self._ending, self._stopping, self._leaving, self._wake = Event(), Event(), Event(), Event()
        self._has_announced_stop = False
        self._moved_to: set[int] = set()
        self.is_ready = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread = Thread(target=self._run, name="penstock-membership", daemon=True)
        self._thread.start()

    def begin_to_stop(self) -> None:
        """Announce to the others that this member stops; returns at once. From any thread."""
        self._ending.set()
        self._wake.set()

    def stop(self, *, leave: bool = True) -> None:
        """End, leaving the cluster; returns when that is done."""
        if leave:
            self._leaving.set()
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def moved(self, ends: HeadEnds) -> None:
        """Report the topics that records were moved to: a group may wait for one. From any thread."""
        topics = {head.topic_id for head in ends}
        if self._waiting and not topics <= self._moved_to:
            self._moved_to |= topics
            self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                self._turn()
                self._backoff.is_well()
                self._backoff.active()
                pause = self._look_seconds
            except Exception as exc:
                if self._schema.refusal is not None:
                    self._calls.refused(self._schema.refusal)
                    return
                self._next_beat, self._unsure = 0.0, True
                pause = self._backoff.trouble(exc)
            self._wake.wait(pause)
        if self._joined and self._leaving.is_set():
            self._leave()

    def _turn(self) -> None:
        now = self._clock.monotonic()
        died, new = self._member.neighbours_died(), not self._joined
        if now >= self._next_beat:
            self._next_beat = now + self._plan.cluster.heartbeat_interval.total_seconds()
            if self._unsure:  # a failed statement may mean that the tables are no longer ours to use
                self._schema.look()
                self._unsure = False
            self._beat()
        self._forget_deleted(now)
        new |= self._discover()
        self._leave_out(now)
        if self._ending.is_set() and not self._has_announced_stop:
            self._member.begin_to_stop()
            self._has_announced_stop = True
        if new or died or now >= self._next_rebalance:
            self._member.rebalance()
            settings = self._plan.cluster  # new groups here are shared out as soon as joins are gathered
            wait = settings.gather_joins if new else settings.rebalance_interval
            self._next_rebalance = now + wait.total_seconds()
        changed = self._member.look()
        self._look_for_deleted |= bool(changed - {SLOTS})
        if SLOTS in changed and self._member.exchange_slots():
            self._calls.gained()
        self._delivery.attend(changed - {SLOTS})
        self.is_ready.set()
        if now >= self._next_measure:  # last of all: it may take a while, and nothing waits for it
            self._next_measure = now + _MEASURE_SECONDS
            self._calls.measure()

    def _beat(self) -> None:
        if self._joined:
            self._member.tell(self._calls.status())
            self._member.heartbeat()
            if self._member.schema is not None:
                self._schema.see(self._member.schema)
            return
        self._member.serve(self._serves())
        self._member.join()
        self._joined = True
        self._calls.joined(len(self._member.present()))

    def _forget_deleted(self, now: float) -> None:
        """Wait again for topics that were deleted: one of the same name may have been created since."""
        if not self._served or not (self._look_for_deleted or now >= self._next_rebalance):
            return
        self._look_for_deleted = False
        there = {topic.id for topic in self._log.topics()}
        for subscription, topic_id in [each for each in self._served if each[1] not in there]:
            topic, group = subscription.topic, subscription.group
            fields = {"topic": topic, "group": group}
            logger.warning("topic %s was deleted; group %s waits for another", topic, group, extra=fields)
            self._served.remove((subscription, topic_id))
            self._groups[subscription.group][1].remove(topic_id)
            self._waiting.append(subscription)

    def _discover(self) -> bool:
        """Make the deliveries of groups whose topics exist by now; return whether there are any."""
        found = [(each, topic) for each in self._waiting if (topic := topic_of(self._log, each)) is not None]
        self._announce_waiting({each.group for each in self._waiting} - {each.group for each, _ in found})
        for subscription, topic in found:
            group_id, delivery = self._calls.new_delivery(subscription, topic)
            self._groups.setdefault(subscription.group, (group_id, []))[1].append(topic.id)
            self._served.append((subscription, topic.id))
            self._delivery.adopt(Domain(group_id, topic.id), delivery, topic)
            self._waiting.remove(subscription)
        if found:
            self._member.serve(self._serves())
            self._warn_of_strangers()
        return bool(found)

    def _announce_waiting(self, groups: set[str]) -> None:
        """Create groups whose topic does not exist yet, so that a person can pause them."""
        new = groups - self._announced
        if new:
            self._calls.announce(sorted(new))
            self._announced |= new

    def _warn_of_strangers(self) -> None:
        """Warn when another program seems to serve a group of ours: it shares no handler with us."""
        strangers = self._member.strangers()
        for name, (group_id, _) in self._groups.items():
            if group_id in strangers and name not in self._warned:
                self._warned.add(name)
                member, filter = strangers[group_id]
                ours, theirs = ", ".join(self._plan.filters[name]), ", ".join(filter)
                logger.warning(_STRANGER, name, ours, member, theirs, extra={"group": name, "member": member})

    def _leave_out(self, now: float) -> None:
        """Update the groups served here; when they have changed, compute shares at once."""
        given_up = self._calls.given_up()
        if given_up != self._left_out:
            self._left_out, self._next_rebalance = given_up, now
        self._member.serve(self._serves())  # writes only a change

    def _serves(self) -> Serves:
        groups = tuple(
            ServedGroup(group_id, self._plan.filters[name], tuple(topics))
            for name, (group_id, topics) in self._groups.items()
            if name not in self._left_out
        )
        return Serves(True, groups, self._plan.pins, self._plan.schedules)

    def _leave(self) -> None:
        try:
            self._member.leave()
        except Exception as exc:
            self._backoff.warn_once(exc, "could not leave; others take over when the lease ends")


def filters_of(subscriptions: Sequence[Subscription]) -> dict[str, tuple[str, ...]]:
    """Return the filter of each group: the matches of its handlers, on all its topics."""
    texts: dict[str, list[str]] = {}
    for subscription in subscriptions:
        for handler in subscription.handlers:
            texts.setdefault(subscription.group, []).extend(
                f"{subscription.topic}:{match}" for match in handler.match_texts()
            )
    return {group: filter_of(each) for group, each in texts.items()}
