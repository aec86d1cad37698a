"""Administration through the Kafka and TinyQ ports: the same operations that commands use, with their audit.

A TinyQ topic has a mode. In consume mode each message goes to one of the subscribers, which share the group
`tinyq`. In broadcast mode it goes to each of them. Groups represent the mode: a topic that `tinyq` reads is in
consume mode; a topic with a group `tinyq.broadcast.TOPIC` is in broadcast mode. A topic that was only published
or subscribed to is in consume mode; a subscription with its own group does not create the shared one.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum

from penstock.access.rule import AccessRule
from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery.groups import GroupKind, join_group
from penstock.delivery.retention_trim import behind, trim
from penstock.errors import InvalidInput, UnknownGroup, UnknownTopic
from penstock.log.contract import Compaction, Keep, OffsetRange, Topic
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings, check_topic

from . import access_rules, audit, clear, groups, topics

KAFKA = "kafka"  # the actor in the audit
SHARED = "tinyq"  # the shared group, and the actor in the audit
_BROADCAST = "tinyq.broadcast."
_TRIMMED_TOGETHER = 10_000  # records deleted in one transaction


class KafkaAdministration:
    """Changes a store for the broker. Safe from any thread."""

    def __init__(self, store: Store, clock: Clock = SYSTEM) -> None:
        self._store, self._clock = store, clock

    def create_topic(
        self,
        name: str,
        partitions: int,
        partitioner: str,
        keep: Keep,
        configs: Mapping[str, str],
        compaction: Compaction | None = None,
    ) -> None:
        """Create a topic and set its configs."""
        topics.create(self._store, name, partitions=partitions, partitioner=partitioner, clock=self._clock, actor=KAFKA)
        if keep != Keep() or configs or compaction:
            self.set_topic(self._store.log.topic(name), keep, configs, compaction)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, unless handlers work on it."""
        topics.delete(self._store, name, clock=self._clock, actor=KAFKA)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        topics.grow(self._store, name, partitions, clock=self._clock, actor=KAFKA)

    def set_topic(
        self, topic: Topic, keep: Keep, configs: Mapping[str, str | None], compaction: Compaction | None
    ) -> None:
        """Set retention and other configs, in one transaction as far as possible.

        Compaction that starts is set after retention; compaction that ends is switched off before it.
        """

        def change(tx: Transaction) -> None:
            self._store.log_in(tx).retain(topic, keep)
            for name, value in configs.items():
                tx.change("log", "topic_config_delete", topic_id=topic.id, name=name)
                if value is not None:
                    tx.change("log", "topic_config_add", topic_id=topic.id, name=name, value=value)
            subject = {"topic": topic.name, **keep._asdict(), **configs}
            audit.write(tx, "topic set", subject, 1, own_ms(self._clock), actor=KAFKA)

        log = self._store.log
        changes = log.compaction(topic) != compaction
        if changes and compaction is None:
            log.compact(topic, None)
        self._store.database.run(change)
        if changes and compaction is not None:
            log.compact(topic, compaction)

    def trim_topic(self, topic: Topic, partition: int, before: int) -> None:
        """Delete the oldest records, unless a handler group has not read them yet."""
        week_ms = timedelta(days=7) // timedelta(milliseconds=1)
        seen_since_ms = 0 if own_ms(self._clock) is not None else self._clock.now_ms() - week_ms
        start, _ = self._store.log.bounds(topic.name, partition)
        while start < before:
            end = min(before, start + _TRIMMED_TOGETHER)
            ranges = [OffsetRange(partition, start, end)]
            trim(
                self._store,
                topic,
                ranges,
                unless=lambda tx, ranges=ranges: bool(behind(tx, topic, ranges, seen_since_ms)),  # type: ignore[misc]
            )
            start = end

    def add_rules(self, rules: Sequence[AccessRule], by: str) -> tuple[AccessRule, ...]:
        """Add access rules."""
        return access_rules.add(self._store, rules, clock=self._clock, actor=f"{KAFKA}:{by}")

    def remove_rules(self, rules: Sequence[AccessRule], by: str, *, last: bool) -> tuple[AccessRule, ...]:
        """Remove access rules."""
        actor = f"{KAFKA}:{by}"
        return access_rules.remove(self._store, rules, last=last, clock=self._clock, actor=actor)

    def delete_group(self, name: str) -> None:
        """Delete a group."""
        groups.delete(self._store, name, clock=self._clock, actor=KAFKA)


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
        with suppress(UnknownGroup):
            groups.show(self.store, _BROADCAST + topic)
            return TopicMode.BROADCAST
        with suppress(UnknownGroup):
            known = [each.topic for each in groups.show(self.store, SHARED).on_topics]
            return TopicMode.CONSUME if topic in known else None
        return None

    def create(self, topic: str, mode: TopicMode) -> None:
        """Create a topic with a mode, unless it exists. Raises InvalidInput if it has the other mode."""
        known = self.mode(topic)
        if known not in (None, mode):
            raise InvalidInput(f"topic {topic} is in {known} mode, not in {mode} mode")
        self._make(topic)
        if mode is TopicMode.CONSUME:
            groups.create(self.store, SHARED, topic, clock=self._clock)
        elif known is None:
            group, now_ms = _BROADCAST + topic, own_ms(self._clock)
            self.store.database.run(lambda tx: join_group(tx, group, GroupKind.CLIENT, now_ms))

    def ensure(self, topic: str, *, shared: bool = True) -> TopicMode:
        """Return a topic's mode; a topic without one gets consume mode.

        `shared` False: another group reads the topic, so the shared group, which would have no reader, is not created.
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
        with suppress(UnknownTopic):
            return bool(self.store.log.topic(topic))
        return False

    def clear(self, topic: str) -> None:
        """Delete a topic's records and everything of it that waits. Raises UnknownTopic."""
        clear.clear(self.store, topic, clock=self._clock, actor=SHARED)

    def delete(self, topic: str) -> None:
        """Delete a topic with its mode. Raises UnknownTopic."""
        topics.delete(self.store, topic, force=True, clock=self._clock, actor=SHARED)
        with suppress(UnknownGroup):
            groups.delete(self.store, _BROADCAST + topic, clock=self._clock, actor=SHARED)

    def _make(self, topic: str) -> None:
        if not self.has(topic):
            topics.create(self.store, topic, partitions=self._partitions, clock=self._clock, actor=SHARED)
