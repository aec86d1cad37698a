"""Administration through the Kafka port: the same operations that commands use, with their audit."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from penstock.access.rule import AccessRule
from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery.retention_trim import behind, trim
from penstock.log.contract import Compaction, Keep, OffsetRange, Topic
from penstock.log.store import Store

from . import access_rules, audit, groups, topics

ACTOR = "kafka"
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
        topics.create(self._store, name, partitions=partitions, partitioner=partitioner, clock=self._clock, actor=ACTOR)
        if keep != Keep() or configs or compaction:
            self.set_topic(self._store.log.topic(name), keep, configs, compaction)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, unless handlers work on it."""
        topics.delete(self._store, name, clock=self._clock, actor=ACTOR)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        topics.grow(self._store, name, partitions, clock=self._clock, actor=ACTOR)

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
            audit.write(tx, "topic set", subject, 1, own_ms(self._clock), actor=ACTOR)

        log = self._store.log
        changes = log.compaction(topic) != compaction
        if changes and compaction is None:
            log.compact(topic, None)
        self._store.database.run(change)
        if changes and compaction is not None:
            log.compact(topic, compaction)

    def trim_topic(self, topic: Topic, partition: int, before: int) -> None:
        """Delete the oldest records, unless a handler group has not read them yet."""
        seen_since_ms = 0 if own_ms(self._clock) is not None else _a_week_ago(self._clock)
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
        return access_rules.add(self._store, rules, clock=self._clock, actor=f"{ACTOR}:{by}")

    def remove_rules(self, rules: Sequence[AccessRule], by: str, *, last: bool) -> tuple[AccessRule, ...]:
        """Remove access rules."""
        actor = f"{ACTOR}:{by}"
        return access_rules.remove(self._store, rules, last=last, clock=self._clock, actor=actor)

    def delete_group(self, name: str) -> None:
        """Delete a group."""
        groups.delete(self._store, name, clock=self._clock, actor=ACTOR)


def _a_week_ago(clock: Clock) -> int:
    return clock.now_ms() - timedelta(days=7) // timedelta(milliseconds=1)
