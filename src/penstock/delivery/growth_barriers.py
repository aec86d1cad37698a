"""The partitions where keys were before their topic grew, and the progress of one group in them.

A partition added by growth is open to a group once the group has passed its former partitions up to their ends at that
time; keys that still have a lane there wait, each on its own. Where a former partition waits as one lane, nothing from
before may be left in it. Records retried alone or late have no order to keep.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.errors import UnknownTopic
from penstock.log.contract import Bounds, Growth, Log, Topic
from penstock.log.store import Store
from penstock.log.topics import former_places
from penstock.model.partition import partition_for

from .lane import SHARED, WHOLE, LaneId, SideLane, stored_lane

OLDEST_VERSION = 9  # of the tables: code that knows no later one would not keep the order of a topic that grows


class Barrier(NamedTuple):
    """Whether a partition may be read by a group, and the lanes in it that must wait."""

    is_open: bool = True
    barred: frozenset[LaneId] = frozenset()


OPEN = Barrier()


class FormerPartitions:
    """The work that one group still has in former partitions of one topic. One thread at a time."""

    def __init__(self, store: Store, group_id: int, topic: Topic) -> None:
        self._store, self._topic = store, topic
        self._ids = {"group_id": group_id, "topic_id": topic.id}
        self._growths: list[Growth] = []
        self.partitions = topic.partitions  # of the topic, when it was last looked at

    def barriers(self, tx: Transaction, partitions: Collection[int]) -> dict[int, Barrier]:
        """Return the barriers of some partitions; open ones with nothing to wait for are left out."""
        log = self._store.log_in(tx)
        self._look(log)
        former = {number: places for number in partitions if (places := tuple(former_places(self._growths, number)))}
        if not former:
            return {}
        numbers = sorted({place.partition for places in former.values() for place in places})
        # In this order: a record that a cursor has passed is in a lane by then, if it is not done.
        at = {row[0]: row[1] for row in tx.rows("delivery", "cursors_places", partitions=numbers, **self._ids)}
        lanes = self._lanes(tx, numbers)
        if any(at.get(number, end) < end for places in former.values() for number, end in places):
            bounds = log.all_bounds(self._topic)  # records no longer kept have been passed, too
            at = {number: max(place, bounds[number].start) for number, place in at.items() if number in bounds}
        firsts = self._firsts(tx, [number for number, names in lanes.items() if WHOLE in names])
        return {
            number: Barrier(
                all(at.get(partition, end) >= end and firsts.get(partition, end) >= end for partition, end in places),
                frozenset(
                    name
                    for place in places
                    for name, homes in lanes.get(place.partition, {}).items()
                    if number in homes
                ),
            )
            for number, places in former.items()
        }

    def _look(self, log: Log) -> None:
        try:
            topic = log.topic(self._topic.name)
        except UnknownTopic:
            return
        if topic.id == self._topic.id:
            self.partitions = topic.partitions
            if topic.generation != len(self._growths):
                self._growths = log.growths(topic)

    def _lanes(self, tx: Transaction, partitions: list[int]) -> dict[int, dict[LaneId, set[int]]]:
        """Return the lanes that later records of their keys must wait for, and where such records can be."""
        found: dict[int, dict[LaneId, set[int]]] = {}
        for partition, *row in tx.rows("delivery", "lanes_load", partitions=partitions, **self._ids):
            lane = SideLane(*row[:4])
            if lane.alone == SHARED and not lane.late:
                homes = set[int]() if lane.whole else self._homes(lane.key)
                found.setdefault(partition, {})[stored_lane(*lane)] = homes
        return found

    def _homes(self, key: str) -> set[int]:
        data = key.encode("utf-8", "surrogateescape")
        counts = {self.partitions, *(len(growth.ends) for growth in self._growths)}
        return {partition_for(self._topic.partitioner, data, key, count) for count in counts}

    def _firsts(self, tx: Transaction, partitions: list[int]) -> dict[int, int]:
        """Return the first record that some partitions, which wait as one lane, wait for."""
        if not partitions:
            return {}
        rows = tx.rows("delivery", "whole_lanes_first", partitions=partitions, **self._ids)
        return {row[0]: row[1] for row in rows}


def add_cursors(tx: Transaction, topic: Topic, bounds: Mapping[int, Bounds], partitions: int) -> None:
    """Create cursors, for a locked topic that grows to `partitions`, at the start of those a group lacks."""
    starts = {number: bounds[number].start if number in bounds else 0 for number in range(partitions)}
    cursors = Rows(partition=list(starts), place=list(starts.values()))
    if tx.change("delivery", "cursors_grow", topic_id=topic.id, cursors=cursors):
        tx.execute("delivery", "cursors_measure", {})
