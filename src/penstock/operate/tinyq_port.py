"""Administration for the TinyQ port: topics with a mode, clearing, deleting.

In consume mode each message goes to one of the subscribers, which share the group `tinyq`. In broadcast mode
it goes to each of them. Groups represent the mode: a topic that `tinyq` reads is in consume mode; a topic
with a group `tinyq.broadcast.TOPIC` is in broadcast mode. A topic that was only published or subscribed to is
in consume mode; a subscription with its own group does not create the shared one.
"""

from contextlib import suppress
from enum import StrEnum

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery.groups import GroupKind, join_group
from penstock.errors import InvalidInput, UnknownGroup, UnknownTopic
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings, check_topic

from . import groups, topics
from .clear import clear as clear_topic
from .groups import create as create_group

SHARED = "tinyq"
_BROADCAST = "tinyq.broadcast."


class TopicMode(StrEnum):
    """The recipients of a message: one subscriber or all."""

    CONSUME = "consume"
    BROADCAST = "broadcast"


class TinyqAdministration:
    """Changes a store for the TinyQ port. Safe from any thread."""

    def __init__(
        self, store: Store, *, partitions: int = 1, payload_bytes: int = 10_240_000, clock: Clock = SYSTEM
    ) -> None:
        """`partitions`: of new topics; `payload_bytes`: the largest payload that may be published."""
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
        """Create a topic with a mode, unless it exists. Raises InvalidInput if it has the other mode."""
        known = self.mode(topic)
        if known not in (None, mode):
            raise InvalidInput(f"topic {topic} is in {known} mode, not in {mode} mode")
        self._make(topic)
        if mode is TopicMode.CONSUME:
            create_group(self.store, SHARED, topic, clock=self._clock)
        elif known is None:
            self.store.database.run(lambda tx: self._mark(tx, topic))

    def ensure(self, topic: str, *, shared: bool = True) -> TopicMode:
        """Return a topic's mode; a topic without one gets consume mode.

        `shared` False: another group reads the topic, so the shared group, which would have no reader, is not
        created.
        """
        known = self.mode(topic)
        if known is None and shared:
            self.create(topic, TopicMode.CONSUME)
        elif known is None:
            self._make(topic)
        return known or TopicMode.CONSUME

    def has(self, topic: str) -> bool:
        """Return whether the topic exists. Raises InvalidTopic."""
        check_topic(topic)
        try:
            self.store.log.topic(topic)
        except UnknownTopic:
            return False
        return True

    def clear(self, topic: str) -> None:
        """Delete a topic's records and everything of it that waits. Raises UnknownTopic."""
        clear_topic(self.store, topic, clock=self._clock, actor=SHARED)

    def delete(self, topic: str) -> None:
        """Delete a topic with its mode. Raises UnknownTopic."""
        topics.delete(self.store, topic, force=True, clock=self._clock, actor=SHARED)
        with suppress(UnknownGroup):
            groups.delete(self.store, _BROADCAST + topic, clock=self._clock, actor=SHARED)

    def _make(self, topic: str) -> None:
        if not self.has(topic):
            topics.create(self.store, topic, partitions=self._partitions, clock=self._clock, actor=SHARED)

    def _mark(self, tx: Transaction, topic: str) -> int:
        return join_group(tx, _BROADCAST + topic, GroupKind.CLIENT, own_ms(self._clock))
