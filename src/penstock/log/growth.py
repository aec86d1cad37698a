"""How a topic grows: each partition of the new map has the keys of one partition of the map before.

The new count is a multiple of the one before, so `hash % new` leads back: `(hash % new) % old == hash % old`.
A partition that was there goes on, with fewer keys; one that is new takes keys over, and what was written of
them before stands in its former partition, below the offset where that one ended when the topic grew.
"""

from collections.abc import Collection, Sequence

from penstock.errors import InvalidGrowth
from penstock.model.partition import check_partitions

from .contract import Growth, Position, Topic


def former_places(growths: Sequence[Growth], partition: int) -> list[Position]:
    """Return where the keys of a partition were before, the last place first, each up to where it ended."""
    places = []
    for growth in reversed(growths):
        if partition >= len(growth.ends):
            partition %= len(growth.ends)
            places.append(Position(partition, growth.ends[partition]))
    return places


def later_partitions(growths: Sequence[Growth], partitions: int, former: Collection[int]) -> set[int]:
    """Return which of a topic's partitions, beside some, took keys over from those when it grew."""
    return {
        number
        for number in range(partitions)
        if number not in former and any(place.partition in former for place in former_places(growths, number))
    }


def check_growth(topic: Topic, partitions: int) -> int:
    """Return a count that a topic can grow to. Raises InvalidPartitions, InvalidGrowth."""
    check_partitions(partitions)
    if partitions < topic.partitions or partitions % topic.partitions:
        raise InvalidGrowth(topic.name, topic.partitions, partitions)
    return partitions
