"""The topics of one store as this broker knows them, in memory; refreshed when there may be new ones."""

from threading import Lock
from types import MappingProxyType
from uuid import UUID

from penstock.clock import Clock
from penstock.errors import UnknownTopic
from penstock.log.contract import Log, Topic
from penstock.log.topics import MessageBounds, topic_uuid


class Topics:
    """All topics by name and id. `version` rises when one is made, deleted or grown. Safe from any thread."""

    def __init__(self, log: Log, bounds: MessageBounds, clock: Clock) -> None:
        self._log, self.bounds, self._clock, self._lock = log, bounds, clock, Lock()
        self.cluster_id = log.identity().id  # the name of the log, as the cluster's
        self.version = 0
        self._listed: list[Topic] = []
        self.by_name: MappingProxyType[str, Topic] = MappingProxyType({})
        self.by_id: MappingProxyType[int, Topic] = MappingProxyType({})
        self.by_uuid: MappingProxyType[UUID, Topic] = MappingProxyType({})

    def refresh(self) -> None:
        """Read the present topics."""
        with self._lock:
            found = self._log.topics()
            self.bounds.refresh(self._clock.monotonic())
            if found == self._listed:
                return
            self._listed = found
            self.by_name = MappingProxyType({each.name: each for each in found})
            self.by_id = MappingProxyType({each.id: each for each in found})
            self.by_uuid = MappingProxyType({self.uuid(each): each for each in found})
            self.version += 1

    def get(self, name: str) -> Topic:
        """Return a known topic. Raises UnknownTopic."""
        found = self.by_name.get(name)
        if found is None:
            raise UnknownTopic(name)
        return found

    def having(self, name: str, partition: int) -> Topic | None:
        """Return a known topic, if it has a partition."""
        topic = self.by_name.get(name)
        return topic if topic is not None and 0 <= partition < topic.partitions else None

    def uuid(self, topic: Topic) -> UUID:
        """Return the id by which Kafka's clients know a topic: permanent, and never another topic's."""
        return topic_uuid(self.cluster_id, topic.id)
