"""The worker: one process that sequences and delivers, and shares the work with others.

Its threads: membership, the mover, the turn's own, retention, ticking if there are schedules, and those that run
handlers. Each but the last needs one database connection at a time, the mover another one to hear the bell.
"""

import asyncio
import logging
import os
from dataclasses import dataclass, field
from threading import Event, Lock

from penstock.backoff import PollingSettings
from penstock.clock import Clock, steady
from penstock.database.bell_listener import BellConnection
from penstock.database.migrations import SchemaWatch
from penstock.delivery.groups import make_groups
from penstock.delivery.store import GroupStore
from penstock.errors import Error, GroupsGivenUp, SchemaError
from penstock.log.contract import Topic
from penstock.log.store import Store
from penstock.membership.domain import touch
from penstock.membership.member import ClusterSettings
from penstock.membership.serving import Domain, MemberStatus
from penstock.membership.sharing import SharingMember
from penstock.outbox.bell import BellSettings

from .calling.runner import ProcessingSettings
from .delivery_loop import DeliveryLoop
from .group.delivery import GroupDelivery
from .group.settlements import Settled
from .group.suspects import Trials
from .group.transactional import TransactionalDelivery
from .handler import Subscription
from .handlers import Handlers
from .known_log import MOST_MOVED_BYTES
from .membership_loop import MembershipCalls, MembershipLoop, ServingPlan, filters_of
from .mover import Mover
from .retention import RetentionService
from .served_groups import AnyDelivery
from .status import Measures, WorkerHealth, begin_series, log_start, with_services
from .ticker import TickingService, TickSource

logger = logging.getLogger("penstock.worker")

UNSERVED_SECONDS = 5.0  # how long a worker that serves no group waits for hung calls to end


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerPlan:
    """The choices of one worker. `pins`: the partitions it may own; None: any. `dedicated`: nothing else runs."""

    cluster: ClusterSettings = field(default_factory=ClusterSettings.load)
    polling: PollingSettings = field(default_factory=PollingSettings.load)
    processing: ProcessingSettings = field(default_factory=ProcessingSettings.load)
    pins: frozenset[int] | None = None
    dedicated: bool = False


