"""How a topic grows: each partition of the new map takes its keys from one partition of the old map.

The new count is a multiple of the old one, so `hash % new` leads back: `(hash % new) % old == hash % old`. An
old partition goes on with fewer keys. A new one takes keys over; their earlier records are in its former
partition, below the offset where that one ended when the topic grew.
"""

from collections.abc import Collection, Sequence

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
