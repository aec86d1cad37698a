"""Changes that the Kafka port makes to a store beyond records, handed in from a room above."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.access.rule import AccessRule
from penstock.log.contract import Compaction, Keep, Topic


class Administration(Protocol):
    """Creates, deletes, grows and sets topics; deletes groups. Each call is one operation, with its audit."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        partitioner: str,
        keep: Keep,
        configs: Mapping[str, str],
        compaction: Compaction | None = None,
    ) -> None:
        """Create a topic. Raises InvalidTopic, InvalidPartitions, PartitionsDiffer if it exists."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises UnknownTopic, TopicBusy."""

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions. Raises UnknownTopic, InvalidGrowth."""

    def set_topic(
        self, topic: Topic, keep: Keep, configs: Mapping[str, str | None], compaction: Compaction | None
    ) -> None:
        """Set a topic's retention, compaction, and other configs; None removes one.

        Raises UnknownTopic, StoreUnsupported.
        """

    def trim_topic(self, topic: Topic, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset. Raises OffsetOutOfRange."""

    def add_rules(self, rules: Sequence[AccessRule], by: str) -> tuple[AccessRule, ...]:
        """Add access rules to the database; return all rules it has then."""

    def remove_rules(self, rules: Sequence[AccessRule], by: str, *, last: bool) -> tuple[AccessRule, ...]:
        """Remove access rules from the database; return all rules it has then.

        Raises LeftOpen if none would be left, unless `last`.
        """

    def delete_group(self, name: str) -> None:
        """Delete a group and its offsets. Raises UnknownGroup."""