class Worker:
    """Makes the services, starts and stops them, passes on their reports. `start` once, then `stop`."""

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        clock: Clock,
        plan: WorkerPlan | None = None,
        *,
        schema: SchemaWatch | None = None,
        periodic: TickSource | None = None,
        settled: Settled | None = None,
    ) -> None:
        """`schema`: a watch that has looked already. `settled`: called with written results of its one group."""
        self._plan = plan = plan or WorkerPlan()
        self._store, self._database, self._clock = store, store.database, steady(clock)
        self._handlers, self._settled, threads = handlers, settled, plan.processing.concurrency
        self._subscriptions = tuple(handlers.subscriptions())
        self._filters = filters_of(self._subscriptions)
        self._member = SharingMember(self._database, plan.cluster, self._clock, dedicated=plan.dedicated)
        self._trials = Trials(self._clock, threads=threads, dedicated=plan.dedicated)
        self._bell = BellConnection(self._database, plan.polling) if BellSettings.load().enabled else None
        self._delivery = DeliveryLoop(
            store.log,
            self._member,
            self._clock,
            polling=plan.polling,
            threads=threads,
            trials=self._trials,
            store=store.name,
            is_told=self._hears,
            unread=lambda ends: self._membership.moved(ends),
        )
        self._mover = Mover(
            store,
            self._clock,
            cluster=plan.cluster,
            polling=plan.polling,
            member=self._member,
            bell=self._bell,
            moved=self._delivery.moved,
            logged=self._delivery.ring,
            hand_over_bytes=MOST_MOVED_BYTES,
        )
        self._retention = RetentionService(
            store,
            self._clock,
            member=self._member,
            groups=sorted({each.group for each in self._subscriptions}),
            polling=plan.polling,
        )
        self._measures = Measures(store, self._member, self._clock)
        self._membership = self._membership_loop(schema or SchemaWatch(self._database), periodic)
        self._ticking: TickingService | None = None
        if periodic is not None:
            ready = self._membership.is_ready
            self._ticking = TickingService(self._database, periodic, self._clock, ready=ready, polling=plan.polling)
        self._pid, self._starting = os.getpid(), Lock()
        self._refusal: SchemaError | None = None
        self._stopping, self._stopped = Event(), Event()

    def _membership_loop(self, schema: SchemaWatch, periodic: TickSource | None) -> MembershipLoop:
        subscriptions, where = self._subscriptions, self._database.where
        return MembershipLoop(
            self._member,
            self._store.log,
            self._delivery,
            self._clock,
            ServingPlan(
                cluster=self._plan.cluster,
                polling=self._plan.polling,
                subscriptions=subscriptions,
                filters=self._filters,
                pins=self._plan.pins,
                schedules=() if periodic is None else periodic.schedules.fingerprints(),
            ),
            MembershipCalls(
                new_delivery=self._new_delivery,
                refused=self._end_refused,
                measure=self._measures.take,
                gained=self._mover.ring,
                given_up=lambda: self._delivery.hung.given_up,
                status=self._status,
                joined=lambda members: log_start(where, subscriptions, self._member.id, members),
                announce=lambda groups: make_groups(self._database, groups, self._clock),
            ),
            schema,
        )

    @property
    def id(self) -> str:
        """The member's id."""
        return self._member.id

    def start(self) -> None:
        """Begin; returns at once. If the database is unavailable, the worker waits for it."""
        if not self._filters:
            logger.warning("no handler is registered: this worker brings events into the log and delivers none")
        begin_series(self._store.name, self._subscriptions)
        self._handlers.is_served = True
        with self._starting:
            self._membership.start()
            self._delivery.start()
            self._mover.start()
            self._retention.start()
            if self._ticking is not None:
                self._ticking.start()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let async handlers run in this event loop; before `start`."""
        self._delivery.use_loop(loop)

    def ring(self) -> None:
        """Report that something was published or sequenced elsewhere; the next look comes at once."""
        self._mover.ring()
        self._delivery.ring()

    def staged(self, slots: frozenset[int] | None) -> None:
        """Report the end of a transaction that published through this process, and its slots if known."""
        if self._bell is not None and not self._database.dialect.notifies:
            self._bell.expect_write()  # it may not be on disk yet; the bell rings when it is
        else:
            self._mover.ring(slots)

    def flooded(self, seconds: float) -> None:
        """Report that this process publishes for `seconds` without a report for each transaction."""
        if self._bell is not None and not self._database.dialect.notifies:
            self._bell.expect_write()  # from then on it looks often enough
        else:
            self._mover.flooded(seconds)

    def stop(self, grace_seconds: float | None = None) -> None:
        """Tell the others, let handlers end within the grace period, settle, release, leave. A fork does nothing."""
        if self._pid != os.getpid():
            return
        if grace_seconds is None:
            grace_seconds = self._plan.processing.shutdown_timeout.total_seconds()
        self._stopping.set()
        if self._ticking is not None:
            self._ticking.stop()
        self._membership.begin_to_stop()
        self._delivery.stop(grace_seconds)
        self._mover.stop()
        self._retention.stop()
        self._delivery.join()
        self._membership.stop()
        self._measures.forget()
        self._handlers.is_served = False
        self._stopped.set()

    def cut_short(self) -> None:
        """Stop waiting for handlers in a stop that is under way."""
        self._delivery.cut_short()

    def health(self) -> WorkerHealth:
        """Return its groups, its lease and its activity; from any thread, without a query."""
        return WorkerHealth(
            groups=tuple(sorted(self._filters)),
            given_up=self._delivery.hung.groups(),
            refusal="" if self._refusal is None else str(self._refusal),
            workers=1,
            lease_seconds=self._member.lease_seconds(),
            stopping=self._stopping.is_set(),
            calls=self._delivery.running_calls(),
        )

    def failure(self) -> Error | None:
        """Return why this worker should end: it cannot use the tables, or has served no group for a while."""
        if self._refusal is not None:
            return self._refusal
        if self._delivery.hung.seconds_without(self._filters) < UNSERVED_SECONDS:
            return None
        return GroupsGivenUp(str(each) for each in self._delivery.hung.groups())

    def _hears(self) -> bool:
        return self._bell is not None and self._bell.hears

    def _status(self) -> MemberStatus:
        polls = "bell.enabled is off" if self._bell is None else self._bell.trouble
        try:
            delivery = self._delivery.status()
        except RuntimeError:  # a queue changed during the read; the next heartbeat reports it
            delivery = MemberStatus()
        return with_services(delivery, sequencing=self._mover.trouble, polls=polls)

    def _end_refused(self, error: SchemaError) -> None:
        """End: this code cannot use the tables, so it writes nothing more, not even that it leaves."""
        logger.error("this worker ends: %s", error)
        with self._starting:  # a service that has not started yet could not be stopped
            pass
        if self._ticking is not None:
            self._ticking.stop()
        self._delivery.abandon(self._plan.processing.shutdown_timeout.total_seconds())
        self._mover.stop()
        self._retention.stop()
        self._refusal = error

    def _new_delivery(self, subscription: Subscription, topic: Topic) -> tuple[int, AnyDelivery]:
        store = GroupStore(
            self._store,
            self._clock,
            group=subscription.group,
            topic=topic,
            owner=self._member.id,
            from_start=subscription.start == "earliest",
            filter=self._filters[subscription.group],
            touch=lambda tx, group_id, topic_id: touch(tx, Domain(group_id, topic_id)),
            catch_up=subscription.catch_up(self._plan.processing.catch_up),
            gone=self._member.gone,
        )
        delivery = GroupDelivery(self._store.log, store, subscription, self._clock, self._trials, settled=self._settled)
        if not subscription.is_transactional:
            return store.group_id, delivery
        return store.group_id, TransactionalDelivery(self._database, store, delivery, self._clock)
