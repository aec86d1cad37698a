"""What the Kafka port changes in a store beyond records: handed in from above, where people do the same."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.access.rule import AccessRule
from penstock.log.contract import Compaction, Keep, Topic


class Administration(Protocol):
    """Topics made, deleted, grown and set; groups deleted. Each call is one operation, with its audit."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        partitioner: str,
        keep: Keep,
        configs: Mapping[str, str],
        compaction: Compaction | None = None,
    ) -> None:
        """Make a topic. Raises InvalidTopic, InvalidPartitions, PartitionsDiffer when it is there."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises UnknownTopic, TopicBusy."""

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions. Raises UnknownTopic, InvalidGrowth."""

    def set_topic(
        self, topic: Topic, keep: Keep, configs: Mapping[str, str | None], compaction: Compaction | None
    ) -> None:
        """Set what is kept of a topic, how it is compacted, and other configs; None takes one away.

        Raises UnknownTopic, StoreUnsupported.
        """

    def trim_topic(self, topic: Topic, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset. Raises OffsetOutOfRange."""

    def add_rules(self, rules: Sequence[AccessRule], by: str) -> tuple[AccessRule, ...]:
        """Add rules of access to the database; return all that it has then."""

    def remove_rules(self, rules: Sequence[AccessRule], by: str, *, last: bool) -> tuple[AccessRule, ...]:
        """Remove rules of access from the database; return all that it has then.

        Raises LeftOpen if it would have none, unless `last`.
        """

    def delete_group(self, name: str) -> None:
        """Delete a group and where it is. Raises UnknownGroup."""
