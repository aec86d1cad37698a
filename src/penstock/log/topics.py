"""What is computed for a topic: its UUID, its growth, and the bound of its messages.

UUID: used by Kafka's clients and in the folder names of a log in files. It is a hash of the log's id and the topic's,
so every process computes the same one, and no other topic has it, not even a later one of the same name.

Growth: each partition of the new map takes its keys from one partition of the old map. The new count is a multiple of
the old one, so `hash % new` leads back: `(hash % new) % old == hash % old`. An old partition goes on with fewer keys. A
new one takes keys over; their earlier records are in its former partition, below its end at that time.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from uuid import UUID

from penstock.database.database import Database
from penstock.errors import InvalidGrowth
from penstock.model.partition import check_partitions

from .contract import Growth, Position, Topic


def former_places(growths: Sequence[Growth], partition: int) -> list[Position]:
    """Return the former partitions of a partition's keys, latest first, each with its end at that growth."""
    places = []
    for growth in reversed(growths):
        if partition >= len(growth.ends):
            partition %= len(growth.ends)
            places.append(Position(partition, growth.ends[partition]))
    return places


def later_partitions(growths: Sequence[Growth], partitions: int, former: Collection[int]) -> set[int]:
    """Return the partitions of a topic that took keys over from the given ones when it grew."""
    return {
        number
        for number in range(partitions)
        if number not in former and any(place.partition in former for place in former_places(growths, number))
    }


def check_growth(topic: Topic, partitions: int) -> int:
    """Return the count if the topic can grow to it. Raises InvalidPartitions, InvalidGrowth."""
    check_partitions(partitions)
    if partitions < topic.partitions or partitions % topic.partitions:
        raise InvalidGrowth(topic.name, topic.partitions, partitions)
    return partitions


MESSAGE_BYTES = "max.message.bytes"  # topic config
_KNOWN_SECONDS = 1.0  # for which what was looked up is taken as it was


class MessageBounds:
    """The bounds by topic, in memory. Safe from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Mapping[str, int] = MappingProxyType({})
        self._looked: float | None = None

    def of(self, topic: str) -> int | None:
        """Return a topic's own bound, as it was when it was looked up last; None: it has none."""
        return self._known.get(topic)

    def are_known(self, now: float) -> bool:
        """Return whether they were looked up just now: without waiting."""
        return self._looked is not None and 0 <= now - self._looked < _KNOWN_SECONDS

    def refresh(self, now: float) -> None:
        """Look them up."""
        rows = self._database.look(lambda tx: tx.rows("log", "topics_with_config", name=MESSAGE_BYTES))
        self._known = MappingProxyType({name: int(value) for name, value in rows})
        self._looked = now


def topic_uuid(log_id: str, topic_id: int) -> UUID:
    """Return the UUID of a topic."""
    return UUID(bytes=blake2b(f"{log_id}/{topic_id}".encode(), digest_size=16).digest())
