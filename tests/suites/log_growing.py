"""A part of the log suite: topics that grow."""

from concurrent.futures import ThreadPoolExecutor

from penstock.errors import InvalidGrowth, InvalidPartitions
from penstock.log.contract import Growth, Log
from penstock.log.topics import former_places
from penstock.model.partition import KAFKA, MURMUR3, partition_for, partition_of
from tests.suites.records import a_record
from tests.suites.refusal import refusal

_KEYS = [f"k-{number}" for number in range(30)]


class GrowingSuite:
    """More partitions for a topic: old records stay, new ones are placed by the new map."""

    def test_a_topic_that_grows_has_more_partitions_and_what_it_held(self, log: Log) -> None:
        """Old partitions continue their offsets, new partitions begin at 0."""
        made = log.create_topic("t", partitions=2)
        log.append("t", [a_record() for _ in range(3)], partition=1)
        grown = log.grow("t", 6)
        assert (grown.id, grown.partitions, grown.generation) == (made.id, 6, 1)
        assert log.topic("t") == grown
        assert [tuple(each) for each in log.all_bounds(grown).values()] == [(0, 0), (0, 3), *[(0, 0)] * 4]
        assert log.append("t", [a_record()], partition=1) == [(1, 3)]
        assert log.append("t", [a_record()], partition=5) == [(5, 0)]

    def test_a_topic_remembers_where_its_partitions_ended(self, log: Log) -> None:
        """For each growth; the former places of a key follow from it."""
        log.create_topic("t", partitions=2)
        log.append("t", [a_record() for _ in range(3)], partition=1)
        log.grow("t", 4)
        log.append("t", [a_record()], partition=3)
        grown = log.grow("t", 8)
        growths = log.growths(grown)
        assert growths == [Growth((0, 3)), Growth((0, 3, 0, 1))]
        assert former_places(growths, 7) == [(3, 1), (1, 3)]
        assert former_places(growths, 6) == [(2, 0), (0, 0)]
        assert former_places(growths, 5) == [(1, 3)]
        assert former_places(growths, 1) == []

    def test_keys_go_by_the_new_map_whatever_places_them(self, log: Log) -> None:
        """The former partition is the one that held the key."""
        for partitioner in (MURMUR3, KAFKA):
            log.create_topic(partitioner, partitions=4, partitioner=partitioner)
            log.append(partitioner, [a_record(key=key) for key in _KEYS])
            growths = log.growths(log.grow(partitioner, 12))
            places = log.append(partitioner, [a_record(key=key) for key in _KEYS])
            for key, place in zip(_KEYS, places, strict=True):
                assert place.partition == partition_for(partitioner, key.encode(), "", 12)
                before = [each.partition for each in former_places(growths, place.partition)]
                assert (before or [place.partition])[-1] == partition_for(partitioner, key.encode(), "", 4)

    def test_a_count_that_is_no_multiple_is_refused_and_changes_nothing(self, log: Log) -> None:
        """The present count changes nothing, either."""
        made = log.create_topic("t", partitions=4)
        for count in (1, 2, 3, 5, 6):
            refusal(InvalidGrowth, log.grow, "t", count)
        for count in (0, -4, 10_004):
            refusal(InvalidPartitions, log.grow, "t", count)
        assert log.grow("t", 4) == made == log.topic("t")
        assert log.growths(made) == []

    def test_a_reader_that_holds_something_holds_what_is_new(self, log: Log) -> None:
        """From its start on: it is unread."""
        topic = log.create_topic("t", partitions=2)
        log.hold("lake", topic, {0: 2, 1: 5})
        log.grow("t", 4)
        assert log.holds(topic) == {"lake": {0: 2, 1: 5, 2: 0, 3: 0}}

    def test_a_deleted_topic_has_not_grown(self, log: Log) -> None:
        """Nor has the next topic of its name."""
        log.create_topic("t", partitions=2)
        grown = log.grow("t", 4)
        log.delete_topic("t")
        assert log.growths(grown) == []
        assert log.growths(log.create_topic("t", partitions=2)) == []

    def test_what_is_appended_meanwhile_stands_in_one_map_or_the_other(self, log: Log) -> None:
        """Below the recorded end by the old map, at or above it by the new one."""
        log.create_topic("t", partitions=2)

        def append(number: int) -> None:
            for _ in range(20):
                log.append("t", [a_record(key=key) for key in _KEYS[number::3]])

        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(append, number) for number in range(3)]
            growth = pool.submit(log.grow, "t", 8)
            for each in done:
                each.result()
            growth.result()
        (growth_ends,) = log.growths(log.topic("t"))
        for number in range(8):
            for record in log.read("t", number, limit=10_000):
                assert record.key is not None
                assert record.offset is not None
                is_old = number < 2 and record.offset < growth_ends.ends[number]
                assert number == partition_of(record.key, 2 if is_old else 8)
