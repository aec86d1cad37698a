"""`drain`: sequence and deliver all that is due now, then return. For tests, cron jobs and small programs.

The simplest correct loop: this process takes what no living member owns, moves what is staged, and hands
each group its records partition by partition, in offset order, settling as it goes. A record whose handler
raises stays where it is and is tried again by the next drain; the records behind it in its partition wait,
all other partitions go on. What handlers publish meanwhile is drained too.
"""

import logging
from dataclasses import dataclass

from penstock.clock import Clock
from penstock.delivery.cursors import Cursor, Cursors
from penstock.errors import Fenced, OffsetOutOfRange, UnknownTopic
from penstock.log.contract import Topic
from penstock.log.sql.database import Database
from penstock.log.sql.log import SqlLog
from penstock.membership.member import ClusterSettings, Member
from penstock.model.outcome import Done, outcome_of
from penstock.model.record import Record
from penstock.outbox.sequencer import Sequencer, SequencerSettings

from .calls import Calls
from .handlers import Handlers, Subscription

log = logging.getLogger("penstock.drain")

_READ_RECORDS = 500


@dataclass(slots=True)
class Counts:
    """What a drain did."""

    sequenced: int = 0
    delivered: int = 0
    retried: int = 0
    parked: int = 0
    dead: int = 0


class Drain:
    """One drain of one outbox."""

    def __init__(self, database: Database, handlers: Handlers, clock: Clock) -> None:
        self._database, self._handlers, self._clock = database, handlers, clock
        self._log = SqlLog(database, clock)
        self._settings = ClusterSettings.load()
        self._member = Member(database, self._settings, clock)
        self._sequencer = Sequencer(database, SequencerSettings.load(), clock)
        self._stuck: set[tuple[str, int, int]] = set()
        self._calls, self._counts = Calls(), Counts()
        self._next_beat = 0.0

    def run(self) -> Counts:
        """Drain until a whole round finds nothing to do."""
        self._member.join()
        try:
            with self._calls:
                while self._sequence() | self._deliver():
                    pass
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
        topic = self._topic(subscription)
        if topic is None:
            return False
        cursors = Cursors(
            self._database, self._clock, group=subscription.group, topic=topic, owner=self._member.id
        )
        if not cursors.behind():
            return False
        taken = cursors.take(self._member.living, from_start=subscription.start == "earliest")
        try:
            worked = [self._work(cursors, cursor, subscription) for cursor in taken]
            return any(worked)
        finally:
            cursors.release()

    def _topic(self, subscription: Subscription) -> Topic | None:
        """Return the topic; a group that starts at the latest record needs it now, to know where that is."""
        try:
            return self._log.topic(subscription.topic)
        except UnknownTopic:
            return None if subscription.start == "earliest" else self._log.create_topic(subscription.topic)

    def _work(self, cursors: Cursors, cursor: Cursor, subscription: Subscription) -> bool:
        """Hand out one partition's records until its end or a failure; return whether there were any."""
        place = (subscription.group, cursor.topic.id, cursor.partition)
        worked = False
        while place not in self._stuck and (records := self._read(subscription, cursor)):
            worked = True
            reached = cursor.offset
            for record in records:
                if not self._handle(subscription, record):
                    self._stuck.add(place)
                    break
                reached = record.offset + 1 if record.offset is not None else reached
                if not self._member.is_live():  # another may have taken over: settling tells
                    break
                self._beat()
            if reached > cursor.offset and not self._settled(cursors, cursor, reached):
                self._stuck.add(place)
            self._beat()
        return worked

    def _read(self, subscription: Subscription, cursor: Cursor) -> list[Record]:
        try:
            return self._log.read(subscription.topic, cursor.partition, cursor.offset, _READ_RECORDS)
        except (UnknownTopic, OffsetOutOfRange):  # the topic was deleted meanwhile, and perhaps made again
            return []

    def _beat(self) -> None:
        """Renew the lease when that is due; a slow handler must not cost the partitions behind it."""
        now = self._clock.monotonic()
        if now >= self._next_beat or not self._member.is_live():
            self._next_beat = now + self._settings.heartbeat_interval.total_seconds()
            self._member.heartbeat()

    def _settled(self, cursors: Cursors, cursor: Cursor, offset: int) -> bool:
        try:
            cursors.settle(cursor, offset)
        except Fenced as exc:
            log.warning("%s", exc)
            return False
        return True

    def _handle(self, subscription: Subscription, record: Record) -> bool:
        """Call the handler for a record; return whether it is done. None wants it: it is done."""
        name = f"predicate of group {subscription.group}"
        try:
            handler = subscription.handler_for(record)
            if handler is None:
                return True
            name = f"handler {handler.id}"
            outcome = outcome_of(self._calls.answer(handler.function, record))
            done = isinstance(outcome, Done)
            if not done:
                log.warning(
                    "%s answered %s to %s %s; it is tried again", name, outcome, record.type, record.id
                )
        except Exception:
            log.exception("%s failed on %s %s; it is tried again", name, record.type, record.id)
            done = False
        self._counts.delivered += done
        self._counts.retried += not done
        return done
