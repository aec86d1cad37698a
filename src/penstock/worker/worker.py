"""The worker: one process that sequences and delivers, and shares the work with others.

Its threads: membership, sequencer, delivery, retention, the bell listener, ticking if there are schedules,
and the threads that run handlers. Each of the first four, and ticking, needs one database connection at a
time; handlers need the connections they open themselves.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from threading import Event, Lock

from penstock.backoff import PollingSettings
from penstock.clock import Clock, steady
from penstock.database.bell_listener import (
    LOGGED,
    BellListener,
    flood_seconds,
    is_test,
    notify_others,
    staged_slots,
)
from penstock.database.schema_watch import SchemaWatch
from penstock.delivery.groups import make_groups
from penstock.delivery.store import GroupStore
from penstock.errors import Error, GroupsGivenUp, SchemaError
from penstock.log.contract import Topic
from penstock.log.store import Store
from penstock.membership.domain import touch
from penstock.membership.member import ClusterSettings
from penstock.membership.serving import Domain
from penstock.membership.sharing import SharingMember
from penstock.membership.status import MemberStatus
from penstock.outbox.bell import BellSettings
from penstock.outbox.sequencer import Pass
from penstock.outbox.whole_move import MOST_RECORDS

from .banner import tell_start
from .calling.runner import ProcessingSettings
from .delivery_loop import DeliveryLoop
from .group.delivery import GroupDelivery
from .group.settling import Settled
from .group.transactional import TransactionalDelivery
from .group.trials import Trials
from .handed_over import HAND_OVER_BYTES
from .handlers import Handlers
from .health import WorkerHealth
from .measures import Measures, begin_series
from .membership_loop import MembershipLoop, filters_of
from .retention import RetentionService
from .sequencing import SequencingService
from .served_groups import AnyDelivery
from .status import with_services
from .subscription import Subscription
from .ticker import TickSource
from .ticking import TickingService

logger = logging.getLogger("penstock.worker")

UNSERVED_SECONDS = 5.0  # how long a worker that serves no group waits for hung calls to end


class Worker:
    """One running worker: makes the services, starts and stops them together, and passes on their reports.

    Call `start` once, then `stop`; both from any thread.
    """

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        clock: Clock,
        *,
        pins: frozenset[int] | None = None,
        cluster: ClusterSettings | None = None,
        polling: PollingSettings | None = None,
        processing: ProcessingSettings | None = None,
        dedicated: bool = False,
        schema: SchemaWatch | None = None,
        periodic: TickSource | None = None,
        settled: Settled | None = None,
    ) -> None:
        """`dedicated`: the process does nothing else, so a record may be the cause of its death.

        `schema`: a watch that has looked at the tables already, if there is one. `periodic`: the schedules.
        `settled`: called with results once they are written, for a worker of one group on one topic.
        """
        self._settled = settled
        cluster, polling = cluster or ClusterSettings.load(), polling or PollingSettings.load()
        self._processing = processing or ProcessingSettings.load()
        database, clock = store.database, steady(clock)
        self._store, self._database, self._log, self._clock = store, database, store.log, clock
        self._member = SharingMember(database, cluster, clock, dedicated=dedicated)
        self._trials = Trials(clock, threads=self._processing.concurrency, dedicated=dedicated)
        self._delivery = DeliveryLoop(
            self._log,
            self._member,
            clock,
            polling=polling,
            threads=self._processing.concurrency,
            trials=self._trials,
            store=store.name,
            is_told=self._is_told,
        )
        self._sequencing = SequencingService(
            store,
            clock,
            cluster=cluster,
            polling=polling,
            member=self._member,
            sequenced=self._sequenced,
            hand_over_bytes=HAND_OVER_BYTES,
            is_told=self._is_told,
        )
        self._retention = RetentionService(
            store,
            clock,
            member=self._member,
            groups=sorted({each.group for each in handlers.subscriptions()}),
            polling=polling,
        )
        self._starting = Lock()
        self._listener = BellListener(database, polling, self._heard) if BellSettings.load().enabled else None
        self._handlers = handlers
        subscriptions = list(handlers.subscriptions())
        self._filters, self._subscriptions = filters_of(subscriptions), subscriptions
        self._measures = Measures(store, self._member, clock)
        self._membership = MembershipLoop(
            self._member,
            self._log,
            self._delivery,
            clock,
            subscriptions=subscriptions,
            filters=self._filters,
            new_delivery=self._new_delivery,
            cluster=cluster,
            polling=polling,
            pins=pins,
            measure=self._measures.take,
            gained=self._sequencing.ring,
            given_up=lambda: self._delivery.hung.given_up,
            status=self._status,
            schema=schema or SchemaWatch(database),
            refused=self._end_refused,
            joined=lambda members: tell_start(database.where, subscriptions, self._member.id, members),
            schedules=() if periodic is None else periodic.schedules.fingerprints(),
            announce=lambda groups: make_groups(database, groups, clock),
        )
        self._ticking: TickingService | None = None
        if periodic is not None:
            self._ticking = TickingService(
                database, periodic, clock, ready=self._membership.is_ready, polling=polling
            )
        self._pid = os.getpid()
        self._refusal: SchemaError | None = None
        self._stopping, self._stopped = Event(), Event()

    @property
    def id(self) -> str:
        """The member's id."""
        return self._member.id

    def start(self) -> None:
        """Begin; returns at once. If the database is unavailable, the worker waits for it."""
        if not self._filters:
            logger.warning(
                "no handler is registered: this worker brings events into the log and delivers none"
            )
        begin_series(self._store.name, self._subscriptions)
        self._handlers.is_served = True
        with self._starting:
            self._membership.start()
            self._delivery.start()
            self._sequencing.start()
            self._retention.start()
            if self._listener is not None:
                self._listener.start()
            if self._ticking is not None:
                self._ticking.start()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let async handlers run in this event loop; before `start`."""
        self._delivery.use_loop(loop)

    def ring(self) -> None:
        """Report that something was published or sequenced elsewhere; the next look comes at once."""
        self._sequencing.ring()
        self._delivery.ring()

    def staged(self, slots: frozenset[int] | None) -> None:
        """Report the end of a transaction that published through this process, and its slots if known."""
        if self._listener is not None and not self._database.dialect.notifies:
            self._listener.hurry()  # it may not be on disk yet; the listener notices when it is
        else:
            self._sequencing.ring(slots)

    def flooded(self, seconds: float) -> None:
        """Report that this process publishes for `seconds` without a report for each transaction."""
        if self._listener is not None and not self._database.dialect.notifies:
            self._listener.hurry()  # from then on the listener looks often enough
        else:
            self._sequencing.flooded(seconds)

    def stop(self, grace_seconds: float | None = None) -> None:
        """Tell the others, let handlers end within the grace period, settle, release, leave; then return.

        May be called twice, and again from another thread to hurry the first call. In a process forked off a
        running worker it does nothing: the threads are the parent's.
        """
        if self._pid != os.getpid():
            return
        if grace_seconds is None:
            grace_seconds = self._processing.shutdown_timeout.total_seconds()
        self._stopping.set()
        if self._ticking is not None:
            self._ticking.stop()
        self._membership.begin_to_stop()
        self._delivery.stop(grace_seconds)
        if self._listener is not None:
            self._listener.stop()
        self._sequencing.stop()
        self._retention.stop()
        self._delivery.join()
        self._membership.stop()
        self._measures.forget()
        self._handlers.is_served = False
        self._stopped.set()

    def hurry(self) -> None:
        """Stop waiting for handlers in a stop that is under way."""
        self._delivery.hurry()

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

    def _is_told(self) -> bool:
        """Return whether a bell announces what other processes publish and sequence."""
        return self._listener is not None and self._listener.hears

    def _status(self) -> MemberStatus:
        """Return the status of this process, for other processes to read."""
        polls = "bell.enabled is off" if self._listener is None else self._listener.trouble
        try:
            delivery = self._delivery.status()
        except RuntimeError:  # a queue changed during the read; the next heartbeat reports it
            delivery = MemberStatus()
        return with_services(delivery, sequencing=self._sequencing.trouble, polls=polls)

    def _end_refused(self, error: SchemaError) -> None:
        """End: this code cannot use the tables, so it writes nothing more, not even that it leaves."""
        logger.error("this worker ends: %s", error)
        with self._starting:  # a service that has not started yet could not be stopped
            pass
        if self._ticking is not None:
            self._ticking.stop()
        self._delivery.abandon(self._processing.shutdown_timeout.total_seconds())
        if self._listener is not None:
            self._listener.stop()
        self._sequencing.stop()
        self._retention.stop()
        self._refusal = error

    def _heard(self, words: Sequence[str]) -> None:
        told: frozenset[int] | None = frozenset()
        is_staged = False
        for word in words:
            if word == LOGGED:
                self._delivery.ring()
            elif seconds := flood_seconds(word):
                self._sequencing.flooded(seconds)
            elif not is_test(word):
                slots = staged_slots(word)
                told = None if slots is None or told is None else told | slots
                is_staged = True
        if is_staged:
            self._sequencing.move(told)

    def _sequenced(self, done: Pass) -> None:
        """Hand over sequenced records: to the delivery loop here, and to those of other processes."""
        if not done.moved:  # a write that left nothing staged: perhaps another sequencer's
            self._delivery.ring()
            return
        self._delivery.grown(done.ends, done.entries, few=done.moved <= MOST_RECORDS)
        self._membership.moved(done.ends)
        if self._listener is not None and self._database.dialect.notifies and self._member.has_neighbours:
            notify_others(self._database, LOGGED)

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
            catch_up=subscription.catch_up(self._processing.catch_up),
            gone=self._member.gone,
        )
        delivery = GroupDelivery(
            self._log, store, subscription, self._clock, self._trials, settled=self._settled
        )
        if not subscription.is_transactional:
            return store.group_id, delivery
        return store.group_id, TransactionalDelivery(self._database, store, delivery, self._clock)
