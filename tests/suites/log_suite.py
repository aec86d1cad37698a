"""The conformance suite of `penstock.log.contract.Log`, for every log.

Plain test methods over a fixture `log`, an empty log of an engine. Its parts are classes with one subject
each; `LogSuite` combines them.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.errors import (
    InvalidPartitions,
    InvalidTopic,
    OffsetOutOfRange,
    PartitionsDiffer,
    UnknownPartition,
    UnknownTopic,
)
from penstock.log.contract import OUTBOX_PARTITIONS, Log, Position
from tests.suites.log_contents import ContentSuite, TimeSuite
from tests.suites.log_growing import GrowingSuite
from tests.suites.log_keeping import KeepingSuite, ProducerSuite
from tests.suites.log_reading import RangeSuite, SearchSuite
from tests.suites.records import a_record, some_records
from tests.suites.refusal import refusal

# Appendix B of the requirements: a key, and its partition among 8, 100 and 256.
PLACES = {
    "order-123": {8: 5, 100: 93, 256: 189},
    "user-456": {8: 6, 100: 66, 256: 22},
    "order-789": {8: 4, 100: 72, 256: 244},
    "order-1": {8: 1, 100: 25, 256: 33},
    "a": {8: 2, 100: 50, 256: 178},
}
NO_TOPICS = ("", ".", "..", "a b", "a/b", "ü", "a\n", "a\x00b", "x" * 250, "t'; DROP TABLE penstock_head; --")


class TopicSuite:
    """Topics: creation, lookup, listing, deletion."""

    def test_a_new_topic_has_the_partitions_asked_for(self, log: Log) -> None:
        """It is found by its name."""
        made = log.create_topic("orders", partitions=3)
        assert (made.name, made.partitions) == ("orders", 3)
        assert log.topic("orders") == made
        assert [log.bounds("orders", place) for place in range(3)] == [(0, 0)] * 3

    def test_a_topic_has_256_partitions_unless_told_otherwise(self, log: Log) -> None:
        """The number of slots, so that one sequencer feeds one partition."""
        assert log.create_topic("events").partitions == OUTBOX_PARTITIONS == 256

    def test_creating_a_topic_again_returns_the_one_that_is_there(self, log: Log) -> None:
        """With all it holds."""
        made = log.create_topic("orders", partitions=1)
        log.append("orders", some_records(2))
        assert log.create_topic("orders", partitions=1) == made
        assert log.bounds("orders", 0) == (0, 2)

    def test_another_partition_count_is_refused_and_changes_nothing(self, log: Log) -> None:
        """Keys would move."""
        made = log.create_topic("orders", partitions=2)
        error = refusal(PartitionsDiffer, log.create_topic, "orders", partitions=3)
        assert "2 partitions, not 3" in str(error)
        assert log.topics() == [made]
        refusal(UnknownPartition, log.bounds, "orders", 2)

    def test_topics_are_listed_by_name(self, log: Log) -> None:
        """By code point, on every engine."""
        assert log.topics() == []
        for name in ("b", "a", "B", "a.1", "a-1", "_x"):
            log.create_topic(name, partitions=1)
        assert [topic.name for topic in log.topics()] == ["B", "_x", "a", "a-1", "a.1", "b"]

    def test_a_topic_that_is_not_there_is_unknown_to_every_call(self, log: Log) -> None:
        """No call creates it."""
        log.create_topic("orders", partitions=1)
        for call, args in _calls(log, "other"):
            assert "'other'" in str(refusal(UnknownTopic, call, *args))
        assert [topic.name for topic in log.topics()] == ["orders"]

    def test_names_that_are_no_topic_are_refused_by_every_call(self, log: Log) -> None:
        """Whatever their characters."""
        for name in NO_TOPICS:
            refusal(InvalidTopic, log.create_topic, name)
            for call, args in _calls(log, name):
                refusal(InvalidTopic, call, *args)
        assert log.topics() == []

    def test_the_longest_name_and_all_characters_that_may_stand_in_one_are_taken(self, log: Log) -> None:
        """As in Kafka."""
        for name in ("x" * 249, "AZaz09._-", "...", "-"):
            assert log.create_topic(name, partitions=1).name == name

    def test_a_partition_count_out_of_range_is_refused(self, log: Log) -> None:
        """No topic is created."""
        for partitions in (0, -1, 10_001, 1.5, True, "8", None):
            refusal(InvalidPartitions, log.create_topic, "orders", partitions=partitions)
        assert log.topics() == []

    def test_a_deleted_topic_is_gone_and_others_stay(self, log: Log) -> None:
        """With its records, and without touching others."""
        for name in ("orders", "users"):
            log.create_topic(name, partitions=2)
            log.append(name, some_records(3), partition=1)
        log.delete_topic("orders")
        refusal(UnknownTopic, log.topic, "orders")
        refusal(UnknownTopic, log.read, "orders", 1)
        refusal(UnknownTopic, log.delete_topic, "orders")
        assert [topic.name for topic in log.topics()] == ["users"]
        assert len(log.read("users", 1)) == 3

    def test_a_name_given_again_is_a_new_topic_and_empty(self, log: Log) -> None:
        """Its id is not reused, so a stale reference cannot be mistaken for it."""
        ids = []
        for partitions in (2, 5, 2):
            ids.append(log.create_topic("orders", partitions=partitions).id)
            assert [log.bounds("orders", place) for place in range(partitions)] == [(0, 0)] * partitions
            assert log.append("orders", [a_record()], partition=1) == [(1, 0)]
            log.delete_topic("orders")
        assert len(set(ids)) == 3


class AppendSuite:
    """Appending: dense offsets, and the right partition."""

    def test_offsets_are_dense_from_0_in_each_partition(self, log: Log) -> None:
        """Over several appends, in the given order."""
        log.create_topic("t", partitions=2)
        assert log.append("t", some_records(3), partition=0) == [(0, 0), (0, 1), (0, 2)]
        assert log.append("t", some_records(1), partition=1) == [(1, 0)]
        assert log.append("t", some_records(2), partition=0) == [(0, 3), (0, 4)]
        assert [log.bounds("t", place) for place in range(2)] == [(0, 5), (0, 1)]

    def test_one_append_may_go_to_several_partitions(self, log: Log) -> None:
        """Positions come in the order of the records; within a partition that is the order of offsets."""
        log.create_topic("t", partitions=8)
        records = [a_record(key) for _ in range(3) for key in PLACES]
        positions = log.append("t", records)
        assert positions == [(PLACES[key][8], turn) for turn in range(3) for key in PLACES]
        for position, record in zip(positions, records, strict=True):
            assert log.read("t", *position, limit=1)[0].id == record.id

    def test_a_key_goes_to_the_partition_of_its_hash(self, log: Log) -> None:
        """The vectors of the requirements, for counts that are and are not powers of two."""
        for partitions in (8, 100, 256):
            log.create_topic(f"t-{partitions}", partitions=partitions)
            positions = log.append(f"t-{partitions}", [a_record(key) for key in PLACES])
            assert [place for place, _ in positions] == [places[partitions] for places in PLACES.values()]

    def test_a_record_without_a_key_goes_where_its_id_belongs(self, log: Log) -> None:
        """So that a retry of the same record goes to the same partition."""
        log.create_topic("t", partitions=100)
        positions = log.append("t", [a_record(None, id=id) for id in PLACES])
        assert [place for place, _ in positions] == [places[100] for places in PLACES.values()]

    def test_a_partition_that_is_named_takes_any_key(self, log: Log) -> None:
        """The caller has placed the record by its own rule."""
        log.create_topic("t", partitions=256)
        assert log.append("t", [a_record(key) for key in PLACES], partition=7) == [
            (7, offset) for offset in range(len(PLACES))
        ]

    def test_an_unknown_partition_is_refused_and_nothing_is_written(self, log: Log) -> None:
        """The message names the existing ones."""
        log.create_topic("t", partitions=3)
        for partition in (-1, 3, 2**40, 2**70):
            error = refusal(UnknownPartition, log.append, "t", some_records(2), partition=partition)
            assert "0 to 2" in str(error)
            for call in (log.read, log.bounds):
                refusal(UnknownPartition, call, "t", partition)
            refusal(UnknownPartition, log.offset_at, "t", partition, 0)
        assert [log.bounds("t", place) for place in range(3)] == [(0, 0)] * 3

    def test_appending_nothing_gives_no_position(self, log: Log) -> None:
        """It is no error."""
        log.create_topic("t", partitions=1)
        assert log.append("t", []) == []
        assert log.bounds("t", 0) == (0, 0)

    def test_appends_from_many_threads_get_distinct_dense_offsets(self, log: Log) -> None:
        """Each append whole and in its own order."""
        log.create_topic("t", partitions=2)
        keys = ["a", "order-1", "order-789"]

        def appended(turn: int) -> list[Position]:
            return log.append("t", [a_record(key, id=f"{turn}") for key in keys])

        with ThreadPoolExecutor(4) as pool:
            positions = [position for each in pool.map(appended, range(20)) for position in each]
        assert len(set(positions)) == 60
        for place in range(2):
            end = log.bounds("t", place).end
            assert sorted(offset for p, offset in positions if p == place) == list(range(end))
            turns = [record.id for record in log.read("t", place)]
            runs = [turn for turn, before in zip(turns, [None, *turns], strict=False) if turn != before]
            assert len(runs) == len(set(runs)), "an append was torn apart"


class ReadSuite:
    """Reading: from an offset, within limits."""

    def test_reading_gives_the_records_from_an_offset_on(self, log: Log) -> None:
        """With the position of each."""
        ids = _filled(log, 10)
        for offset in (0, 4, 9):
            records = log.read("t", 1, offset)
            assert [record.id for record in records] == ids[offset:]
            assert [(r.topic, r.partition, r.offset) for r in records] == [
                ("t", 1, place) for place in range(offset, 10)
            ]

    def test_reading_changes_nothing(self, log: Log) -> None:
        """A repeated read gives the same."""
        _filled(log, 5)
        assert log.read("t", 1) == log.read("t", 1)
        assert log.bounds("t", 1) == (0, 5)

    def test_no_more_than_the_limit_is_read(self, log: Log) -> None:
        """Also with a limit of 0."""
        ids = _filled(log, 10)
        assert [record.id for record in log.read("t", 1, 3, 4)] == ids[3:7]
        assert [record.id for record in log.read("t", 1, 8, 4)] == ids[8:]
        assert log.read("t", 1, 3, 0) == []

    def test_a_byte_limit_ends_a_read_early(self, log: Log) -> None:
        """Not far above it, and the next read continues without a gap."""
        log.create_topic("t", partitions=1)
        log.append("t", some_records(50, data=b"x" * 1000))
        first = log.read("t", 0, max_bytes=10_000)
        assert 5 <= len(first) <= 11
        rest = log.read("t", 0, len(first), max_bytes=10**9)
        assert [record.offset for record in first + rest] == list(range(50))

    def test_keys_and_headers_count_as_bytes_too(self, log: Log) -> None:
        """Otherwise a reader's memory would not be bounded."""
        log.create_topic("t", partitions=1)
        log.append("t", some_records(20, data=None, raw_headers=(("h", b"x" * 1000),)))
        log.append("t", some_records(20, data=None, key="k" * 1000))
        assert len(log.read("t", 0, 0, max_bytes=5_000)) <= 6
        assert len(log.read("t", 0, 20, max_bytes=5_000)) <= 6

    def test_a_record_larger_than_the_byte_limit_is_read_alone(self, log: Log) -> None:
        """Otherwise a reader could never pass it."""
        log.create_topic("t", partitions=1)
        log.append("t", [a_record(data=b"x" * size) for size in (5_000, 10, 6_000, 7_000)])
        for offset in (0, 2, 3):
            for max_bytes in (0, 1, 100, 5_000):
                (record,) = log.read("t", 0, offset, max_bytes=max_bytes)
                assert record.offset == offset

    def test_erased_records_are_passed_over(self, log: Log) -> None:
        """However many there are, and however small the limit."""
        ids = _filled(log, 300)
        log.erase(log.topic("t"), [Position(1, offset) for offset in range(1, 290)])
        assert [record.id for record in log.read("t", 1, 1, 1)] == ids[290:291]
        assert [record.id for record in log.read("t", 1)] == [ids[0], *ids[290:]]

    def test_at_the_end_there_is_nothing(self, log: Log) -> None:
        """It is no error: the next record will be there."""
        _filled(log, 3)
        assert log.read("t", 1, 3) == []
        assert log.read("t", 0, 0) == []

    def test_beyond_the_end_and_before_the_start_is_out_of_range(self, log: Log) -> None:
        """The error holds the range."""
        _filled(log, 3)
        for offset in (-1, 4, 10**6, 2**63, 2**70, -(2**70)):
            error = refusal(OffsetOutOfRange, log.read, "t", 1, offset)
            assert (error.start, error.end) == (0, 3)
            assert "from 0 up to 3 (exclusive)" in str(error)
        assert refusal(OffsetOutOfRange, log.read, "t", 0, 1).end == 0


class LogSuite(
    TopicSuite,
    GrowingSuite,
    AppendSuite,
    ReadSuite,
    TimeSuite,
    ContentSuite,
    RangeSuite,
    SearchSuite,
    ProducerSuite,
    KeepingSuite,
):
    """The whole suite."""


def _filled(log: Log, many: int) -> list[str]:
    """Fill partition 1 of a topic of two and return the ids."""
    log.create_topic("t", partitions=2)
    records = some_records(many)
    log.append("t", records, partition=1)
    return [record.id for record in records]


def _calls(log: Log, topic: str) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield every call that needs an existing topic, with its arguments."""
    yield log.topic, (topic,)
    yield log.append, (topic, [a_record()])
    yield log.append, (topic, [])
    yield log.read, (topic, 0)
    yield log.bounds, (topic, 0)
    yield log.offset_at, (topic, 0, 0)
    yield log.grow, (topic, 512)
    yield log.delete_topic, (topic,)
