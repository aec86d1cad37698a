"""What the TinyQ port does to a store: topics with a mode, clearing, deleting.

In consume mode each message goes to one of those who subscribe: they share the group `tinyq`. In broadcast
mode it goes to each of them. The mode is kept by what there is: a topic on which that group stands is for
consuming; one with a group `tinyq.broadcast.TOPIC` is for broadcasting. A topic that is only published to or
subscribed to is for consuming; a subscription with a group of its own does not make the shared one.
"""

from contextlib import suppress
from enum import StrEnum

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.delivery.group_kind import GroupKind, join_group
from penstock.errors import InvalidInput, UnknownGroup, UnknownTopic
from penstock.log.sql.database import Transaction
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings, check_topic

from . import groups, topics
from .clear import clear as clear_topic
from .groups_made import create as create_group

SHARED = "tinyq"
_BROADCAST = "tinyq.broadcast."


class TopicMode(StrEnum):
    """Who is given a message: one of the subscribers, or each."""

    CONSUME = "consume"
    BROADCAST = "broadcast"


class TinyqAdministration:
    """The store as the TinyQ port uses it. From any thread."""

    def __init__(
        self, store: Store, *, partitions: int = 1, payload_bytes: int = 10_240_000, clock: Clock = SYSTEM
    ) -> None:
        """`partitions`: of topics that it makes; `payload_bytes`: the largest that may be published."""
        self.store, self._partitions, self._clock = store, partitions, clock
        self.limits = LimitsSettings.load(event_bytes=max(payload_bytes, LimitsSettings.load().event_bytes))

    def mode(self, topic: str) -> TopicMode | None:
        """Return a topic's mode; None if it has none yet. Raises InvalidTopic."""
        check_topic(topic)
        try:
            groups.show(self.store, _BROADCAST + topic)
        except UnknownGroup:
            pass
        else:
            return TopicMode.BROADCAST
        try:
            known = [each.topic for each in groups.show(self.store, SHARED).on_topics]
        except UnknownGroup:
            return None
        return TopicMode.CONSUME if topic in known else None

    def create(self, topic: str, mode: TopicMode) -> None:
        """Make a topic of a mode; the same again changes nothing. Raises InvalidInput for the other mode."""
        known = self.mode(topic)
        if known not in (None, mode):
            raise InvalidInput(f"topic {topic} is for {known}, not for {mode}")
        self._make(topic)
        if mode is TopicMode.CONSUME:
            create_group(self.store, SHARED, topic, clock=self._clock)
        elif known is None:
            self.store.database.run(lambda tx: self._mark(tx, topic))

    def ensure(self, topic: str, *, shared: bool = True) -> TopicMode:
        """Return a topic's mode; one that has none is for consuming from now on.

        `shared` False: another group reads it, so the one that all share is not made; nobody would read it.
        """
        known = self.mode(topic)
        if known is None and shared:
            self.create(topic, TopicMode.CONSUME)
        elif known is None:
            self._make(topic)
        return known or TopicMode.CONSUME

    def has(self, topic: str) -> bool:
        """Return whether there is such a topic. Raises InvalidTopic."""
        check_topic(topic)
        try:
            self.store.log.topic(topic)
        except UnknownTopic:
            return False
        return True

    def clear(self, topic: str) -> None:
        """Remove all that a topic holds and that waits of it. Raises UnknownTopic."""
        clear_topic(self.store, topic, clock=self._clock, actor=SHARED)

    def delete(self, topic: str) -> None:
        """Remove a topic with its mode. Raises UnknownTopic."""
        topics.delete(self.store, topic, force=True, clock=self._clock, actor=SHARED)
        with suppress(UnknownGroup):
            groups.delete(self.store, _BROADCAST + topic, clock=self._clock, actor=SHARED)

    def _make(self, topic: str) -> None:
        if not self.has(topic):
            topics.create(self.store, topic, partitions=self._partitions, clock=self._clock, actor=SHARED)

    def _mark(self, tx: Transaction, topic: str) -> int:
        return join_group(tx, _BROADCAST + topic, GroupKind.CLIENT, own_ms(self._clock))
